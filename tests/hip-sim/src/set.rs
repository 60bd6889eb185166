//! Fills of device memory with a repeated value.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{hipDeviceptr_t, hipError_t, hipExtent, hipPitchedPtr, hipStream_t};
use crate::copy::Extent;
use crate::error::HipError;
use crate::memory::Kind;
use crate::operation::Operation;
use crate::{boundary, capture, config, stream};

mod fill;

pub(crate) use fill::Fill;

/// The kind of call that submits the fill.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Waits for fills of host memory, and for fills of device memory that do not begin at an allocation's
    /// start.
    Synchronous,
    Asynchronous,
}

/// Submits a fill to a stream, or adds it to the graph of the stream's capture.
fn submit(fill: Fill, handle: hipStream_t, call: Call) -> Result<(), HipError> {
    let stream = stream::resolve(handle).ok_or(HipError::ContextIsDestroyed)?;
    if call == Call::Synchronous {
        capture::check_synchronous()?;
    }
    if fill.extent.is_empty() {
        return Ok(());
    }
    let range = fill.range()?;
    if call == Call::Asynchronous && stream.is_captured()? {
        return capture::add(&stream, Operation::Fill(fill));
    }
    let waits = call == Call::Synchronous && (range.kind != Kind::Device || range.base != fill.to);
    if config::get().null && !waits {
        return Ok(());
    }
    let completion = stream.submit(fill.command());
    if waits {
        completion.wait();
    }
    Ok(())
}

/// A plain range.
fn fill<T: Into<u32>>(
    to: *mut c_void,
    value: T,
    count: usize,
    handle: hipStream_t,
    call: Call,
) -> Result<(), HipError> {
    submit(Fill::linear(to, value.into(), size_of::<T>(), count), handle, call)
}

/// Rows of elements.
fn fill_rows<T: Into<u32>>(
    (to, pitch): (*mut c_void, usize),
    value: T,
    (width, height): (usize, usize),
    handle: hipStream_t,
    call: Call,
) -> Result<(), HipError> {
    let element_size = size_of::<T>();
    let is_empty = width == 0 || height == 0;
    if !is_empty && width.checked_mul(element_size).is_none_or(|row| row > pitch) {
        return Err(HipError::InvalidValue);
    }
    let extent = Extent { width, height, depth: 1 };
    submit(Fill::new(to, value.into(), element_size, extent, pitch), handle, call)
}

/// A box of bytes.
fn fill_box(
    to: hipPitchedPtr,
    value: u8,
    extent: hipExtent,
    handle: hipStream_t,
    call: Call,
) -> Result<(), HipError> {
    let hipExtent { width, height, depth } = extent;
    let extent = Extent { width, height, depth };
    if !extent.is_empty() && (width > to.pitch || (depth > 1 && height > to.ysize)) {
        return Err(HipError::InvalidValue);
    }
    let address = ptr::with_exposed_provenance_mut(to.ptr);
    let mut fill = Fill::new(address, u32::from(value), 1, extent, to.pitch);
    fill.rows = to.ysize;
    submit(fill, handle, call)
}

/// Defines a synchronous and an asynchronous function, each with its stream.
macro_rules! fills {
    ($($(#[$doc:meta])* $sync:ident, $asynchronous:ident, $through:expr,
        ($($parameter:ident: $type:ty),*) => $submit:ident($($argument:expr),*);)*) => {
        $($(#[$doc])*
        pub(crate) unsafe extern "C" fn $sync($($parameter: $type),*) -> hipError_t {
            boundary::call(|| $submit($($argument,)* $through(ptr::null_mut()), Call::Synchronous))
        }

        $(#[$doc])*
        /// Asynchronous.
        pub(crate) unsafe extern "C" fn $asynchronous($($parameter: $type,)* stream: hipStream_t) -> hipError_t {
            boundary::call(|| $submit($($argument,)* $through(stream), Call::Asynchronous))
        })*
    };
}

fills! {
    /// `hipMemset2D`
    memset_2d, memset_2d_async, core::convert::identity,
    (to: *mut c_void, pitch: usize, value: i32, width: usize, height: usize)
        => fill_rows((to, pitch), value as u8, (width, height));
    /// `hipMemset2D_spt`
    memset_2d_spt, memset_2d_async_spt, stream::or_per_thread,
    (to: *mut c_void, pitch: usize, value: i32, width: usize, height: usize)
        => fill_rows((to, pitch), value as u8, (width, height));
    /// `hipMemset3D`
    memset_3d, memset_3d_async, core::convert::identity, (to: hipPitchedPtr, value: i32, extent: hipExtent)
        => fill_box(to, value as u8, extent);
    /// `hipMemset3D_spt`
    memset_3d_spt, memset_3d_async_spt, stream::or_per_thread, (to: hipPitchedPtr, value: i32, extent: hipExtent)
        => fill_box(to, value as u8, extent);
    /// `hipMemsetD2D8`
    memset_d2_d8, memset_d2_d8_async, core::convert::identity,
    (to: hipDeviceptr_t, pitch: usize, value: u8, width: usize, height: usize)
        => fill_rows((to, pitch), value, (width, height));
    /// `hipMemsetD2D16`
    memset_d2_d16, memset_d2_d16_async, core::convert::identity,
    (to: hipDeviceptr_t, pitch: usize, value: u16, width: usize, height: usize)
        => fill_rows((to, pitch), value, (width, height));
    /// `hipMemsetD2D32`
    memset_d2_d32, memset_d2_d32_async, core::convert::identity,
    (to: hipDeviceptr_t, pitch: usize, value: u32, width: usize, height: usize)
        => fill_rows((to, pitch), value, (width, height));
}

/// `hipMemset`
pub(crate) unsafe extern "C" fn memset(to: *mut c_void, value: i32, size: usize) -> hipError_t {
    boundary::call(|| fill(to, value as u8, size, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemset_spt`
pub(crate) unsafe extern "C" fn memset_spt(to: *mut c_void, value: i32, size: usize) -> hipError_t {
    let stream = stream::or_per_thread(ptr::null_mut());
    boundary::call(|| fill(to, value as u8, size, stream, Call::Synchronous))
}

/// `hipMemsetAsync`
pub(crate) unsafe extern "C" fn memset_async(
    to: *mut c_void,
    value: i32,
    size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| fill(to, value as u8, size, stream, Call::Asynchronous))
}

/// `hipMemsetAsync_spt`
pub(crate) unsafe extern "C" fn memset_async_spt(
    to: *mut c_void,
    value: i32,
    size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| fill(to, value as u8, size, stream::or_per_thread(stream), Call::Asynchronous))
}

/// `hipMemsetD8`
pub(crate) unsafe extern "C" fn memset_d8(to: hipDeviceptr_t, value: u8, count: usize) -> hipError_t {
    boundary::call(|| fill(to, value, count, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemsetD8Async`
pub(crate) unsafe extern "C" fn memset_d8_async(
    to: hipDeviceptr_t,
    value: u8,
    count: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| fill(to, value, count, stream, Call::Asynchronous))
}

/// `hipMemsetD16`
pub(crate) unsafe extern "C" fn memset_d16(to: hipDeviceptr_t, value: u16, count: usize) -> hipError_t {
    boundary::call(|| fill(to, value, count, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemsetD16Async`
pub(crate) unsafe extern "C" fn memset_d16_async(
    to: hipDeviceptr_t,
    value: u16,
    count: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| fill(to, value, count, stream, Call::Asynchronous))
}

/// `hipMemsetD32`
pub(crate) unsafe extern "C" fn memset_d32(to: hipDeviceptr_t, value: i32, count: usize) -> hipError_t {
    boundary::call(|| fill(to, value.cast_unsigned(), count, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemsetD32Async`
pub(crate) unsafe extern "C" fn memset_d32_async(
    to: hipDeviceptr_t,
    value: i32,
    count: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| fill(to, value.cast_unsigned(), count, stream, Call::Asynchronous))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    #[test]
    fn words_are_counted_in_words() {
        let memory = memory::known().allocate(16, Kind::Device, 0).unwrap();
        let stream = ptr::without_provenance_mut(2);
        assert_eq!(fill(memory, 0_u32, 5, stream, Call::Asynchronous), Err(HipError::InvalidValue));
        fill(memory, 0x0102_0304_u32, 4, stream, Call::Asynchronous).unwrap();
        stream::resolve(stream).unwrap().synchronize();
        // SAFETY: the allocation has sixteen bytes and the fill is done.
        let words = unsafe { core::slice::from_raw_parts(memory.cast::<u32>(), 4) };
        assert_eq!(words, [0x0102_0304; 4]);
    }

    #[test]
    fn memory_that_hip_does_not_know_is_refused() {
        let mut host = [0_u8; 4];
        let code = fill(host.as_mut_ptr().cast(), 1_u8, 4, ptr::null_mut(), Call::Synchronous);
        assert_eq!(code, Err(HipError::InvalidValue));
    }
}
