//! Device variables, by the host variables that shadow them.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{hipError_t, hipMemcpyKind, hipStream_t};
use crate::boundary::{self, write};
use crate::copy::{self, Call, Copy};
use crate::error::HipError;
use crate::{fat_binary, stream};

/// `hipGetSymbolAddress`
pub(crate) unsafe extern "C" fn address(address: *mut *mut c_void, symbol: *const c_void) -> hipError_t {
    boundary::call(|| {
        let (device, _) = fat_binary::registered().variable(symbol)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(address, ptr::with_exposed_provenance_mut(device)) }
    })
}

/// `hipGetSymbolSize`
pub(crate) unsafe extern "C" fn size(size: *mut usize, symbol: *const c_void) -> hipError_t {
    boundary::call(|| {
        let (_, bytes) = fat_binary::registered().variable(symbol)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(size, bytes) }
    })
}

/// Defines copies to and from a variable, for one kind of call and one stream.
macro_rules! copies {
    ($($(#[$doc:meta])* $to:ident, $from:ident, $call:path, ($($stream:ident)?), $through:expr;)*) => {
        $($(#[$doc])*
        pub(crate) unsafe extern "C" fn $to(
            symbol: *const c_void,
            from: *const c_void,
            size: usize,
            offset: usize,
            kind: hipMemcpyKind,
            $($stream: hipStream_t,)?
        ) -> hipError_t {
            let stream: hipStream_t = $through;
            boundary::call(|| {
                let to = part(symbol, size, offset)?;
                copy::submit(Copy::linear(to, from, size, kind), stream, $call)
            })
        }

        $(#[$doc])*
        /// The opposite direction.
        pub(crate) unsafe extern "C" fn $from(
            to: *mut c_void,
            symbol: *const c_void,
            size: usize,
            offset: usize,
            kind: hipMemcpyKind,
            $($stream: hipStream_t,)?
        ) -> hipError_t {
            let stream: hipStream_t = $through;
            boundary::call(|| {
                let from = part(symbol, size, offset)?;
                copy::submit(Copy::linear(to, from, size, kind), stream, $call)
            })
        })*
    };
}

copies! {
    /// `hipMemcpyToSymbol`
    copy_to, copy_from, Call::Synchronous, (), ptr::null_mut();
    /// `hipMemcpyToSymbol_spt`
    copy_to_spt, copy_from_spt, Call::Synchronous, (), stream::or_per_thread(ptr::null_mut());
    /// `hipMemcpyToSymbolAsync`
    copy_to_async, copy_from_async, Call::Asynchronous, (stream), stream;
    /// `hipMemcpyToSymbolAsync_spt`
    copy_to_async_spt, copy_from_async_spt, Call::Asynchronous, (stream), stream::or_per_thread(stream);
}

/// Device address of a part of a variable; the part must lie inside of it.
pub(crate) fn part(symbol: *const c_void, size: usize, offset: usize) -> Result<*mut c_void, HipError> {
    let (address, available) = fat_binary::registered().variable(symbol)?;
    match offset.checked_add(size) {
        Some(end) if end <= available => Ok(ptr::with_exposed_provenance_mut(address + offset)),
        _ => Err(HipError::InvalidValue),
    }
}
