//! Failures of commands that were launched late: their calls have answered success already, so the stream's next call
//! returns the error.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::abi::HipError;

/// Streams with a failure that no call has returned yet.
pub(crate) static UNREPORTED: AtomicUsize = AtomicUsize::new(0);

/// Whether any stream's next call has a failure to return.
pub(crate) fn any_unreported() -> bool {
    UNREPORTED.load(Ordering::Relaxed) != 0
}

/// The error of a stream's last command that failed after its call had returned; 0 if there is none, or a call has
/// returned it.
#[derive(Debug, Default)]
pub(crate) struct LateFailure(AtomicU32);

impl LateFailure {
    /// Whether there is one.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Sets the error for the stream's next call to return.
    pub(crate) fn set(&self, code: u32) {
        if self.0.swap(code, Ordering::AcqRel) == 0 {
            UNREPORTED.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes the error, to return it.
    pub(crate) fn take(&self) -> Option<HipError> {
        // There is hardly ever an error, and a load is cheaper than an exchange.
        let code = if self.is_set() { self.0.swap(0, Ordering::AcqRel) } else { 0 };
        (code != 0).then(|| {
            UNREPORTED.fetch_sub(1, Ordering::AcqRel);
            HipError(code)
        })
    }
}
