//! A command that is a function of the program's: what XSched's API calls a callback.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// `XResult (*LaunchCallback)(HwQueueHandle, void *)`
pub(crate) type LaunchCallback = unsafe extern "C" fn(u64, *mut c_void) -> u32;

/// The process ends: functions of the program's may use what is gone by now.
static PROCESS_ENDS: AtomicBool = AtomicBool::new(false);

/// From now on no function of the program's is called.
pub(crate) fn process_ends() {
    PROCESS_ENDS.store(true, Ordering::Release);
}

/// The first error that a function of the program has returned, until the program is told.
#[derive(Debug, Default)]
pub(crate) struct CallbackFailure(AtomicU32);

impl CallbackFailure {
    /// Takes the error, to return it.
    pub(crate) fn take(&self) -> Option<u32> {
        Some(self.0.swap(0, Ordering::AcqRel)).filter(|code| *code != 0)
    }

    fn note(&self, code: u32) {
        // The first one counts.
        let _ = self.0.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// A function of the program's, with what it is called with.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCommand {
    pub(crate) launch: LaunchCallback,
    /// The handle of the queue that it is given to.
    pub(crate) queue: u64,
    pub(crate) data: *mut c_void,
    pub(crate) failure: Arc<CallbackFailure>,
}

// SAFETY: the data are the program's, which gives them to be used on another thread.
unsafe impl Send for ProgramCommand {}

impl ProgramCommand {
    /// Calls the function; what it returns.
    pub(crate) fn call(&self) -> u32 {
        if PROCESS_ENDS.load(Ordering::Acquire) {
            return 0;
        }
        // SAFETY: the program has promised that the function may be called so, once.
        let code = unsafe { (self.launch)(self.queue, self.data) };
        if code != 0 {
            self.failure.note(code);
        }
        code
    }
}
