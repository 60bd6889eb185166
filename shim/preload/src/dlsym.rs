//! The C library's `dlsym`: the shim exports one of its own in front of it.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The C library's `dlsym`; null until it is needed. The code of the exported `dlsym` reads it.
pub static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Its versions on x86-64, newest first.
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Finds the C library's `dlsym`.
///
/// Without one this process could not have been linked with the shim, so the search does not fail. Should it fail, a
/// function that finds nothing takes its place.
pub extern "C" fn find() {
    let found = VERSIONS.iter().find_map(|version| {
        // SAFETY: C strings; the search runs no foreign code.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        (!found.is_null()).then_some(found)
    });
    REAL.store(found.unwrap_or(nothing as *const () as *mut c_void), Ordering::Release);
}

extern "C" fn nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    ptr::null_mut()
}

/// Calls the C library's `dlsym`.
///
/// # Safety
/// As for `dlsym`.
pub unsafe fn real(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if REAL.load(Ordering::Acquire).is_null() {
        find();
    }
    // SAFETY: the C library's function, found by its name and version, or `nothing`; the rest is the caller's promise.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Dlsym>(REAL.load(Ordering::Acquire));
        real(handle, name)
    }
}

/// Looks a symbol up, for the shim itself. The handle is the loader's, or one of its constants.
#[expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the handle is not followed here, and the loader refuses unknown ones"
)]
pub fn look_up(handle: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a C string; looking up runs no foreign code.
    NonNull::new(unsafe { real(handle, name.as_ptr()) })
}
