//! Hints about managed memory, and memory with a pitch. Memory never moves, so hints are only stored or
//! checked.

use core::ffi::c_void;
use core::ptr;

use super::{Kind, allocate, known};
use crate::abi::{
    hipDeviceptr_t, hipError_t, hipExtent, hipMemLocation, hipMemRangeAttribute, hipMemoryAdvise,
    hipPitchedPtr, hipStream_t,
};
use crate::boundary::{self, write};
use crate::engine::Command;
use crate::error::HipError;
use crate::properties::PITCH_ALIGNMENT;
use crate::{device, stream};

/// `hipCpuDeviceId`
const HOST: i32 = -1;
/// `hipInvalidDeviceId`: no particular location.
const NOWHERE: i32 = -2;

/// Checks that managed memory contains the whole range.
fn check(address: *const c_void, size: usize) -> Result<(), HipError> {
    let range = known().find(address as usize).ok_or(HipError::InvalidValue)?;
    let fits = size != 0 && range.size_from(address as usize) >= size;
    if fits && range.kind != Kind::Device { Ok(()) } else { Err(HipError::InvalidValue) }
}

fn check_target(device: i32) -> Result<(), HipError> {
    if device == HOST { Ok(()) } else { device::check(device).map(drop) }
}

fn prefetched(address: *const c_void, size: usize, device: i32, handle: hipStream_t) -> Result<(), HipError> {
    if address.is_null() || size == 0 {
        return Err(HipError::InvalidValue);
    }
    let stream = stream::resolve(handle).ok_or(HipError::InvalidValue)?;
    check_target(device)?;
    check(address, size)?;
    stream.submit(Command::marker());
    Ok(())
}

/// `hipMemPrefetchAsync`: runs in the stream's order and takes no time.
pub(crate) unsafe extern "C" fn prefetch(
    address: *const c_void,
    size: usize,
    device: i32,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| prefetched(address, size, device, stream))
}

/// `hipMemPrefetchAsync_v2`
pub(crate) unsafe extern "C" fn prefetch_v2(
    address: *const c_void,
    size: usize,
    location: hipMemLocation,
    flags: u32,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| {
        if flags != 0 {
            return Err(HipError::InvalidValue);
        }
        prefetched(address, size, ordinal_of(location), stream)
    })
}

/// The device's ordinal, or the host.
fn ordinal_of(location: hipMemLocation) -> i32 {
    if location.r#type == 1 { location.id } else { HOST }
}

fn advised(address: *const c_void, size: usize, advice: u32, device: i32) -> Result<(), HipError> {
    if address.is_null() || size == 0 || !matches!(advice, 1..=6 | 100 | 101) {
        return Err(HipError::InvalidValue);
    }
    // Only the preferred location and the advice about access name a device.
    if matches!(advice, 3 | 5 | 6) {
        check_target(device)?;
    }
    check(address, size)
}

/// `hipMemAdvise`
pub(crate) unsafe extern "C" fn advise(
    address: *const c_void,
    size: usize,
    advice: hipMemoryAdvise,
    device: i32,
) -> hipError_t {
    boundary::call(|| advised(address, size, advice, device))
}

/// `hipMemAdvise_v2`
pub(crate) unsafe extern "C" fn advise_v2(
    address: *const c_void,
    size: usize,
    advice: hipMemoryAdvise,
    location: hipMemLocation,
) -> hipError_t {
    boundary::call(|| advised(address, size, advice, ordinal_of(location)))
}

/// Writes one attribute of a range to each word of the result, as if no advice had been given.
///
/// # Safety
///
/// `out` is null or points to `out_size` bytes.
unsafe fn attribute_of(
    (out, out_size): (*mut c_void, usize),
    attribute: hipMemRangeAttribute,
    (address, size): (*const c_void, usize),
) -> Result<(), HipError> {
    if out.is_null() || out_size < 4 || !out_size.is_multiple_of(4) {
        return Err(HipError::InvalidValue);
    }
    check(address, size)?;
    let value = match attribute {
        // Not read-mostly; fine-grained.
        1 | 100 => 0,
        2..=4 => NOWHERE,
        _ => return Err(HipError::InvalidValue),
    };
    for index in 0..out_size / 4 {
        // SAFETY: the caller upholds this function's contract; the index stays below the size.
        unsafe { out.cast::<i32>().add(index).write_unaligned(value) };
    }
    Ok(())
}

/// `hipMemRangeGetAttribute`
pub(crate) unsafe extern "C" fn range_attribute(
    out: *mut c_void,
    out_size: usize,
    attribute: hipMemRangeAttribute,
    address: *const c_void,
    size: usize,
) -> hipError_t {
    // SAFETY: the caller passes a buffer and its size.
    boundary::call(|| unsafe { attribute_of((out, out_size), attribute, (address, size)) })
}

/// `hipMemRangeGetAttributes`: writes nothing if a target is null; otherwise it writes up to the first
/// invalid attribute.
pub(crate) unsafe extern "C" fn range_attributes(
    outs: *mut *mut c_void,
    out_sizes: *mut usize,
    attributes: *mut hipMemRangeAttribute,
    count: usize,
    address: *const c_void,
    size: usize,
) -> hipError_t {
    boundary::call(|| {
        if outs.is_null() || out_sizes.is_null() || attributes.is_null() || count == 0 {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes an array of `count` elements.
        if (0..count).any(|index| unsafe { *outs.add(index) }.is_null()) {
            return Err(HipError::InvalidValue);
        }
        for index in 0..count {
            // SAFETY: the caller passes three arrays of `count` elements; each buffer has the stated size.
            unsafe {
                let out = (*outs.add(index), *out_sizes.add(index));
                attribute_of(out, *attributes.add(index), (address, size))?;
            }
        }
        Ok(())
    })
}

/// `hipStreamAttachMemAsync`
pub(crate) unsafe extern "C" fn attach(
    stream: hipStream_t,
    address: *mut c_void,
    _size: usize,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        let stream = stream::resolve(stream).ok_or(HipError::InvalidHandle)?;
        // Attached to all streams, to the host, or to this stream.
        if !matches!(flags, 1 | 2 | 4) || known().find(address as usize).is_none() {
            return Err(HipError::InvalidValue);
        }
        stream.submit(Command::marker());
        Ok(())
    })
}

/// Address and pitch of rows of `width` bytes, each at an aligned offset. Zero bytes allocate nothing.
fn pitched(width: usize, rows: usize) -> Result<(*mut c_void, usize), HipError> {
    let pitch = width.checked_next_multiple_of(PITCH_ALIGNMENT).ok_or(HipError::InvalidValue)?;
    let size = pitch.checked_mul(rows).ok_or(HipError::OutOfMemory)?;
    let mut address = ptr::null_mut();
    allocate(&raw mut address, size, Kind::Device, 0)?;
    Ok((address, pitch))
}

/// `hipMallocPitch`
pub(crate) unsafe extern "C" fn malloc_pitch(
    out: *mut *mut c_void,
    out_pitch: *mut usize,
    width: usize,
    height: usize,
) -> hipError_t {
    boundary::call(|| {
        if out.is_null() || out_pitch.is_null() {
            return Err(HipError::InvalidValue);
        }
        let (address, pitch) = pitched(width, height)?;
        // SAFETY: the caller passes null or writable out-parameters.
        unsafe {
            write(out_pitch, pitch)?;
            write(out, address)
        }
    })
}

/// `hipMemAllocPitch`
pub(crate) unsafe extern "C" fn malloc_pitch_driver(
    out: *mut hipDeviceptr_t,
    out_pitch: *mut usize,
    width: usize,
    height: usize,
    _element_size: u32,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { malloc_pitch(out, out_pitch, width, height) }
}

/// `hipMalloc3D`
pub(crate) unsafe extern "C" fn malloc_3d(out: *mut hipPitchedPtr, extent: hipExtent) -> hipError_t {
    boundary::call(|| {
        let hipExtent { width, height, depth } = extent;
        if out.is_null() {
            return Err(HipError::InvalidValue);
        }
        let (address, pitch) = pitched(width, height.checked_mul(depth).ok_or(HipError::OutOfMemory)?)?;
        let made = hipPitchedPtr { ptr: address.expose_provenance(), pitch, xsize: width, ysize: height };
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, made) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_and_fit() {
        let (mut address, mut pitch) = (ptr::null_mut(), 0);
        // SAFETY: local out-parameters.
        unsafe {
            assert_eq!(malloc_pitch(&raw mut address, &raw mut pitch, 100, 3), 0);
        }
        assert_eq!(pitch, PITCH_ALIGNMENT);
        let range = known().find(address as usize).unwrap();
        assert_eq!(range.size, 3 * PITCH_ALIGNMENT);
    }

    #[test]
    fn only_managed_memory_accepts_hints() {
        let managed = known().allocate(64, Kind::Managed, 1).unwrap();
        let device = known().allocate(64, Kind::Device, 0).unwrap();
        // SAFETY: addresses are looked up, not dereferenced.
        unsafe {
            assert_eq!(advise(managed, 64, 3, 0), 0);
            assert_eq!(advise(managed, 64, 3, 9), HipError::InvalidDevice.code());
            assert_eq!(advise(managed, 65, 1, 0), HipError::InvalidValue.code());
            assert_eq!(
                prefetch(device, 64, 0, ptr::without_provenance_mut(2)),
                HipError::InvalidValue.code()
            );
            assert_eq!(prefetch(managed, 64, HOST, ptr::without_provenance_mut(2)), 0);
        }
    }

    #[test]
    fn several_attributes_are_read_at_once() {
        let managed = known().allocate(64, Kind::Managed, 1).unwrap();
        let device = known().allocate(64, Kind::Device, 0).unwrap();
        let (mut read_mostly, mut accessed_by) = (7_i32, [7_i32; 2]);
        let mut outs = [(&raw mut read_mostly).cast::<c_void>(), (&raw mut accessed_by).cast()];
        let (mut sizes, mut attributes) = ([4, 8], [1, 3]);
        let mut ask = |outs: &mut [*mut c_void; 2], address, count| {
            // SAFETY: arrays of two elements, and buffers of the stated sizes.
            unsafe {
                range_attributes(
                    outs.as_mut_ptr(),
                    sizes.as_mut_ptr(),
                    attributes.as_mut_ptr(),
                    count,
                    address,
                    64,
                )
            }
        };
        let invalid = HipError::InvalidValue.code();
        assert_eq!(ask(&mut outs, device, 2), invalid);
        assert_eq!(ask(&mut outs, managed, 0), invalid);
        assert_eq!(ask(&mut [outs[0], ptr::null_mut()], managed, 2), invalid);
        // SAFETY: a local.
        assert_eq!(unsafe { outs[0].cast::<i32>().read() }, 7, "the failed calls wrote nothing");
        assert_eq!(ask(&mut outs, managed, 2), 0);
        assert_eq!((read_mostly, accessed_by), (0, [NOWHERE; 2]));
    }
}
