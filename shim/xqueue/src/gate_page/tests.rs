use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;

impl GatePage {
    /// A page of its own, with this in its word.
    pub(crate) fn for_tests(word: u64) -> Self {
        let page = Self::map(file(GATE_SIZE), 1).unwrap();
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
    assert_eq!(GatePage::map(file(GATE_SIZE - 1), 1).unwrap_err(), Errno::INVAL);
    assert!(GatePage::map(file(GATE_SIZE), 1).is_ok());
}

#[test]
fn all_mappings_are_the_same_memory_at_different_addresses() {
    let page = GatePage::map(file(GATE_SIZE), 3).unwrap();
    page.word().store(GATE_ALLOWED, Ordering::Release);
    let starts: BTreeSet<_> = page.mappings().map(NonNull::addr).collect();
    assert_eq!(starts.len(), 3);
    for start in page.mappings() {
        // SAFETY: a mapping of the page, which lives, and begins with the gate's word.
        let word = unsafe { start.cast::<AtomicU64>().as_ref() };
        assert_eq!(word.load(Ordering::Acquire), GATE_ALLOWED);
    }
    assert_eq!(page.mappings().next(), Some(page.start()));
}
