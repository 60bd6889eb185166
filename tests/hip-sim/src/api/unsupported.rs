//! Fallback entries: they return "not supported" in the function's own return type, and count the call.

use core::ffi::c_void;

use super::{COMPILER_NAMES, RUNTIME, RUNTIME_NAMES};
use crate::abi::hipError_t;
use crate::error::HipError;
use crate::{boundary, counters};

fn count<const TABLE: usize, const INDEX: usize>() {
    counters::refused(if TABLE == RUNTIME { RUNTIME_NAMES[INDEX] } else { COMPILER_NAMES[INDEX] });
}

/// For functions that return a result code.
pub(super) extern "C" fn error<const TABLE: usize, const INDEX: usize>() -> hipError_t {
    count::<TABLE, INDEX>();
    boundary::call(|| Err(HipError::NotSupported))
}

/// For functions that return nothing.
pub(super) extern "C" fn nothing<const TABLE: usize, const INDEX: usize>() {
    count::<TABLE, INDEX>();
}

/// For functions that return a pointer.
pub(super) extern "C" fn null<const TABLE: usize, const INDEX: usize>() -> *const c_void {
    count::<TABLE, INDEX>();
    core::ptr::null()
}
