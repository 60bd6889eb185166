//! Putting a command onto the list of the watched before its first instruction, by its own hand.
//!
//! In a pid namespace the programs cannot tell the id of a child at its birth. The child itself can: between fork and
//! exec it has the tracer's descriptors still.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use xsched_abi::Watched;
use xsched_bpf::sys;

/// Puts the calling process onto the list.
#[derive(Clone, Copy, Debug)]
pub struct Enlistment {
    /// Of the map `TARGETS`, which lives as long as the session.
    pub(super) targets: RawFd,
}

impl Enlistment {
    /// To be called between fork and exec: one system call, no allocation.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn enlist(self) -> io::Result<()> {
        // SAFETY: the map lives as long as the session, and the child of a fork has the tracer's descriptors still.
        let targets = unsafe { BorrowedFd::borrow_raw(self.targets) };
        sys::insert(targets, std::process::id(), Watched::Stoppable as u8)
    }
}
