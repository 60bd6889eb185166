//! Descriptors of this crate in the application's table, whose numbers the application may close or reuse at any time.
//!
//! Programs close every number from 3 up (daemons, `closefrom`), put files of their own onto any number (`dup2`), and expect the
//! lowest free number from `open`. Using a number after that would read, write or close another file. Therefore each
//! descriptor that stays open
//!
//! * has a high number, which the kernel gives to no `open` while lower ones are free;
//! * carries a mark in its open file: the watcher's thread is the owner of its signals (`F_SETOWN_EX` in
//!   <https://man7.org/linux/man-pages/man2/fcntl.2.html>). The file sends none, since `O_ASYNC` is not set, and no program
//!   knows this thread;
//! * is used only after a look at the mark. Without the mark it is lost, and never touched again.
//!
//! Not noticed is a thread of the program that replaces such a number between the look and the use.

#![expect(unsafe_code, reason = "marks open files, and closes numbers only if they are still its own")]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};
use rustix::thread::gettid;

/// An open file's owner, as the kernel's `fcntl.h` has it. The crate `libc` lacks these on glibc.
#[repr(C)]
struct Owner {
    kind: i32,
    id: i32,
}
const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
const F_OWNER_TID: i32 = 0;

/// Numbers begin this far below the limit of the process, but not above [`CEILING`]. Descriptors of a process share a table
/// that is as long as its highest number, and that `fork` copies.
const RESERVED: u64 = 32;
const CEILING: u64 = 4096;

/// Descriptors that are open, by [`Marked::word`]. At most these are open at a time: the watcher's alarm, the connection, the
/// instance that becomes ready when masks change, and a successor of each.
static OPEN: [AtomicU64; 6] = [const { AtomicU64::new(NONE) }; 6];
const NONE: u64 = 0;

/// An open file that was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marked {
    number: RawFd,
    /// The thread whose number the mark carries; never 0.
    by: i32,
}

/// A descriptor that stays open, and is closed when dropped.
#[derive(Debug)]
pub(super) struct Descriptor(Marked);

impl Descriptor {
    /// Takes over an open file that nothing else has open. On the watcher's thread: the mark is gone when its thread is.
    ///
    /// # Errors
    /// It can have no number from 3 up, or no mark.
    pub(super) fn new(fd: OwnedFd) -> Result<Self, Errno> {
        let fd = raise(fd)?;
        let owner = Owner { kind: F_OWNER_TID, id: gettid().as_raw_nonzero().get() };
        // SAFETY: the kernel reads the structure, which lives as long as the call.
        if unsafe { libc::fcntl(fd.as_raw_fd(), F_SETOWN_EX, &raw const owner) } != 0 {
            return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
        }
        let marked = Marked { number: ManuallyDrop::new(fd).as_raw_fd(), by: owner.id };
        // Without a free entry, a forked child keeps it.
        let _ = OPEN.iter().find(|entry| {
            entry.compare_exchange(NONE, marked.word(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        Ok(Self(marked))
    }

    /// For one use, right now. None: the application has closed or replaced the number.
    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: it is open, and this crate closes it in `drop` only. No borrow of a number can exclude that the program does.
        self.0.is_whole().then(|| unsafe { BorrowedFd::borrow_raw(self.0.number) })
    }
}

impl Marked {
    /// Whether the number is still the file that was marked.
    fn is_whole(self) -> bool {
        let mut owner = Owner { kind: 0, id: 0 };
        // SAFETY: the kernel fills in the structure, or fails.
        let code = unsafe { libc::fcntl(self.number, F_GETOWN_EX, &raw mut owner) };
        // An open file without an owner has the number zero.
        code == 0 && (owner.kind, owner.id) == (F_OWNER_TID, self.by)
    }

    /// The thread in the upper half, the number in the lower one.
    fn word(self) -> u64 {
        u64::from(self.by.cast_unsigned()) << u32::BITS | u64::from(self.number.cast_unsigned())
    }

    fn from_word(word: u64) -> Option<Self> {
        let by = (word >> u32::BITS) as i32;
        (by != 0).then_some(Self { number: word as i32, by })
    }
}

#[cfg(test)]
impl Descriptor {
    /// Puts a file of the program's onto the number, as `dup2` does.
    pub(super) fn replace_with(&self, file: &std::fs::File) {
        // SAFETY: the number is a descriptor that a test may replace.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), self.0.number) }, self.0.number);
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // Before it is closed: the number may be another descriptor's right afterwards.
        for entry in &OPEN {
            let _ = entry.compare_exchange(self.0.word(), NONE, Ordering::Relaxed, Ordering::Relaxed);
        }
        if self.get().is_some() {
            // SAFETY: it is this one's, by its mark.
            drop(unsafe { OwnedFd::from_raw_fd(self.0.number) });
        }
    }
}

/// In a forked child: closes its copies of its parent's descriptors. They would keep the parent's connection open, and the
/// controller takes the connection's end for the end of the process. Async-signal-safe.
pub(crate) fn after_fork_in_child() {
    for entry in &OPEN {
        if let Some(marked) = Marked::from_word(entry.swap(NONE, Ordering::Relaxed))
            && marked.is_whole()
        {
            // SAFETY: the parent's watcher owns it; no thread uses it here, since that one is not there.
            unsafe { libc::close(marked.number) };
        }
    }
}

/// The same open file with a number that programs do not meet.
///
/// # Errors
/// No number from 3 up is free.
pub(super) fn raise(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(CEILING).min(CEILING);
    // Numbers below 3 are never kept: programs open files there and call them standard input and output.
    let lowest = RawFd::try_from(limit.saturating_sub(RESERVED)).unwrap_or(3).max(3);
    let raised = fcntl_dupfd_cloexec(&fd, lowest).or_else(|_| fcntl_dupfd_cloexec(&fd, 3));
    drop(fd);
    raised
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn descriptor() -> Descriptor {
        Descriptor::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap()).unwrap()
    }

    #[test]
    fn a_descriptor_that_the_program_closed_or_replaced_is_never_used_or_closed() {
        let (mine, closed, replaced) = (descriptor(), descriptor(), descriptor());
        let [mine_was, closed_was, replaced_was] = [&mine, &closed, &replaced].map(|descriptor| descriptor.0);
        assert!(mine_was.number >= 3 && mine.get().is_some());
        // SAFETY: as a program does that closes what it does not know.
        unsafe { libc::close(closed_was.number) };
        let mut file = tempfile::tempfile().unwrap();
        replaced.replace_with(&file);
        assert!(mine.get().is_some() && closed.get().is_none() && replaced.get().is_none());
        drop((mine, closed, replaced));
        // Another thread may have the number of a closed one by now.
        assert!(!mine_was.is_whole() && !closed_was.is_whole());
        // SAFETY: asks about a number, which need not be open.
        let is_open = unsafe { libc::fcntl(replaced_was.number, libc::F_GETFD) } >= 0;
        assert!(is_open, "the program's file stays open");
        file.write_all(b"still writable").unwrap();
    }

    #[test]
    fn a_mark_is_the_open_files_and_not_the_numbers() {
        let (one, other) = (descriptor(), descriptor());
        // Not even another file of this crate's passes.
        let of_other_thread = thread::spawn(descriptor).join().unwrap();
        let as_ones = Marked { number: of_other_thread.0.number, by: one.0.by };
        assert!(!as_ones.is_whole() && one.get().is_some() && other.get().is_some());
    }

    #[test]
    fn another_thread_that_marks_takes_no_descriptor_away() {
        let one = descriptor();
        thread::spawn(|| assert!(descriptor().get().is_some())).join().unwrap();
        assert!(one.get().is_some());
    }

    #[test]
    fn a_descriptor_is_told_by_its_word() {
        let marked = Marked { number: 4064, by: i32::MAX };
        assert_eq!(Marked::from_word(marked.word()), Some(marked));
        assert_eq!(Marked::from_word(NONE), None);
    }
}
