//! Functions by name, for programs that do not link against the library.
//!
//! The result is the exported symbol, so calls through it use the dispatch table like all others.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;

use crate::abi::{hipDriverEntryPointQueryResult, hipDriverProcAddressQueryResult, hipError_t};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::{trampolines, version};

/// Both query results have the same number for success.
const FOUND: hipDriverProcAddressQueryResult = 0;
const NOT_FOUND: hipDriverProcAddressQueryResult = 1;
/// From this version on the two names below refer to another structure.
const VERSION_R0600: i32 = 600;
/// First release that reads the flags.
const RELEASE_WITH_FLAGS: i32 = 70_000_000;

/// Which default stream a function should use.
mod flag {
    pub(super) const DEFAULT: u64 = 0;
    pub(super) const LEGACY: u64 = 1;
    pub(super) const PER_THREAD: u64 = 2;
    pub(super) const ALL: [u64; 3] = [DEFAULT, LEGACY, PER_THREAD];
}

/// Finds a symbol and stores the result. A function without a variant for per-thread streams is found under
/// its own name.
///
/// # Safety
///
/// HIP's contract for the arguments holds: a string and out-parameters, of which `status` may be null.
unsafe fn find(
    symbol: *const c_char,
    function: *mut *mut c_void,
    flags: u64,
    status: *mut u32,
    rename: impl Fn(&str) -> Option<&'static str>,
) -> Result<(), HipError> {
    if symbol.is_null() || function.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the application passes a terminated string.
    let name = unsafe { CStr::from_ptr(symbol) }.to_str().map_err(|_| HipError::InvalidValue)?;
    if name.is_empty() || !flag::ALL.contains(&flags) {
        return Err(HipError::InvalidValue);
    }
    let address = |name: &str| trampolines::address(name, version::major());
    let found = match rename(name) {
        Some(renamed) => address(renamed),
        None if flags == flag::PER_THREAD => address(&format!("{name}_spt")).or_else(|| address(name)),
        None => address(name),
    };
    // SAFETY: the application passes writable out-parameters.
    unsafe {
        write(function, found.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut))?;
        if !status.is_null() {
            write(status, if found.is_some() { FOUND } else { NOT_FOUND })?;
        }
    }
    found.map(drop).ok_or(HipError::InvalidValue)
}

/// `hipGetProcAddress`
pub(crate) unsafe extern "C" fn get(
    symbol: *const c_char,
    function: *mut *mut c_void,
    hip_version: i32,
    flags: u64,
    status: *mut hipDriverProcAddressQueryResult,
) -> hipError_t {
    let flags = if version::release() < RELEASE_WITH_FLAGS { flag::DEFAULT } else { flags };
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { find(symbol, function, flags, status, |name| of_version(name, hip_version)) })
}

/// `hipGetProcAddress_spt`
pub(crate) unsafe extern "C" fn get_spt(
    symbol: *const c_char,
    function: *mut *mut c_void,
    hip_version: i32,
    flags: u64,
    status: *mut hipDriverProcAddressQueryResult,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { get(symbol, function, hip_version, or_per_thread(flags), status) }
}

/// `hipGetDriverEntryPoint`: has no version, so names have the same meaning as for the dynamic linker.
pub(crate) unsafe extern "C" fn entry_point(
    symbol: *const c_char,
    function: *mut *mut c_void,
    flags: u64,
    status: *mut hipDriverEntryPointQueryResult,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { find(symbol, function, flags, status, |_| None) })
}

/// `hipGetDriverEntryPoint_spt`
pub(crate) unsafe extern "C" fn entry_point_spt(
    symbol: *const c_char,
    function: *mut *mut c_void,
    flags: u64,
    status: *mut hipDriverEntryPointQueryResult,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { entry_point(symbol, function, or_per_thread(flags), status) }
}

fn or_per_thread(flags: u64) -> u64 {
    if flags == flag::DEFAULT { flag::PER_THREAD } else { flags }
}

/// The function's name in a version's headers, if it differs. These two functions have no variants.
fn of_version(name: &str, hip_version: i32) -> Option<&'static str> {
    match name {
        "hipGetDeviceProperties" if hip_version >= VERSION_R0600 => Some("hipGetDevicePropertiesR0600"),
        "hipChooseDevice" if hip_version >= VERSION_R0600 => Some("hipChooseDeviceR0600"),
        "hipGetDeviceProperties" => Some("hipGetDeviceProperties"),
        "hipChooseDevice" => Some("hipChooseDevice"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result code, address and status of a search without translation of names.
    fn search(name: &CStr, flags: u64) -> (hipError_t, Option<usize>, u32) {
        let (mut function, mut status) = (ptr::null_mut(), 77);
        // SAFETY: local out-parameters.
        let code = unsafe { entry_point(name.as_ptr(), &raw mut function, flags, &raw mut status) };
        (code, Some(function.addr()).filter(|address| *address != 0), status)
    }

    fn export(name: &str) -> Option<usize> {
        trampolines::address(name, 6)
    }

    #[test]
    fn an_export_is_found_and_another_name_is_not() {
        assert_eq!(search(c"hipMalloc", flag::DEFAULT), (0, export("hipMalloc"), FOUND));
        assert_eq!(search(c"hipNothing", flag::DEFAULT), (HipError::InvalidValue.code(), None, NOT_FOUND));
        assert_eq!(search(c"", flag::DEFAULT).2, 77, "the status is unchanged");
    }

    #[test]
    fn a_variant_for_per_thread_streams_is_found_if_it_exists() {
        let memcpy = |flags| search(c"hipMemcpy", flags).1;
        assert_eq!(memcpy(flag::LEGACY), export("hipMemcpy"));
        assert_eq!(memcpy(flag::PER_THREAD), export("hipMemcpy_spt"));
        assert_eq!(search(c"hipMalloc", flag::PER_THREAD), (0, export("hipMalloc"), FOUND));
        assert_eq!(search(c"hipMalloc", 3).0, HipError::InvalidValue.code());
    }

    #[test]
    fn per_thread_lookups_prefer_variants_by_default_only() {
        assert_eq!([0, 1, 2].map(or_per_thread), [flag::PER_THREAD, flag::LEGACY, flag::PER_THREAD]);
        let mut function = ptr::null_mut();
        // SAFETY: local out-parameters.
        let code = unsafe { entry_point_spt(c"hipMemcpy".as_ptr(), &raw mut function, 0, ptr::null_mut()) };
        assert_eq!((code, Some(function.addr())), (0, export("hipMemcpy_spt")));
    }

    #[test]
    fn renamed_functions_follow_the_version() {
        assert_eq!(of_version("hipGetDeviceProperties", 502), Some("hipGetDeviceProperties"));
        assert_eq!(of_version("hipGetDeviceProperties", 600), Some("hipGetDevicePropertiesR0600"));
        let mut function = ptr::null_mut();
        // SAFETY: local out-parameters.
        let code = unsafe { get(c"hipChooseDevice".as_ptr(), &raw mut function, 600, 9, ptr::null_mut()) };
        assert_eq!((code, Some(function.addr())), (0, export("hipChooseDeviceR0600")), "flags came with 7.0");
    }
}
