//! Commands that no queue has yet.

use std::ffi::c_void;

use crate::explicit::hw_queue::HwQueue;
use crate::hip::program::{LaunchCallback, ProgramCommand};

/// A function of the program's and what it is called with, until it is given to a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callback {
    pub(super) launch: LaunchCallback,
    pub(super) data: *mut c_void,
}

// SAFETY: the data are the program's, which gives them to be used on another thread.
unsafe impl Send for Callback {}

impl Callback {
    /// The command of this hardware queue.
    pub(super) fn on(self, queue: &HwQueue) -> ProgramCommand {
        let Self { launch, data } = self;
        ProgramCommand { launch, queue: queue.handle().0, data, failure: queue.failure() }
    }
}
