//! Functions by name, for programs that do not link.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;

use crate::abi::{hipDriverProcAddressQueryResult, hipError_t};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::{trampolines, version};

/// Found, not found.
const STATUS: [hipDriverProcAddressQueryResult; 2] = [0, 1];
/// From this version on the two names below mean another structure.
const VERSION_R0600: i32 = 600;

/// `hipGetProcAddress`: the address of an export of this copy of the library.
pub(crate) unsafe extern "C" fn get(
    symbol: *const c_char,
    function: *mut *mut c_void,
    hip_version: i32,
    _flags: u64,
    status: *mut hipDriverProcAddressQueryResult,
) -> hipError_t {
    boundary::call(|| {
        if symbol.is_null() || function.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: a string of the caller.
        let name = unsafe { CStr::from_ptr(symbol) }.to_str().map_err(|_| HipError::InvalidValue)?;
        let found = trampolines::address(of_version(name, hip_version), version::major());
        if !status.is_null() {
            // SAFETY: an out-parameter of the caller.
            unsafe { write(status, STATUS[usize::from(found.is_none())])? };
        }
        let address = found.ok_or(HipError::InvalidValue)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(function, ptr::with_exposed_provenance_mut(address)) }
    })
}

fn of_version(name: &str, hip_version: i32) -> &str {
    match name {
        "hipGetDeviceProperties" if hip_version >= VERSION_R0600 => "hipGetDevicePropertiesR0600",
        "hipChooseDevice" if hip_version >= VERSION_R0600 => "hipChooseDeviceR0600",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &CStr) -> (hipError_t, *mut c_void, u32) {
        let (mut function, mut status) = (ptr::null_mut(), 77);
        // SAFETY: local out-parameters.
        let code = unsafe { get(name.as_ptr(), &raw mut function, 600, 0, &raw mut status) };
        (code, function, status)
    }

    #[test]
    fn an_export_is_found_and_another_name_is_not() {
        let (code, function, status) = find(c"hipMalloc");
        assert_eq!((code, status), (0, 0));
        assert_eq!(Some(function as usize), trampolines::address("hipMalloc", 6));
        assert_eq!(find(c"hipNothing"), (HipError::InvalidValue.code(), ptr::null_mut(), 1));
    }

    #[test]
    fn renamed_functions_follow_the_version() {
        assert_eq!(of_version("hipGetDeviceProperties", 502), "hipGetDeviceProperties");
        assert_eq!(of_version("hipGetDeviceProperties", 600), "hipGetDevicePropertiesR0600");
    }
}
