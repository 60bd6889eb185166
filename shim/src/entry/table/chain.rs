//! Finding the profiler that would have got the tables if the shim had not taken them.
//!
//! rocprofiler-register asks the global scope first, where it finds the shim, and only otherwise looks for rocprofiler-sdk. It
//! finds one that came with a plugin in the plugin's own scope, and loads one that the environment asks for. Both must
//! still get the tables. A profiler that asks for them later, as rocprofiler-sdk's `rocprofiler_force_configure` does, has
//! rocprofiler-register offer all of them again.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

use xsched_preload::dlsym::look_up;
use xsched_preload::env;

use crate::entry::table::protocol::rocprofiler_set_api_table;
use crate::runtime;

/// `rocprofiler_set_api_table`
pub(super) type Receiver = unsafe extern "C" fn(*const c_char, u64, u64, *mut *mut c_void, u64) -> c_int;
/// `rocprofiler_intercept_library_cb_t`
pub(super) type OnTable = unsafe extern "C" fn(c_int, u64, u64, *mut *mut c_void, u64, *mut c_void);
/// `rocprofiler_at_intercept_table_registration`
pub(super) type Notifier = unsafe extern "C" fn(OnTable, c_int, *mut c_void) -> c_int;

const RECEIVER: &CStr = c"rocprofiler_set_api_table";
const SDK: &CStr = c"librocprofiler-sdk.so";
const REGISTER: &[u8] = b"librocprofiler-register.so";

/// The profiler that tables are handed on to.
pub(super) fn next_receiver() -> Option<Receiver> {
    let own_receiver = rocprofiler_set_api_table as *const () as usize;
    let is_other = |address: &NonNull<c_void>| address.addr().get() != own_receiver;
    let mut visible =
        [libc::RTLD_NEXT, libc::RTLD_DEFAULT].into_iter().filter_map(|scope| look_up(scope, RECEIVER));
    let receiver = visible
        .find(is_other)
        .or_else(|| symbol_of_library(&requested_library()?, RECEIVER).filter(is_other))
        .or_else(|| runtime::definition_in_library(SDK.to_bytes(), RECEIVER))?;
    // SAFETY: the symbol has this type wherever it is defined.
    Some(unsafe { std::mem::transmute::<NonNull<c_void>, Receiver>(receiver) })
}

/// The profiler's function that passes tables on to others.
pub(super) fn table_notifier() -> Option<Notifier> {
    let name = c"rocprofiler_at_intercept_table_registration";
    let found = look_up(libc::RTLD_DEFAULT, name).or_else(|| {
        // The profiler may have been loaded into its own scope.
        runtime::definition_in_library(SDK.to_bytes(), name)
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

/// Opens the library as rocprofiler-register would: as named, else beside rocprofiler-register, else by its last component.
fn symbol_of_library(library: &CStr, name: &CStr) -> Option<NonNull<c_void>> {
    let bytes = library.to_bytes();
    let base = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes);
    let beside = || {
        let register = runtime::path_of_library(REGISTER)?;
        let folder = register.to_bytes().rsplitn(2, |&byte| byte == b'/').nth(1)?.to_owned();
        CString::new([&folder, b"/".as_slice(), base].concat()).ok()
    };
    let open = |path: &CStr, flags| {
        // SAFETY: the environment asks for this library to be loaded; its constructors run as they would have.
        NonNull::new(unsafe { libc::dlopen(path.as_ptr(), flags | libc::RTLD_LAZY) })
    };
    // One that is loaded stays in its scope.
    let handle = open(library, libc::RTLD_NOLOAD)
        .or_else(|| open(library, libc::RTLD_GLOBAL))
        .or_else(|| open(&beside()?, libc::RTLD_GLOBAL))
        .or_else(|| open(&CString::new(base).ok()?, libc::RTLD_GLOBAL))?;
    look_up(handle.as_ptr(), name)
}
