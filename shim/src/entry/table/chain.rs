//! Finding the profiler that would have got the tables if the shim had not taken them.
//!
//! rocprofiler-register asks the global scope first, where it finds the shim, and only otherwise loads
//! rocprofiler-sdk itself. A profiler that the environment asks for must still get the tables.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

use crate::entry::table::protocol::rocprofiler_set_api_table;
use crate::ground::dlsym::look_up;
use crate::ground::env;
use crate::runtime;

/// `rocprofiler_set_api_table`
pub(super) type Receiver = unsafe extern "C" fn(*const c_char, u64, u64, *mut *mut c_void, u64) -> c_int;
/// `rocprofiler_intercept_library_cb_t`
pub(super) type OnTable = unsafe extern "C" fn(c_int, u64, u64, *mut *mut c_void, u64, *mut c_void);
/// `rocprofiler_at_intercept_table_registration`
pub(super) type Notifier = unsafe extern "C" fn(OnTable, c_int, *mut c_void) -> c_int;

const RECEIVER: &CStr = c"rocprofiler_set_api_table";
const SDK: &CStr = c"librocprofiler-sdk.so";

/// The profiler that tables are handed on to.
pub(super) fn next_receiver() -> Option<Receiver> {
    let own_receiver = rocprofiler_set_api_table as *const () as usize;
    let mut found =
        [libc::RTLD_NEXT, libc::RTLD_DEFAULT].into_iter().filter_map(|scope| look_up(scope, RECEIVER));
    let receiver = found
        .find(|address| address.addr().get() != own_receiver)
        .or_else(|| symbol_of_library(&requested_library()?, RECEIVER))
        .filter(|address| address.addr().get() != own_receiver)?;
    // SAFETY: the symbol has this type wherever it is defined.
    Some(unsafe { std::mem::transmute::<NonNull<c_void>, Receiver>(receiver) })
}

/// The profiler's function that passes tables on to others.
pub(super) fn table_notifier() -> Option<Notifier> {
    let name = c"rocprofiler_at_intercept_table_registration";
    let found = look_up(libc::RTLD_DEFAULT, name).or_else(|| {
        // The profiler may have been loaded into its own scope.
        runtime::definition_in_library(b"librocprofiler-sdk.so", name)
    })?;
    // SAFETY: the symbol's type.
    Some(unsafe { std::mem::transmute::<NonNull<c_void>, Notifier>(found) })
}

/// The library that the environment names for rocprofiler-register.
fn requested_library() -> Option<CString> {
    let is_off = |value: &OsStr| matches!(value.as_bytes(), b"0" | b"off" | b"false" | b"no");
    let force = env::of_profiler("ROCPROFILER_REGISTER_FORCE_LOAD");
    if force.as_deref().is_some_and(is_off) {
        return None;
    }
    if let Some(library) = env::of_profiler("ROCPROFILER_REGISTER_LIBRARY") {
        return CString::new(library.as_bytes()).ok();
    }
    (force.is_some() || env::of_profiler("ROCP_TOOL_LIBRARIES").is_some()).then(|| SDK.to_owned())
}

/// Opens the library as rocprofiler-register would.
fn symbol_of_library(path: &CStr, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the environment asks for this library to be loaded; its constructors run as they would have.
    let handle = NonNull::new(unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_GLOBAL | libc::RTLD_LAZY) })?;
    look_up(handle.as_ptr(), name)
}
