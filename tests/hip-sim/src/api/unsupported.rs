//! Fallback entries: they return "not supported" in the function's own return type, and count the call.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};

use super::{COMPILER_NAMES, RUNTIME, RUNTIME_NAMES};
use crate::abi::hipError_t;
use crate::boundary;
use crate::error::HipError;

static COMPILER_CALLS: [AtomicU64; COMPILER_NAMES.len()] =
    [const { AtomicU64::new(0) }; COMPILER_NAMES.len()];
static RUNTIME_CALLS: [AtomicU64; RUNTIME_NAMES.len()] = [const { AtomicU64::new(0) }; RUNTIME_NAMES.len()];

/// Names of called functions that are not implemented, with the number of calls.
pub(crate) fn counts() -> impl Iterator<Item = (&'static str, &'static AtomicU64)> {
    let compiler = COMPILER_NAMES.into_iter().zip(&COMPILER_CALLS);
    let runtime = RUNTIME_NAMES.into_iter().zip(&RUNTIME_CALLS);
    compiler.chain(runtime).filter(|(_, calls)| calls.load(Ordering::Relaxed) != 0)
}

fn count<const TABLE: usize, const INDEX: usize>() {
    let calls = if TABLE == RUNTIME { &RUNTIME_CALLS[INDEX] } else { &COMPILER_CALLS[INDEX] };
    calls.fetch_add(1, Ordering::Relaxed);
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
