//! Memory: allocation, freeing, and queries of addresses.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use zerocopy::FromZeros;

use crate::abi::{hipChannelFormatDesc, hipDeviceptr_t, hipError_t, hipPointerAttribute_t, hipStream_t};
use crate::boundary::{self, write};
use crate::engine::Command;
use crate::error::HipError;
use crate::graph::{self, GraphMemory};
use crate::operation::Operation;
use crate::{capture, device, devices, stream, version};

mod allocations;
mod arena;
pub(crate) mod guard;
mod managed;
mod mapped;
mod pool;

pub(crate) use allocations::{Kind, Range, known};
pub(crate) use managed::{
    advise, advise_v2, attach, malloc_3d, malloc_pitch, malloc_pitch_driver, prefetch, prefetch_v2,
    range_attribute, range_attributes,
};
use pool::Pool;
pub(crate) use pool::{
    access as pool_access, attribute as pool_attribute, create as pool_create, destroy as pool_destroy,
    device_current as device_pool, device_default as device_default_pool, malloc as malloc_from_pool,
    set_access as set_pool_access, set_attribute as set_pool_attribute,
    set_device_current as set_device_pool, trim as pool_trim,
};

/// The two flags for coherent and non-coherent host memory, which exclude each other.
const HOST_COHERENCE_FLAGS: u32 = 0x4000_0000 | 0x8000_0000;
/// `hipHostRegister` has four flags.
const HOST_REGISTER_FLAGS: u32 = 0xf;
/// `hipExtMallocWithFlags`: default, fine-grained, signal, uncached, contiguous.
const DEVICE_MALLOC_FLAGS: [u32; 5] = [0x0, 0x1, 0x2, 0x3, 0x4];
const DEVICE_MALLOC_SIGNAL: u32 = 0x2;

/// Allocates, unless a capture forbids it to this thread.
fn allocate(out: *mut *mut c_void, size: usize, kind: Kind, flags: u32) -> Result<(), HipError> {
    device::current_or_none()?;
    capture::check_unsafe()?;
    allocate_despite_capture(out, size, kind, flags)
}

/// Allocates, even during a capture. Size zero allocates nothing and gives a null address, as in the genuine
/// runtime.
fn allocate_despite_capture(
    out: *mut *mut c_void,
    size: usize,
    kind: Kind,
    flags: u32,
) -> Result<(), HipError> {
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let address = match size {
        0 => ptr::null_mut(),
        _ => known().allocate(size, kind, flags).ok_or(HipError::OutOfMemory)?,
    };
    // SAFETY: the caller passes null or a writable out-parameter.
    unsafe { write(out, address) }
}

/// Frees after all work that is submitted on any stream.
fn release(address: *mut c_void) -> Result<(), HipError> {
    capture::check_unsafe()?;
    if address.is_null() {
        return Ok(());
    }
    let range = known().find(address as usize).filter(|range| range.base == address as usize);
    stream::wait_for_device(range.ok_or(HipError::InvalidValue)?.device);
    if graph::owns_memory(address as usize) {
        return Ok(());
    }
    pool::pools().freed(address as usize);
    known().remove(address as usize).map(drop).ok_or(HipError::InvalidValue)
}

/// `hipMalloc`
pub(crate) unsafe extern "C" fn malloc(out: *mut *mut c_void, size: usize) -> hipError_t {
    boundary::call(|| allocate(out, size, Kind::Device, 0))
}

/// `hipExtMallocWithFlags`
pub(crate) unsafe extern "C" fn malloc_with_flags(
    out: *mut *mut c_void,
    size: usize,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        if !DEVICE_MALLOC_FLAGS.contains(&flags) || (flags == DEVICE_MALLOC_SIGNAL && size != 8) {
            return Err(HipError::InvalidValue);
        }
        if flags == DEVICE_MALLOC_SIGNAL && !out.is_null() {
            let device = device::current_or_none()?;
            capture::check_unsafe()?;
            if let Some(signal) = device.engine.take_signal() {
                // SAFETY: the caller passes null or a writable out-parameter.
                return unsafe { write(out, known().adopt(signal, flags)) };
            }
        }
        allocate(out, size, Kind::Device, flags)
    })
}

/// `hipFree`
pub(crate) unsafe extern "C" fn free(address: *mut c_void) -> hipError_t {
    boundary::call(|| release(address))
}

/// Allocates in stream order, from the current pool of the stream's device or from another pool. A capture
/// adds a node.
fn allocate_from_pool(
    out: *mut *mut c_void,
    size: usize,
    pool: Option<Arc<Pool>>,
    stream: hipStream_t,
) -> Result<(), HipError> {
    let stream = stream::resolve(stream).ok_or(HipError::InvalidHandle)?;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    if size != 0 && stream.is_captured()? {
        let memory = GraphMemory::new(size)?;
        let address = ptr::with_exposed_provenance_mut(memory.base);
        capture::add(&stream, Operation::Allocate(memory))?;
        // SAFETY: the caller passes null or a writable out-parameter.
        return unsafe { write(out, address) };
    }
    allocate_despite_capture(out, size, pool::KIND, 0)?;
    if size != 0 {
        // SAFETY: it was written above.
        let address = unsafe { *out };
        pool::pools().allocated(pool, stream.device(), address as usize, size);
    }
    Ok(())
}

/// `hipMallocAsync`: allocates at once, which stream order permits.
pub(crate) unsafe extern "C" fn malloc_async(
    out: *mut *mut c_void,
    size: usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| allocate_from_pool(out, size, None, stream))
}

/// `hipFreeAsync`: unmapped in the stream's order; the address is invalid for new calls from now on.
pub(crate) unsafe extern "C" fn free_async(address: *mut c_void, stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        let stream = stream::resolve(stream).ok_or(HipError::InvalidHandle)?;
        let is_of_graph = graph::owns_memory(address as usize);
        if stream.is_captured()? {
            let freed = is_of_graph.then_some(address.expose_provenance()).ok_or(HipError::InvalidValue)?;
            return capture::add(&stream, Operation::Free(freed));
        }
        if is_of_graph {
            return Ok(());
        }
        let allocation = known().remove(address as usize).ok_or(HipError::InvalidValue)?;
        pool::pools().freed(address as usize);
        stream.submit(Command::transfer(move || drop(allocation)));
        Ok(())
    })
}

/// `hipMallocManaged`
pub(crate) unsafe extern "C" fn malloc_managed(out: *mut *mut c_void, size: usize, flags: u32) -> hipError_t {
    boundary::call(|| {
        // Attached to all streams, or to the host.
        if !matches!(flags, 1 | 2) || size == 0 {
            return Err(HipError::InvalidValue);
        }
        allocate(out, size, Kind::Managed, flags)
    })
}

/// `hipHostMalloc`, `hipHostAlloc`, `hipExtHostAlloc`
pub(crate) unsafe extern "C" fn host_malloc(out: *mut *mut c_void, size: usize, flags: u32) -> hipError_t {
    boundary::call(|| {
        if flags & HOST_COHERENCE_FLAGS == HOST_COHERENCE_FLAGS {
            return Err(HipError::InvalidValue);
        }
        allocate(out, size, Kind::Host, flags)
    })
}

/// `hipMallocHost`, `hipMemAllocHost`
pub(crate) unsafe extern "C" fn host_malloc_default(out: *mut *mut c_void, size: usize) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { host_malloc(out, size, 0) }
}

/// `hipHostFree`, `hipFreeHost`
pub(crate) unsafe extern "C" fn host_free(address: *mut c_void) -> hipError_t {
    boundary::call(|| release(address))
}

/// `hipHostRegister`
pub(crate) unsafe extern "C" fn host_register(address: *mut c_void, size: usize, flags: u32) -> hipError_t {
    boundary::call(|| {
        capture::check_unsafe()?;
        if address.is_null() || size == 0 || flags & !HOST_REGISTER_FLAGS != 0 {
            return Err(HipError::InvalidValue);
        }
        if !mapped::is_writable(address as usize, size) {
            return Err(HipError::InvalidValue);
        }
        let is_new = known().register(address as usize, size, flags);
        if is_new { Ok(()) } else { Err(HipError::HostMemoryAlreadyRegistered) }
    })
}

/// `hipHostUnregister`
pub(crate) unsafe extern "C" fn host_unregister(address: *mut c_void) -> hipError_t {
    boundary::call(|| {
        capture::check_unsafe()?;
        stream::wait_for_all();
        if known().unregister(address as usize) { Ok(()) } else { Err(HipError::HostMemoryNotRegistered) }
    })
}

/// `hipHostGetDevicePointer`: host memory has the same address on the device.
pub(crate) unsafe extern "C" fn host_device_pointer(
    device: *mut *mut c_void,
    host: *mut c_void,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        let range = known().find(host as usize).ok_or(HipError::InvalidValue)?;
        if flags != 0 || range.kind == Kind::Device {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(device, host) }
    })
}

/// `hipHostGetFlags`
pub(crate) unsafe extern "C" fn host_flags(flags: *mut u32, host: *mut c_void) -> hipError_t {
    boundary::call(|| {
        let range = known().find(host as usize).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(flags, range.flags) }
    })
}

/// `hipMemGetInfo`
pub(crate) unsafe extern "C" fn info(free: *mut usize, total: *mut usize) -> hipError_t {
    boundary::call(|| {
        let memory = known();
        for (out, value) in [(free, memory.free_size(devices::current())), (total, memory.total_size())] {
            if !out.is_null() {
                // SAFETY: the caller passes null or a writable out-parameter.
                unsafe { write(out, value)? };
            }
        }
        Ok(())
    })
}

/// `hipMemGetAddressRange`
pub(crate) unsafe extern "C" fn address_range(
    base: *mut hipDeviceptr_t,
    size: *mut usize,
    address: hipDeviceptr_t,
) -> hipError_t {
    boundary::call(|| {
        let range = known().find(address as usize).ok_or(HipError::NotFound)?;
        // SAFETY: the caller passes null or writable out-parameters.
        unsafe {
            write(base, ptr::with_exposed_provenance_mut(range.base))?;
            write(size, range.size)
        }
    })
}

/// `hipMemPtrGetInfo`
pub(crate) unsafe extern "C" fn pointer_size(address: *mut c_void, size: *mut usize) -> hipError_t {
    boundary::call(|| {
        let range = known().find(address as usize).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(size, range.size) }
    })
}

/// `hipPointerGetAttributes`: memory that HIP does not know is unregistered from 6.0 on; before, it is an
/// error.
pub(crate) unsafe extern "C" fn pointer_attributes(
    attributes: *mut hipPointerAttribute_t,
    address: *const c_void,
) -> hipError_t {
    boundary::call(|| {
        if address.is_null() {
            return Err(HipError::InvalidValue);
        }
        let range = known().find(address as usize);
        let mut known = hipPointerAttribute_t::new_zeroed();
        match range {
            Some(range) => {
                known.r#type = range.kind.code(version::major());
                known.device = range.device as i32;
                known.devicePointer = address as usize;
                known.hostPointer = if range.kind == Kind::Host { address as usize } else { 0 };
                known.isManaged = i32::from(range.kind == Kind::Managed);
                known.allocationFlags = range.flags;
            }
            None if version::major() < 6 => return Err(HipError::InvalidValue),
            None => known.device = -2,
        }
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(attributes, known) }
    })
}

/// `hipCreateChannelDesc`
#[expect(clippy::many_single_char_names, reason = "HIP's names")]
pub(crate) unsafe extern "C" fn channel_format(
    x: i32,
    y: i32,
    z: i32,
    w: i32,
    f: u32,
) -> hipChannelFormatDesc {
    hipChannelFormatDesc { x, y, z, w, f }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocated(size: usize) -> *mut c_void {
        let mut address = ptr::null_mut();
        // SAFETY: a local out-parameter.
        assert_eq!(unsafe { malloc(&raw mut address, size) }, 0);
        address
    }

    #[test]
    fn memory_is_freed_once() {
        let address = allocated(100);
        // SAFETY: addresses are checked, not dereferenced.
        unsafe {
            assert_eq!(free(address.wrapping_byte_add(8)), HipError::InvalidValue.code());
            assert_eq!(free(address), 0);
            assert_eq!(free(address), HipError::InvalidValue.code());
            assert_eq!(free(ptr::null_mut()), 0);
        }
    }

    #[test]
    fn zero_bytes_allocate_nothing() {
        assert!(allocated(0).is_null());
    }

    #[test]
    fn more_memory_than_the_device_has_is_refused() {
        let mut address = ptr::null_mut();
        // SAFETY: a local out-parameter.
        let code = unsafe { malloc(&raw mut address, usize::MAX / 2) };
        assert_eq!(code, HipError::OutOfMemory.code());
    }

    #[test]
    fn an_address_inside_an_allocation_is_known() {
        let address = allocated(100);
        let mut base = ptr::null_mut();
        let mut size = 0;
        // SAFETY: local out-parameters.
        let code = unsafe { address_range(&raw mut base, &raw mut size, address.wrapping_byte_add(99)) };
        assert_eq!((code, base, size), (0, address, 100));
    }
}
