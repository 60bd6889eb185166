//! The boundary between C and Rust: results become codes, and a panic becomes `hipErrorUnknown` and does not
//! unwind into C.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::hipError_t;
use crate::error::{self, HipError};
use crate::{fault, fork};

/// Body of a function that returns a result code; the code also becomes this thread's last error.
pub(crate) fn call(body: impl FnOnce() -> Result<(), HipError>) -> hipError_t {
    if fork::is_forked_child() {
        return HipError::NotInitialized.code();
    }
    // A body that panics leaves at worst a poisoned lock. Later users of that lock panic too, into this
    // handler.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(HipError::Unknown));
    let code = fault::or(result.err().map_or(error::SUCCESS, HipError::code));
    error::set_last(code);
    code
}

/// Body of a function that returns another type: `fallback` on panic.
pub(crate) fn value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Writes to a caller's out-parameter; null gives `InvalidValue`.
///
/// # Safety
///
/// `out` is null or valid for a write, as HIP's contract requires of its caller.
pub(crate) unsafe fn write<T>(out: *mut T, value: T) -> Result<(), HipError> {
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: it is not null, so the caller of this function guarantees that it is valid.
    unsafe { out.write(value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(call(|| panic!("seen by no C frame")), HipError::Unknown.code());
    }
}
