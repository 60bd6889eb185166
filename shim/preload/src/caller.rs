//! The immediate caller of a function: the library and the function that a call returns to.
//!
//! A process can find out no more about a call's origin without walking the stack.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

use crate::program;

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

/// A name in what the loader knows of the library that is calling right now.
fn name(text: *const c_char) -> Option<String> {
    // SAFETY: a string of the loader's, which lives as long as the library.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Whether this is the program itself, which the loader names as it was started.
fn is_of_program(info: &libc::Dl_info) -> bool {
    // SAFETY: a number that the kernel gave the process.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    found(headers).is_some_and(|program| program.dli_fbase == info.dli_fbase)
}

/// The path of the program or library to which a call returns.
pub fn library(return_address: u64) -> Option<String> {
    let info = call_before(return_address)?;
    if is_of_program(&info) {
        return Some(program::path()?.to_string_lossy().into_owned());
    }
    name(info.dli_fname)
}

/// Whether a call returns to the program itself.
pub fn is_program(return_address: u64) -> bool {
    call_before(return_address).is_some_and(|info| is_of_program(&info))
}

/// The file name of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The symbol of the function to which a call returns, if its library exports it.
pub fn function(return_address: u64) -> Option<String> {
    name(call_before(return_address)?.dli_sname)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_library_and_a_function() {
        let own = an_address_has_a_library_and_a_function as *const () as u64;
        let program = library(own + 1).expect("it is mapped");
        assert_eq!(program, std::env::current_exe().unwrap().to_string_lossy());
        assert!(is_program(own + 1));
        let getpid = libc::getpid as *const () as u64;
        let c_library = library(getpid + 1).expect("it is mapped");
        assert!(file_name(&c_library).starts_with("libc"), "{c_library}");
        assert!(!is_program(getpid + 1));
        assert!(function(getpid + 1).is_some_and(|name| name.ends_with("getpid")));
        assert_eq!((library(16), function(16)), (None, None));
    }
}
