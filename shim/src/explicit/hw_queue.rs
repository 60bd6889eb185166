//! Hardware queues: streams that the program has named.

use std::sync::Arc;

use crate::defer::{NotWaited, ProgramQueue};
use crate::explicit::code::XResult;
use crate::explicit::handle::Handle;
use crate::explicit::refusal::{Refusal, refuse};
use crate::hip::program::CallbackFailure;

/// A stream that the program has named.
#[derive(Debug)]
pub(super) struct HwQueue {
    handle: Handle,
    queue: ProgramQueue,
    failure: Arc<CallbackFailure>,
}

impl HwQueue {
    pub(super) fn new(handle: Handle, queue: ProgramQueue) -> Self {
        Self { handle, queue, failure: Arc::default() }
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    pub(super) fn queue(&self) -> &ProgramQueue {
        &self.queue
    }

    pub(super) fn failure(&self) -> Arc<CallbackFailure> {
        Arc::clone(&self.failure)
    }

    /// What the program gets for a wait: also the error of a command before.
    pub(super) fn waited(&self, result: Result<(), NotWaited>) -> Result<(), XResult> {
        match result {
            Err(NotWaited::ForItself) => return Err(refuse(Refusal::WaitsForItself)),
            Err(NotWaited::Captures) => return Err(refuse(Refusal::Captures)),
            Err(NotWaited::Failed) | Ok(()) => {}
        }
        match self.failure.take() {
            Some(code) => Err(XResult(code)),
            None => result.map_err(XResult::from),
        }
    }
}
