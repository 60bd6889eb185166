//! Copies, and when the host waits for them.
//!
//! Waiting follows the genuine runtime (6.3): a synchronous call waits except from device to device; an asynchronous
//! one waits where pageable memory is read or written by the device, unless the source is small enough to be staged.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{hipDeviceptr_t, hipError_t, hipMemcpyKind, hipStream_t, memcpy_kind};
use crate::engine::Command;
use crate::error::HipError;
use crate::memory::Kind;
use crate::runtime::{self, Runtime};
use crate::{boundary, config, stream};

/// Pageable sources up to this size are copied aside so that the call can return: the genuine default.
const STAGING_SIZE: usize = 1 << 20;

/// Which kind of call asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Synchronous,
    Asynchronous,
}

/// What memory an end of a copy is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Device,
    Pinned,
    Pageable,
}

/// Reads and writes by raw address, in the stream's turn.
struct Transfer {
    to: *mut u8,
    from: *const u8,
    size: usize,
}

// SAFETY: the addresses are the application's; HIP's contract is that they stay valid until the copy is done.
unsafe impl Send for Transfer {}

impl Transfer {
    fn run(&self) {
        // SAFETY: both ranges were checked against the allocations or are the application's to vouch for. Overlap
        // is undefined in HIP; `copy` defines it rather than add an error that the genuine runtime does not give.
        unsafe { ptr::copy(self.from, self.to, self.size) };
    }
}

/// Checks an end: memory that HIP knows must hold all of it.
fn place(runtime: &Runtime, address: usize, size: usize) -> Result<Place, HipError> {
    match runtime.memory.find(address) {
        None => Ok(Place::Pageable),
        Some(range) if range.size_from(address) < size => Err(HipError::InvalidValue),
        Some(range) if range.kind == Kind::Host => Ok(Place::Pinned),
        Some(_) => Ok(Place::Device),
    }
}

fn is_valid_kind(kind: hipMemcpyKind) -> bool {
    kind <= memcpy_kind::DEFAULT || kind == memcpy_kind::DEVICE_TO_DEVICE_NO_CU
}

fn copy(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
    handle: hipStream_t,
    call: Call,
) -> Result<(), HipError> {
    let stream = stream::resolve(handle).ok_or(HipError::ContextIsDestroyed)?;
    if size == 0 {
        return Ok(());
    }
    if to.is_null() || from.is_null() {
        return Err(HipError::InvalidValue);
    }
    if !is_valid_kind(kind) {
        return Err(HipError::InvalidMemcpyDirection);
    }
    let runtime = runtime::get();
    let places = (place(runtime, from as usize, size)?, place(runtime, to as usize, size)?);
    let mut transfer = Transfer { to: to.cast(), from: from.cast(), size };

    let waits = match places {
        (Place::Pageable, Place::Pageable) => {
            if !matches!(kind, memcpy_kind::HOST_TO_HOST | memcpy_kind::DEFAULT) {
                return Err(HipError::InvalidValue);
            }
            stream.synchronize(runtime);
            transfer.run();
            return Ok(());
        }
        (Place::Device, Place::Device) => false,
        (Place::Pageable, _) => call == Call::Synchronous || size > STAGING_SIZE,
        (_, Place::Pageable) => true,
        _ => call == Call::Synchronous,
    };
    if config::get().null && !waits {
        return Ok(());
    }
    let staged = (places.0 == Place::Pageable && !waits).then(|| stage(&mut transfer));
    let run = move || {
        transfer.run();
        drop(staged);
    };
    let time = config::get().copy_time;
    let work = match places {
        (Place::Device, Place::Device) => time.on_device(size),
        (from, _) => time.over_link(size, from == Place::Device),
    };
    let completion = runtime.submit(&stream, Command::on_device(work, run));
    if waits {
        completion.wait();
    }
    Ok(())
}

/// Copies the source aside and points the transfer there.
fn stage(transfer: &mut Transfer) -> Vec<u8> {
    // SAFETY: the application passes a readable source of this size.
    let bytes = unsafe { core::slice::from_raw_parts(transfer.from, transfer.size) }.to_vec();
    transfer.from = bytes.as_ptr();
    bytes
}

/// `hipMemcpy`
pub(crate) unsafe extern "C" fn memcpy(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, kind, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemcpy_spt`
pub(crate) unsafe extern "C" fn memcpy_spt(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
) -> hipError_t {
    let stream = stream::or_per_thread(ptr::null_mut());
    boundary::call(|| copy(to, from, size, kind, stream, Call::Synchronous))
}

/// `hipMemcpyWithStream`: synchronous, in a stream's turn.
pub(crate) unsafe extern "C" fn memcpy_with_stream(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, kind, stream, Call::Synchronous))
}

/// `hipMemcpyAsync`
pub(crate) unsafe extern "C" fn memcpy_async(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, kind, stream, Call::Asynchronous))
}

/// `hipMemcpyAsync_spt`
pub(crate) unsafe extern "C" fn memcpy_async_spt(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, kind, stream::or_per_thread(stream), Call::Asynchronous))
}

/// `hipMemcpyHtoD`
pub(crate) unsafe extern "C" fn host_to_device(
    to: hipDeviceptr_t,
    from: *const c_void,
    size: usize,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, memcpy_kind::HOST_TO_DEVICE, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemcpyHtoDAsync`
pub(crate) unsafe extern "C" fn host_to_device_async(
    to: hipDeviceptr_t,
    from: *const c_void,
    size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, memcpy_kind::HOST_TO_DEVICE, stream, Call::Asynchronous))
}

/// `hipMemcpyDtoH`
pub(crate) unsafe extern "C" fn device_to_host(
    to: *mut c_void,
    from: hipDeviceptr_t,
    size: usize,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, memcpy_kind::DEVICE_TO_HOST, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemcpyDtoHAsync`
pub(crate) unsafe extern "C" fn device_to_host_async(
    to: *mut c_void,
    from: hipDeviceptr_t,
    size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, memcpy_kind::DEVICE_TO_HOST, stream, Call::Asynchronous))
}

/// `hipMemcpyDtoD`
pub(crate) unsafe extern "C" fn device_to_device(
    to: hipDeviceptr_t,
    from: hipDeviceptr_t,
    size: usize,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, memcpy_kind::DEVICE_TO_DEVICE, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemcpyDtoDAsync`
pub(crate) unsafe extern "C" fn device_to_device_async(
    to: hipDeviceptr_t,
    from: hipDeviceptr_t,
    size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| copy(to, from, size, memcpy_kind::DEVICE_TO_DEVICE, stream, Call::Asynchronous))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of this thread and an allocation on the device.
    fn device(size: usize) -> (hipStream_t, *mut u8) {
        let memory = runtime::get().memory.allocate(size, Kind::Device, 0).unwrap();
        (ptr::without_provenance_mut(2), memory.cast())
    }

    /// Holds the stream up so that what is submitted next is still pending when the call returns.
    fn delay(stream: hipStream_t) {
        let stream = stream::resolve(stream).unwrap();
        runtime::get().submit(&stream, Command::kernel(30_000_000, || ()));
    }

    #[test]
    fn a_copy_past_the_end_of_an_allocation_is_refused() {
        let (stream, memory) = device(64);
        let host = [1_u8; 65];
        let code = copy(memory.cast(), host.as_ptr().cast(), 65, 1, stream, Call::Asynchronous);
        assert_eq!(code, Err(HipError::InvalidValue));
        let code =
            copy(memory.wrapping_add(32).cast(), host.as_ptr().cast(), 33, 1, stream, Call::Synchronous);
        assert_eq!(code, Err(HipError::InvalidValue));
    }

    #[test]
    fn two_addresses_that_hip_does_not_know_are_a_host_copy_only() {
        let (from, mut to) = ([7_u8; 8], [0_u8; 8]);
        let to_pointer = to.as_mut_ptr().cast();
        let code = copy(
            to_pointer,
            from.as_ptr().cast(),
            8,
            memcpy_kind::HOST_TO_DEVICE,
            ptr::null_mut(),
            Call::Synchronous,
        );
        assert_eq!(code, Err(HipError::InvalidValue));
        let code = copy(
            to_pointer,
            from.as_ptr().cast(),
            8,
            memcpy_kind::DEFAULT,
            ptr::null_mut(),
            Call::Synchronous,
        );
        assert_eq!((code, to), (Ok(()), from));
    }

    #[test]
    fn a_small_pageable_source_may_change_after_the_call() {
        let (stream, memory) = device(8);
        delay(stream);
        let mut host = [1_u8; 8];
        copy(memory.cast(), host.as_ptr().cast(), 8, 1, stream, Call::Asynchronous).unwrap();
        host.fill(2);
        let mut back = [0_u8; 8];
        copy(back.as_mut_ptr().cast(), memory.cast(), 8, 2, stream, Call::Asynchronous).unwrap();
        assert_eq!(back, [1; 8], "the copy to pageable memory also waited");
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let (stream, memory) = device(8);
        let code = copy(memory.cast(), [0_u8; 8].as_ptr().cast(), 8, 77, stream, Call::Synchronous);
        assert_eq!(code, Err(HipError::InvalidMemcpyDirection));
    }
}
