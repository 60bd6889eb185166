//! Device variables by the host variable that shadows them.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{hipError_t, hipMemcpyKind};
use crate::boundary::{self, write};
use crate::copy;
use crate::error::HipError;
use crate::runtime;

/// `hipGetSymbolAddress`
pub(crate) unsafe extern "C" fn address(address: *mut *mut c_void, symbol: *const c_void) -> hipError_t {
    boundary::call(|| {
        let (device, _) = runtime::get().fat_binaries.variable(symbol)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(address, ptr::with_exposed_provenance_mut(device)) }
    })
}

/// `hipGetSymbolSize`
pub(crate) unsafe extern "C" fn size(size: *mut usize, symbol: *const c_void) -> hipError_t {
    boundary::call(|| {
        let (_, bytes) = runtime::get().fat_binaries.variable(symbol)?;
        // SAFETY: an out-parameter of the caller.
        unsafe { write(size, bytes) }
    })
}

/// `hipMemcpyToSymbol`
pub(crate) unsafe extern "C" fn copy_to(
    symbol: *const c_void,
    from: *const c_void,
    size: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> hipError_t {
    let to = match part(symbol, size, offset) {
        Ok(address) => address,
        Err(error) => return boundary::call(|| Err(error)),
    };
    // SAFETY: the caller's promise, passed on.
    unsafe { copy::memcpy(to, from, size, kind) }
}

/// `hipMemcpyFromSymbol`
pub(crate) unsafe extern "C" fn copy_from(
    to: *mut c_void,
    symbol: *const c_void,
    size: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> hipError_t {
    let from = match part(symbol, size, offset) {
        Ok(address) => address,
        Err(error) => return boundary::call(|| Err(error)),
    };
    // SAFETY: the caller's promise, passed on.
    unsafe { copy::memcpy(to, from, size, kind) }
}

/// Device address of a part of a variable, which must lie inside of it.
fn part(symbol: *const c_void, size: usize, offset: usize) -> Result<*mut c_void, HipError> {
    let found = boundary::value(Err(HipError::Unknown), || runtime::get().fat_binaries.variable(symbol));
    let (address, available) = found?;
    match offset.checked_add(size) {
        Some(end) if end <= available => Ok(ptr::with_exposed_provenance_mut(address + offset)),
        _ => Err(HipError::InvalidValue),
    }
}
