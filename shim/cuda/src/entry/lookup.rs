//! Functions that programs look up by name: `dlsym` on libcuda's own handle, as CUDA's runtime does, gives the shim's export.
//!
//! The shim's `dlsym` precedes the next one for the whole process ([`export_dlsym`]): that of another preloaded library, or the C
//! library's.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use xsched_preload::dlsym::real;
use xsched_preload::export_dlsym;

use crate::api::NAMES;
use crate::driver;
use crate::entry::exports::EXPORTS;
use crate::process;

/// The next `dlsym`; null until it is needed.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

export_dlsym!(next: NEXT, find: find_next, look_up: look_up, names: 0 "c", 1 "u");

/// Another preloaded library may have a `dlsym` too. It has no version, so it is not found by the C library's.
#[cfg_attr(test, expect(dead_code, reason = "unexported, its caller `dlsym` is an ordinary unused function"))]
extern "C" fn find_next() {
    // SAFETY: a C string; the search runs no foreign code.
    let found = unsafe { real(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
    let found = if found.is_null() { real as *const () as *mut c_void } else { found };
    NEXT.store(found, Ordering::Release);
}

/// Looks up a name of CUDA on a handle.
///
/// # Safety
/// As for `dlsym`, when [`NEXT`] is known.
#[cfg_attr(test, expect(dead_code, reason = "unexported, its caller `dlsym` is an ordinary unused function"))]
unsafe extern "C" fn look_up(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: a `dlsym`, with the caller's arguments.
    let found = unsafe {
        let next = std::mem::transmute::<
            *mut c_void,
            unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
        >(NEXT.load(Ordering::Acquire));
        next(handle, name)
    };
    if found.is_null() {
        return found;
    }
    // SAFETY: `dlsym` has read the name.
    let name = unsafe { CStr::from_ptr(name) };
    let is_listed = NAMES.contains(&name);
    let id = if is_listed && process::prepare() { driver::id_of(found) } else { None };
    id.map_or(found, |id| EXPORTS.0[id].cast_mut())
}
