//! A gate that the arbiter closes by itself: one word of memory that the arbiter, this process and the device share.
//!
//! ```text
//!   arbiter   writes GATE_ALLOWED     when a ready mask changes, and notes the time
//!   process   writes GATE_KEPT_OPEN   while the arbiter page is not in force, or something must not be stopped
//!                    GATE_QUIET       in another word, while it need not be woken when it is preempted
//!   device    begins what is behind   while any of them is set
//! ```
//!
//! So a process is preempted without waking any of its threads.
//!
//! A page may be mapped several times; all mappings are the same memory. Some runtimes let a range be registered only once, by
//! one of their contexts. Each context then gets a mapping of its own ([`crate::Device::GATE_MAPPINGS`]).

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

/// A word with which the memory is tried. It lies in another cache line than the gate.
const TRIAL: usize = 8;

/// The page of one queue's gate, mapped.
#[derive(Debug)]
pub struct GatePage {
    first: Mapping,
    others: Box<[Mapping]>,
}

/// One mapping of a page.
#[derive(Debug)]
struct Mapping(NonNull<[AtomicU64; WORDS]>);

// SAFETY: atomic words that any thread may use.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl GatePage {
    /// Maps the page behind a descriptor at least once, and up to `times` times.
    ///
    /// # Errors
    /// It cannot be mapped to write, or is too short.
    pub fn map(page: impl AsFd, times: usize) -> Result<Self, Errno> {
        let page = page.as_fd();
        if is_short(page)? {
            return Err(Errno::INVAL);
        }
        let first = Mapping::new(page)?;
        // The mappings are made together, so that the descriptor need not stay open. If some fail, the process itself closes the
        // gates of the contexts without one.
        let others = (1..times).map_while(|_| Mapping::new(page).ok()).collect();
        Ok(Self { first, others })
    }

    /// Where the first mapping begins in this process's memory.
    pub fn start(&self) -> NonNull<c_void> {
        self.first.0.cast()
    }

    /// Where each of its mappings begins.
    pub fn mappings(&self) -> impl Iterator<Item = NonNull<c_void>> {
        [&self.first].into_iter().chain(&self.others).map(|mapping| mapping.0.cast())
    }

    /// The gate.
    pub fn word(&self) -> &AtomicU64 {
        &self.words()[0]
    }

    /// The word for trials, which nothing else uses.
    pub fn trial(&self) -> &AtomicU64 {
        &self.words()[TRIAL]
    }

    /// Whether the arbiter lets commands begin.
    pub(super) fn is_allowed(&self) -> bool {
        self.word().load(Ordering::Acquire) & GATE_ALLOWED != 0
    }

    /// When the arbiter last closed the gate and when it opened it again, in its page's clock. The second is None while the gate
    /// is closed. None as a whole if the arbiter never closed it, or is about to change it.
    pub(super) fn last_closure(&self) -> Option<(u64, Option<u64>)> {
        // This is read before the times: the arbiter writes the times first.
        let is_allowed = self.is_allowed();
        let [closed, opened] =
            [GATE_CLOSED_AT, GATE_OPENED_AT].map(|word| self.words()[word].load(Ordering::Acquire));
        match is_allowed {
            _ if closed == 0 => None,
            true => (opened >= closed).then_some((closed, Some(opened))),
            false => Some((closed, None)),
        }
    }

    /// Whether commands behind the gate may begin.
    pub(super) fn is_open(&self) -> bool {
        self.word().load(Ordering::Acquire) & GATE_OPEN != 0
    }

    /// Keeps the gate open whatever the arbiter says; false ends that.
    pub(super) fn keep_open(&self, keeps: bool) {
        let is_kept = self.word().load(Ordering::Acquire) & GATE_KEPT_OPEN != 0;
        match keeps {
            _ if keeps == is_kept => {}
            true => drop(self.word().fetch_or(GATE_KEPT_OPEN, Ordering::AcqRel)),
            false => drop(self.word().fetch_and(!GATE_KEPT_OPEN, Ordering::AcqRel)),
        }
    }

    /// Asks the arbiter not to wake this process when it closes the gate; false ends that.
    pub(super) fn ask_for_quiet(&self, asks: bool) {
        let wishes = if asks { GATE_QUIET } else { 0 };
        if self.wishes() != wishes {
            // This store precedes the next load of the gate. The arbiter does the reverse: it writes the gate, then loads this.
            self.words()[GATE_WISHES].store(wishes, Ordering::SeqCst);
        }
    }

    fn wishes(&self) -> u64 {
        self.words()[GATE_WISHES].load(Ordering::Acquire)
    }

    fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: mapped for as long as this lives, with so many words, which all writers change whole.
        unsafe { self.first.0.as_ref() }
    }
}

/// Whether the file ends within the page: a process that reads beyond the end is killed. BPF maps have no seals, and are never
/// shorter than what can be mapped of them.
fn is_short(page: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(fcntl_get_seals(page).is_ok() && fstat(page)?.st_size < GATE_SIZE as i64)
}

impl Mapping {
    fn new(page: BorrowedFd<'_>) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe { mmap(ptr::null_mut(), GATE_SIZE, access, MapFlags::SHARED, page, 0) }?;
        // The child of a fork does not use its parent's gate. Where the kernel does not leave the mapping out, the child ignores
        // it.
        // SAFETY: the mapping that was made just now.
        let _ = unsafe { madvise(start, GATE_SIZE, Advice::LinuxDontFork) };
        NonNull::new(start.cast()).map(Self).ok_or(Errno::NOMEM)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: its own mapping, which nothing refers to any more. What could be done if it failed?
        let _ = unsafe { munmap(self.0.as_ptr().cast(), GATE_SIZE) };
    }
}

#[cfg(test)]
mod tests;
