//! The answers of XSched's functions.

use crate::defer::NotWaited;

/// `XResult`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct XResult(pub(crate) u32);

impl XResult {
    pub(crate) const SUCCESS: Self = Self(0);
    /// The runtime has failed.
    pub(crate) const HARDWARE: Self = Self(1);
    pub(crate) const INVALID_VALUE: Self = Self(2);
    /// No such object.
    pub(crate) const NOT_FOUND: Self = Self(3);
    /// Not now, or not by this thread.
    pub(crate) const NOT_ALLOWED: Self = Self(4);
    pub(crate) const NOT_SUPPORTED: Self = Self(5);
    /// The shim has failed.
    pub(crate) const UNKNOWN: Self = Self(999);
}

impl From<Result<(), XResult>> for XResult {
    fn from(result: Result<(), Self>) -> Self {
        result.err().unwrap_or(Self::SUCCESS)
    }
}

impl From<NotWaited> for XResult {
    fn from(not_waited: NotWaited) -> Self {
        match not_waited {
            NotWaited::ForItself | NotWaited::Captures => Self::NOT_ALLOWED,
            NotWaited::Failed => Self::HARDWARE,
        }
    }
}
