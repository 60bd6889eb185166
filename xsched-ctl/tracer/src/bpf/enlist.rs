//! Adds a command to the list of watched processes before its first instruction.
//!
//! In a pid namespace the programs cannot determine the id of a child at its birth. The child itself can: between fork
//! and exec it still has the tracer's descriptors.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use xsched_abi::Watched;
use xsched_bpf::sys;

/// Adds the calling process to the list.
#[derive(Clone, Copy, Debug)]
pub struct Enlistment {
    /// Descriptor of the map `TARGETS`, which lives as long as the session.
    pub(super) targets: RawFd,
}

impl Enlistment {
    /// To be called between fork and exec: one system call, no allocation.
    pub fn enlist(self) -> io::Result<()> {
        // SAFETY: the map lives as long as the session, and the child of a fork still has the tracer's descriptors.
        let targets = unsafe { BorrowedFd::borrow_raw(self.targets) };
        sys::insert(targets, std::process::id(), Watched::Stoppable as u8)
    }
}
