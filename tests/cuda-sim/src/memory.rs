//! Memory, copies and fills. Addresses of the device are addresses of this process.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::{enter, owner};
use crate::export::exports;
use crate::hip;
use crate::result::{Handle, INVALID_VALUE, of_hip, write};

/// A device address.
type Address = u64;

/// `hipMemcpyDefault`
const ANY_DIRECTION: u32 = 4;
const TO_DEVICE: u32 = 1;
const TO_HOST: u32 = 2;
const WITHIN_DEVICE: u32 = 3;

fn pointer(address: Address) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn give(out: *mut Address, code: u32, memory: *mut c_void) -> Result<(), u32> {
    of_hip(code)?;
    // SAFETY: the caller upholds this function's contract.
    unsafe { write(out, memory as Address) }
}

/// Registered ranges of the host's memory by where they begin, with the context to which each belongs. Others of the process do not
/// know it.
static REGISTERED: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());

fn registered() -> MutexGuard<'static, BTreeMap<usize, (usize, usize)>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The context with which the memory at this address was registered, if it was.
fn registered_with(address: usize) -> Option<usize> {
    let registered = registered();
    let (start, (size, context)) = registered.range(..=address).next_back()?;
    (address - start < *size).then_some(*context)
}

/// An error if memory at this address belongs to another context than streams of this one.
pub(crate) fn check_known(address: u64, context: usize) -> Result<(), u32> {
    match registered_with(address as usize) {
        Some(with) if with != owner(context) => Err(INVALID_VALUE),
        _ => Ok(()),
    }
}

/// What was registered with a context goes with it.
pub(crate) fn context_ends(context: usize) {
    let gone: Vec<_> = registered().extract_if(.., |_, (_, with)| *with == context).collect();
    for (start, _) in gone {
        // SAFETY: registered by a program that has given the context up.
        unsafe { hip::hipHostUnregister(ptr::with_exposed_provenance_mut(start)) };
    }
}

exports! {
    @3020 cuMemAlloc_v2(out: *mut Address, size: usize) {
        enter()?;
        if size == 0 {
            return Err(INVALID_VALUE);
        }
        let mut memory = ptr::null_mut();
        let code = hip::hipMalloc(&raw mut memory, size);
        give(out, code, memory)
    }
    @3020 cuMemFree_v2(memory: Address) { enter()?; of_hip(hip::hipFree(pointer(memory))) }
    @11020 [stream: cuMemAllocAsync_ptsz] cuMemAllocAsync(out: *mut Address, size: usize, stream: Handle) {
        enter()?;
        let mut memory = ptr::null_mut();
        let code = hip::hipMallocAsync(&raw mut memory, size, stream);
        give(out, code, memory)
    }
    @11020 [stream: cuMemFreeAsync_ptsz] cuMemFreeAsync(memory: Address, stream: Handle) {
        enter()?;
        of_hip(hip::hipFreeAsync(pointer(memory), stream))
    }
    @3020 cuMemAllocHost_v2(out: *mut *mut c_void, size: usize) { enter()?; of_hip(hip::hipHostMalloc(out, size, 0)) }
    @2020 cuMemHostAlloc(out: *mut *mut c_void, size: usize, flags: u32) {
        enter()?;
        of_hip(hip::hipHostMalloc(out, size, flags))
    }
    @2000 cuMemFreeHost(memory: *mut c_void) { enter()?; of_hip(hip::hipHostFree(memory)) }
    // A range can be registered once, whichever the contexts are: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED is HIP's code, too.
    @6050 cuMemHostRegister_v2(memory: *mut c_void, size: usize, flags: u32) {
        let (context, _) = enter()?;
        of_hip(hip::hipHostRegister(memory, size, flags))?;
        registered().insert(memory.expose_provenance(), (size, owner(context as usize)));
        Ok(())
    }
    @4000 cuMemHostUnregister(memory: *mut c_void) {
        enter()?;
        of_hip(hip::hipHostUnregister(memory))?;
        registered().remove(&(memory as usize));
        Ok(())
    }
    @3020 cuMemHostGetDevicePointer_v2(out: *mut Address, host: *mut c_void, flags: u32) {
        check_known(host as u64, enter()?.0 as usize)?;
        let mut memory = ptr::null_mut();
        let code = hip::hipHostGetDevicePointer(&raw mut memory, host, flags);
        give(out, code, memory)
    }
    @3020 cuMemGetInfo_v2(free: *mut usize, total: *mut usize) { enter()?; of_hip(hip::hipMemGetInfo(free, total)) }
    @3020 cuMemGetAddressRange_v2(base: *mut Address, size: *mut usize, memory: Address) {
        enter()?;
        of_hip(hip::hipMemGetAddressRange(base.cast(), size, pointer(memory)))
    }
    @4000 cuMemcpy(to: Address, from: Address, size: usize) {
        enter()?;
        of_hip(hip::hipMemcpy(pointer(to), pointer(from), size, ANY_DIRECTION))
    }
    @3020 cuMemcpyHtoD_v2(to: Address, from: *const c_void, size: usize) {
        enter()?;
        of_hip(hip::hipMemcpy(pointer(to), from, size, TO_DEVICE))
    }
    @3020 cuMemcpyDtoH_v2(to: *mut c_void, from: Address, size: usize) {
        enter()?;
        of_hip(hip::hipMemcpy(to, pointer(from), size, TO_HOST))
    }
    @3020 cuMemcpyDtoD_v2(to: Address, from: Address, size: usize) {
        enter()?;
        of_hip(hip::hipMemcpy(pointer(to), pointer(from), size, WITHIN_DEVICE))
    }
    @4000 [stream: cuMemcpyAsync_ptsz] cuMemcpyAsync(to: Address, from: Address, size: usize, stream: Handle) {
        enter()?;
        of_hip(hip::hipMemcpyAsync(pointer(to), pointer(from), size, ANY_DIRECTION, stream))
    }
    @3020 [stream: cuMemcpyHtoDAsync_v2_ptsz] cuMemcpyHtoDAsync_v2(
        to: Address, from: *const c_void, size: usize, stream: Handle,
    ) {
        enter()?;
        of_hip(hip::hipMemcpyAsync(pointer(to), from, size, TO_DEVICE, stream))
    }
    @3020 [stream: cuMemcpyDtoHAsync_v2_ptsz] cuMemcpyDtoHAsync_v2(
        to: *mut c_void, from: Address, size: usize, stream: Handle,
    ) {
        enter()?;
        of_hip(hip::hipMemcpyAsync(to, pointer(from), size, TO_HOST, stream))
    }
    @3020 [stream: cuMemcpyDtoDAsync_v2_ptsz] cuMemcpyDtoDAsync_v2(
        to: Address, from: Address, size: usize, stream: Handle,
    ) {
        enter()?;
        of_hip(hip::hipMemcpyAsync(pointer(to), pointer(from), size, WITHIN_DEVICE, stream))
    }
    @3020 cuMemsetD8_v2(to: Address, value: u8, count: usize) { enter()?; of_hip(hip::hipMemsetD8(pointer(to), value, count)) }
    @3020 cuMemsetD32_v2(to: Address, value: u32, count: usize) {
        enter()?;
        of_hip(hip::hipMemsetD32(pointer(to), value as c_int, count))
    }
    @3020 [stream: cuMemsetD8Async_ptsz] cuMemsetD8Async(to: Address, value: u8, count: usize, stream: Handle) {
        enter()?;
        of_hip(hip::hipMemsetD8Async(pointer(to), value, count, stream))
    }
    @3020 [stream: cuMemsetD16Async_ptsz] cuMemsetD16Async(to: Address, value: u16, count: usize, stream: Handle) {
        enter()?;
        of_hip(hip::hipMemsetD16Async(pointer(to), value, count, stream))
    }
    @3020 [stream: cuMemsetD32Async_ptsz] cuMemsetD32Async(to: Address, value: u32, count: usize, stream: Handle) {
        enter()?;
        of_hip(hip::hipMemsetD32Async(pointer(to), value as c_int, count, stream))
    }
}
