//! Result codes. HIP's numbers are CUDA's, with few exceptions.

use core::ffi::c_void;

/// A result code; zero is success.
pub(crate) type CUresult = u32;
/// Any of CUDA's opaque handles.
pub(crate) type Handle = *mut c_void;

pub(crate) const INVALID_VALUE: CUresult = 1;
pub(crate) const NOT_INITIALIZED: CUresult = 3;
pub(crate) const INVALID_DEVICE: CUresult = 101;
pub(crate) const INVALID_CONTEXT: CUresult = 201;
pub(crate) const INVALID_HANDLE: CUresult = 400;
pub(crate) const NOT_FOUND: CUresult = 500;

/// What a function of CUDA returns for a code of HIP.
pub(crate) fn of_hip(code: u32) -> Result<(), CUresult> {
    match code {
        0 => Ok(()),
        // Codes of HIP's runtime interface, and what the driver says instead.
        9 | 17 | 21 | 52 => Err(INVALID_VALUE),
        98 | 709 => Err(INVALID_HANDLE),
        same => Err(same),
    }
}

/// Writes to an out-parameter.
///
/// # Safety
///
/// `out` is null or valid for a write, as CUDA's contract requires of its caller.
pub(crate) unsafe fn write<T>(out: *mut T, value: T) -> Result<(), CUresult> {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: it is not null, so the caller of this function guarantees that it is valid.
    unsafe { out.write(value) };
    Ok(())
}
