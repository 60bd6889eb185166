//! Copies, and when the host waits for them.
//!
//! The rules follow the [genuine runtime](https://github.com/ROCm/clr/blob/fe70c0d6b08e/hipamd/src/hip_memory.cpp) (6.3).
//! A synchronous call waits unless it copies from device to device. An asynchronous call waits if the device
//! reads or writes pageable memory, unless the source is small enough to be staged.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{hipDeviceptr_t, hipError_t, hipMemcpyKind, hipStream_t, memcpy_kind};
use crate::engine::Command;
use crate::error::HipError;
use crate::operation::Operation;
use crate::{boundary, capture, config, stream};

mod batch;
mod boxes;
mod pitched;
mod shape;

pub(crate) use batch::batch_3d_async;
pub(crate) use boxes::{of_box, of_driver_box, to_box, to_driver_box};
pub(crate) use pitched::*;
pub(crate) use shape::{Copy, End, Extent, MemoryType};

/// Pageable sources up to this size are copied to a staging buffer so that the call can return: the genuine
/// default.
const STAGING_SIZE: usize = 1 << 20;

/// The kind of call that submits the copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Synchronous,
    Asynchronous,
}

/// Submits a copy to a stream, or adds it to the graph of the stream's capture.
pub(crate) fn submit(mut copy: Copy, handle: hipStream_t, call: Call) -> Result<(), HipError> {
    let stream = stream::resolve(handle).ok_or(HipError::ContextIsDestroyed)?;
    if call == Call::Synchronous {
        capture::check_synchronous()?;
    }
    if copy.is_empty() {
        return Ok(());
    }
    let memory_types = copy.memory_types()?;
    if call == Call::Asynchronous && stream.is_captured()? {
        return capture::add(&stream, Operation::Copy(copy));
    }
    let waits = match memory_types {
        (MemoryType::Pageable, MemoryType::Pageable) => {
            stream.synchronize();
            copy.run();
            return Ok(());
        }
        (MemoryType::Device, MemoryType::Device) => false,
        (MemoryType::Pageable, _) => {
            call == Call::Synchronous || copy.extent.size().is_none_or(|size| size > STAGING_SIZE)
        }
        (_, MemoryType::Pageable) => true,
        _ => call == Call::Synchronous,
    };
    if config::get().null && !waits {
        return Ok(());
    }
    let work = copy.work(memory_types);
    let staged = (memory_types.0 == MemoryType::Pageable && !waits).then(|| copy.stage());
    let run = move || {
        copy.run();
        drop(staged);
    };
    let completion = stream.submit(Command::on_device(work, run));
    if waits {
        completion.wait();
    }
    Ok(())
}

fn copy(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
    handle: hipStream_t,
    call: Call,
) -> Result<(), HipError> {
    submit(Copy::linear(to, from, size, kind), handle, call)
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

/// `hipMemcpyWithStream`: synchronous, in the stream's order.
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
    use crate::memory;
    use crate::memory::Kind;

    /// A stream of this thread and an allocation on the device.
    fn device(size: usize) -> (hipStream_t, *mut u8) {
        let memory = memory::known().allocate(size, Kind::Device, 0).unwrap();
        (ptr::without_provenance_mut(2), memory.cast())
    }

    /// Keeps the stream busy so that the next submitted work is still pending when the call returns.
    fn delay(stream: hipStream_t) {
        let stream = stream::resolve(stream).unwrap();
        stream.submit(Command::kernel(30_000_000, || ()));
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
    fn two_addresses_unknown_to_hip_can_only_be_copied_on_the_host() {
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
