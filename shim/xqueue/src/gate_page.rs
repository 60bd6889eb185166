//! A gate that the arbiter closes by itself: a word in memory that it shares with this process, and this process with its device.
//!
//! ```text
//!   arbiter   writes GATE_ALLOWED     in the moment in which a mask changes, and that time
//!   process   writes GATE_KEPT_OPEN   while the arbiter page is not in force, or something must not be stopped
//!                    GATE_QUIET       in another word, while it need not be woken when it is preempted
//!   device    begins what is behind   while any of them is set
//! ```
//!
//! So a process is preempted without waking any of its threads.

#![expect(unsafe_code, reason = "maps a gate page")]

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use xsched_protocol::arbiter_page::{
    GATE_ALLOWED, GATE_CLOSED_AT, GATE_KEPT_OPEN, GATE_OPEN, GATE_OPENED_AT, GATE_QUIET, GATE_SIZE,
    GATE_WISHES,
};

const WORDS: usize = GATE_SIZE / size_of::<AtomicU64>();

/// A word to try the memory out with, in another cache line than the gate.
const TRIAL: usize = 8;

/// The page of one queue's gate, mapped.
#[derive(Debug)]
pub struct GatePage(NonNull<[AtomicU64; WORDS]>);

// SAFETY: atomic words that any thread may use.
unsafe impl Send for GatePage {}
// SAFETY: as above.
unsafe impl Sync for GatePage {}

impl GatePage {
    /// Maps the page behind a descriptor.
    ///
    /// # Errors
    /// It cannot be mapped to write, or is too short.
    pub fn map(page: impl AsFd) -> Result<Self, Errno> {
        let page = page.as_fd();
        if is_short(page)? {
            return Err(Errno::INVAL);
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe { mmap(ptr::null_mut(), GATE_SIZE, access, MapFlags::SHARED, page, 0) }?;
        // A forked child has no business with its parent's gate. Where the kernel cannot leave it out, the child has it and does
        // not use it.
        // SAFETY: the mapping that was made just now.
        let _ = unsafe { madvise(start, GATE_SIZE, Advice::LinuxDontFork) };
        NonNull::new(start.cast()).map(Self).ok_or(Errno::NOMEM)
    }

    /// Where it begins, in this process's memory.
    pub fn start(&self) -> NonNull<c_void> {
        self.0.cast()
    }

    /// The gate.
    pub fn word(&self) -> &AtomicU64 {
        &self.words()[0]
    }

    /// A word that is not used.
    pub fn trial(&self) -> &AtomicU64 {
        &self.words()[TRIAL]
    }

    /// Whether the arbiter lets commands begin.
    pub(super) fn is_allowed(&self) -> bool {
        self.word().load(Ordering::Acquire) & GATE_ALLOWED != 0
    }

    /// From when until when the arbiter last let none begin, on its page's clock; None: it still does not. None at all if it always
    /// has, or is changing it right now.
    pub(super) fn last_closure(&self) -> Option<(u64, Option<u64>)> {
        // Before the times, which are written before it.
        let is_allowed = self.is_allowed();
        let [closed, opened] =
            [GATE_CLOSED_AT, GATE_OPENED_AT].map(|word| self.words()[word].load(Ordering::Acquire));
        match is_allowed {
            _ if closed == 0 => None,
            true => (opened >= closed).then_some((closed, Some(opened))),
            false => Some((closed, None)),
        }
    }

    /// Whether commands begin.
    pub(super) fn is_open(&self) -> bool {
        self.word().load(Ordering::Acquire) & GATE_OPEN != 0
    }

    /// Has commands begin whatever the arbiter says, or not any more.
    pub(super) fn keep_open(&self, keeps: bool) {
        let is_kept = self.word().load(Ordering::Acquire) & GATE_KEPT_OPEN != 0;
        match keeps {
            _ if keeps == is_kept => {}
            true => drop(self.word().fetch_or(GATE_KEPT_OPEN, Ordering::AcqRel)),
            false => drop(self.word().fetch_and(!GATE_KEPT_OPEN, Ordering::AcqRel)),
        }
    }

    /// Asks the arbiter to wake no thread when commands do not begin any more, or takes that back.
    pub(super) fn ask_for_quiet(&self, asks: bool) {
        let wishes = if asks { GATE_QUIET } else { 0 };
        if self.wishes() != wishes {
            // Before the gate is looked at next, as the arbiter looks here after it has written there.
            self.words()[GATE_WISHES].store(wishes, Ordering::SeqCst);
        }
    }

    fn wishes(&self) -> u64 {
        self.words()[GATE_WISHES].load(Ordering::Acquire)
    }

    fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: mapped for as long as this lives, with so many words, which all writers change whole.
        unsafe { self.0.as_ref() }
    }
}

/// A file in memory must be there to the page's end, or the process would be killed for reading it. A BPF map, which knows no
/// seals, is as large as what can be mapped of it.
fn is_short(page: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fcntl_get_seals(page).is_ok() && fstat(page)?.st_size < GATE_SIZE as i64)
}

impl Drop for GatePage {
    fn drop(&mut self) {
        // SAFETY: its own mapping, which nothing refers to any more. What could be done if it failed?
        let _ = unsafe { munmap(self.0.as_ptr().cast(), GATE_SIZE) };
    }
}

#[cfg(test)]
impl GatePage {
    /// A page of its own, with this in its word.
    pub(crate) fn for_tests(word: u64) -> Self {
        let page = Self::map(tests::file(GATE_SIZE)).unwrap();
        page.word().store(word, Ordering::Release);
        page
    }

    /// Whether its process asks not to be woken when it is preempted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.wishes() == GATE_QUIET
    }

    /// What an arbiter writes at this time.
    pub(crate) fn allow(&self, is_allowed: bool, at: u64) {
        if is_allowed {
            self.words()[GATE_OPENED_AT].store(at, Ordering::Release);
            self.word().fetch_or(GATE_ALLOWED, Ordering::AcqRel);
        } else {
            self.words()[GATE_CLOSED_AT].store(at, Ordering::Release);
            self.word().fetch_and(!GATE_ALLOWED, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    pub(super) fn file(size: usize) -> OwnedFd {
        let file = memfd_create("gate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, size as u64).unwrap();
        file
    }

    #[test]
    fn it_is_open_while_the_arbiter_allows_it_or_the_process_keeps_it_so() {
        let page = GatePage::for_tests(GATE_ALLOWED);
        assert!(page.is_allowed() && page.is_open());
        page.word().fetch_and(!GATE_ALLOWED, Ordering::AcqRel);
        assert!(!page.is_allowed() && !page.is_open());
        page.keep_open(true);
        assert!(!page.is_allowed() && page.is_open());
        page.keep_open(true);
        page.keep_open(false);
        assert_eq!(page.word().load(Ordering::Acquire), 0);
    }

    #[test]
    fn it_tells_when_it_was_closed() {
        let page = GatePage::for_tests(GATE_ALLOWED);
        assert_eq!(page.last_closure(), None);
        page.allow(false, 7);
        assert_eq!(page.last_closure(), Some((7, None)));
        page.allow(true, 9);
        assert_eq!(page.last_closure(), Some((7, Some(9))));
        page.words()[GATE_CLOSED_AT].store(12, Ordering::Release);
        assert_eq!(page.last_closure(), None, "it is about to be");
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        assert_eq!(GatePage::map(file(GATE_SIZE - 1)).unwrap_err(), Errno::INVAL);
        assert!(GatePage::map(file(GATE_SIZE)).is_ok());
    }
}
