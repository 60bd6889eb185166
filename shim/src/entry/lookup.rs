//! Functions that programs look up by name, where the runtime has no dispatch table that shows their calls.
//!
//! Programs ask `dlsym` on the runtime's own handle, or `hipGetProcAddress`, and call the address that they get. For
//! a copy that is seen by symbols, or not yet known to have a table, they get the shim's export instead. If a process
//! has several such copies, an export could not tell which one is meant: there, addresses stay as they are.
//!
//! The shim's `dlsym` precedes the C library's for the whole process ([`export_dlsym`]).

use std::ffi::{c_char, c_void};

use xsched_preload::dlsym::{REAL, find, real};
use xsched_preload::export_dlsym;

use crate::entry::exports::EXPORTS;
use crate::runtime::by_name::export_for;

export_dlsym!(next: REAL, find: find, look_up: look_up, names: 0 "h", 1 "i", 2 "p");

/// Looks up a name of HIP on a handle.
///
/// # Safety
/// As for `dlsym`, when [`REAL`] is known.
#[cfg_attr(test, expect(dead_code, reason = "unexported, its caller `dlsym` is an ordinary unused function"))]
unsafe extern "C" fn look_up(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let found = unsafe { real(handle, name) };
    export_for(found, &EXPORTS.0).unwrap_or(found)
}
