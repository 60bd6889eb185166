//! Fills of device memory with a repeated value.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{hipDeviceptr_t, hipError_t, hipStream_t};
use crate::engine::Command;
use crate::error::HipError;
use crate::memory::Kind;
use crate::runtime;
use crate::{boundary, config, stream};

/// Writes a value repeatedly, in the stream's turn.
struct Fill<T> {
    to: *mut T,
    value: T,
    count: usize,
}

// SAFETY: the range was checked against the allocations; HIP's contract is that it stays valid until the fill is done.
unsafe impl<T> Send for Fill<T> {}

impl<T: Copy> Fill<T> {
    fn run(&self) {
        for index in 0..self.count {
            // SAFETY: inside the checked range; `D16` and `D32` addresses may be unaligned, which HIP leaves open.
            unsafe { self.to.add(index).write_unaligned(self.value) };
        }
    }
}

/// What the call does when the memory is the device's: it never waits there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Waits for fills of host memory, and of device memory that does not begin an allocation.
    Synchronous,
    Asynchronous,
}

fn fill<T: Copy + 'static>(
    to: *mut c_void,
    value: T,
    count: usize,
    handle: hipStream_t,
    call: Call,
) -> Result<(), HipError> {
    let stream = stream::resolve(handle).ok_or(HipError::ContextIsDestroyed)?;
    if count == 0 {
        return Ok(());
    }
    let runtime = runtime::get();
    let size = count.checked_mul(size_of::<T>()).ok_or(HipError::InvalidValue)?;
    let range = runtime.memory.find(to as usize).ok_or(HipError::InvalidValue)?;
    if range.size_from(to as usize) < size {
        return Err(HipError::InvalidValue);
    }
    let waits = call == Call::Synchronous && (range.kind != Kind::Device || range.base != to as usize);
    if config::get().null && !waits {
        return Ok(());
    }
    let fill = Fill { to: to.cast::<T>(), value, count };
    let work = config::get().copy_time.on_device(size);
    let completion = runtime.submit(&stream, Command::on_device(work, move || fill.run()));
    if waits {
        completion.wait();
    }
    Ok(())
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
    boundary::call(|| fill(to, value, count, ptr::null_mut(), Call::Synchronous))
}

/// `hipMemsetD32Async`
pub(crate) unsafe extern "C" fn memset_d32_async(
    to: hipDeviceptr_t,
    value: i32,
    count: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| fill(to, value, count, stream, Call::Asynchronous))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_words() {
        let memory = runtime::get().memory.allocate(16, Kind::Device, 0).unwrap();
        let stream = ptr::without_provenance_mut(2);
        assert_eq!(fill(memory, 0_u32, 5, stream, Call::Asynchronous), Err(HipError::InvalidValue));
        fill(memory, 0x0102_0304_u32, 4, stream, Call::Asynchronous).unwrap();
        stream::resolve(stream).unwrap().synchronize(runtime::get());
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
