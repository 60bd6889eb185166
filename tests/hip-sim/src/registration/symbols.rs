//! Symbols of other libraries, by the loader's rules.

use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};

/// The address to which the dynamic linker would bind an undefined symbol of this library. Preloaded
/// libraries, the program and global libraries come first, then those that this library was loaded with.
pub(super) fn visible(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a terminated string.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// A library that is already loaded.
pub(super) fn loaded(path: &CStr) -> Option<Library> {
    open(path, RTLD_LAZY | libc::RTLD_NOLOAD).ok()
}

/// Loads a library globally, as the genuine registration does.
pub(super) fn load(path: &CStr) -> Result<Library, String> {
    open(path, RTLD_LAZY | RTLD_GLOBAL)
}

/// Keeps a library loaded although its handle is dropped, because its functions are in use.
pub(super) fn keep(library: Library) {
    let _ = library.into_raw();
}

fn open(path: &CStr, flags: i32) -> Result<Library, String> {
    let path: OsString = OsStr::from_bytes(path.to_bytes()).to_owned();
    // SAFETY: constructors run if it was not loaded, as naming a tool requests.
    unsafe { Library::open(Some(path), flags) }.map_err(|error| error.to_string())
}

/// A symbol of a library or of its dependencies.
pub(super) fn of(library: &Library, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the address is only taken, nothing is called.
    let symbol = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
    symbol.ok().and_then(|symbol| NonNull::new(symbol.into_raw()))
}
