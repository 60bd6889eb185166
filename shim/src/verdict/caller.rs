//! The immediate caller of a HIP function: the library and the function that a call returns to.
//!
//! A process can find out no more about a call's origin without walking the stack.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;

use xsched_preload::program;

use crate::runtime;

/// The path of the program or library that contains this address.
pub(super) fn library(return_address: u64) -> Option<String> {
    let path = runtime::path_of_object_at(return_address as usize)?;
    if !path.is_empty() {
        return Some(String::from_utf8_lossy(path.to_bytes()).into_owned());
    }
    // The loader gives no path for the program itself.
    let program = program::path()?;
    Some(String::from_utf8_lossy(program.as_os_str().as_bytes()).into_owned())
}

/// Whether the address lies in the program itself.
pub(super) fn is_program(return_address: u64) -> bool {
    runtime::path_of_object_at(return_address as usize).is_some_and(|path| path.is_empty())
}

/// The file name of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The symbol of the function that contains this address, if its library exports it.
pub(super) fn function(return_address: u64) -> Option<String> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // The instruction before belongs to the call, also where a function ends with it.
    let address = return_address.wrapping_sub(1) as *const libc::c_void;
    // SAFETY: the loader fills the structure, or leaves it zeroed, which is a valid value; names live as long as
    // their library, which is calling right now.
    unsafe {
        let found = libc::dladdr(address, info.as_mut_ptr()) != 0;
        let info = info.assume_init();
        (found && !info.dli_sname.is_null())
            .then(|| CStr::from_ptr(info.dli_sname).to_string_lossy().into_owned())
    }
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
