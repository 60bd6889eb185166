//! The watcher's descriptors, known to a forked child.
//!
//! A child has copies of them, and would keep its parent's connection open. The controller takes the end of the connection for the
//! end of the process.

#![expect(unsafe_code, reason = "closes descriptors that a forked child inherits")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

const NONE: i32 = -1;

/// At most these are open at a time: the watcher's alarm, its copy for waking the watcher, the connection, and the one that becomes
/// ready when masks change.
static OPEN: [AtomicI32; 4] = [const { AtomicI32::new(NONE) }; 4];

/// A descriptor that a forked child closes.
#[derive(Debug)]
pub(super) struct Inherited(OwnedFd);

impl Inherited {
    pub(super) fn new(fd: OwnedFd) -> Self {
        let number = fd.as_raw_fd();
        // Without a free entry, a child keeps it.
        let _ = OPEN
            .iter()
            .find(|entry| entry.compare_exchange(NONE, number, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        Self(fd)
    }

    #[cfg(test)]
    pub(super) fn is_known(&self) -> bool {
        OPEN.iter().any(|entry| entry.load(Ordering::Relaxed) == self.0.as_raw_fd())
    }
}

impl std::os::fd::AsFd for Inherited {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Inherited {
    fn drop(&mut self) {
        // Before it is closed: the number may be another descriptor's right afterwards.
        let number = self.0.as_raw_fd();
        for entry in &OPEN {
            let _ = entry.compare_exchange(number, NONE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// In a forked child: closes its copies. Async-signal-safe.
pub(crate) fn after_fork_in_child() {
    for entry in &OPEN {
        let number = entry.swap(NONE, Ordering::Relaxed);
        if number != NONE {
            // SAFETY: the parent's watcher owns it; no thread uses it here, since that one is not there.
            unsafe { libc::close(number) };
        }
    }
}
