//! The library and the function that a call returns to.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;

use xsched_preload::program;

/// What the loader knows of an address.
fn found(address: u64) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the loader fills the structure, or leaves it zeroed, which is a valid value.
    unsafe {
        let is_found = libc::dladdr(address as *const c_void, info.as_mut_ptr()) != 0;
        is_found.then(|| info.assume_init())
    }
}

/// The call that returns there: the instruction before, also where a function ends with it.
fn call_before(return_address: u64) -> Option<libc::Dl_info> {
    found(return_address.wrapping_sub(1))
}

/// The path of the program or library that contains this address.
pub(super) fn library(return_address: u64) -> Option<String> {
    let info = call_before(return_address)?;
    // SAFETY: a number that the kernel gave the process.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    // The loader names the program as it was started.
    if found(headers).is_some_and(|program| program.dli_fbase == info.dli_fbase) {
        return Some(program::path()?.to_string_lossy().into_owned());
    }
    // SAFETY: a string of the loader's, which lives as long as the library, which is calling right now.
    (!info.dli_fname.is_null())
        .then(|| unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned())
}

/// The file name of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The symbol of the function that contains this address, if its library exports it.
pub(super) fn function(return_address: u64) -> Option<String> {
    let info = call_before(return_address)?;
    // SAFETY: as above.
    (!info.dli_sname.is_null())
        .then(|| unsafe { CStr::from_ptr(info.dli_sname) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_library_and_a_function() {
        let own = an_address_has_a_library_and_a_function as *const () as u64;
        let program = library(own + 1).expect("it is mapped");
        assert_eq!(program, std::env::current_exe().unwrap().to_string_lossy());
        let getpid = libc::getpid as *const () as u64;
        let c_library = library(getpid + 1).expect("it is mapped");
        assert!(file_name(&c_library).starts_with("libc"), "{c_library}");
        assert!(function(getpid + 1).is_some_and(|name| name.ends_with("getpid")));
        assert_eq!((library(16), function(16)), (None, None));
    }
}
