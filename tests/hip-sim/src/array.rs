//! Arrays, as far as copies need them: device memory with rows of elements. Nothing can sample them.

use std::sync::Arc;

use crate::abi::{
    HIP_ARRAY_DESCRIPTOR, HIP_ARRAY3D_DESCRIPTOR, hipArray_t, hipChannelFormatDesc, hipError_t, hipExtent,
};
use crate::boundary::{self, write};
use crate::copy::End;
use crate::error::HipError;
use crate::handles::Handles;
use crate::memory::Kind;
use crate::runtime::table;
use crate::{capture, memory, stream};

/// Layered, surface load/store and gather flags; cube maps are not supported.
const KNOWN_FLAGS: u32 = 0x1 | 0x2 | 0x8;

/// Kinds of channels: `hipChannelFormatKind`.
const SIGNED: u32 = 0;
const UNSIGNED: u32 = 1;
const FLOAT: u32 = 2;

table! {
    /// All arrays.
    listed: Handles<Array> = Handles::default()
}

/// An array. An extent of 0 means that it does not have that dimension.
pub(crate) struct Array {
    base: usize,
    descriptor: HIP_ARRAY3D_DESCRIPTOR,
}

impl Array {
    /// Bytes.
    pub(crate) fn element_size(&self) -> usize {
        element_size(&self.descriptor).expect("checked when it was made")
    }

    /// One end of a copy, at an element of the array; `x` in bytes.
    pub(crate) fn end(self: &Arc<Self>, x: usize, y: usize, z: usize) -> End {
        let pitch = self.descriptor.Width * self.element_size();
        let array = Arc::as_ptr(self).expose_provenance();
        End { base: self.base, pitch, rows: self.descriptor.Height.max(1), x, y, z, array }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        drop(memory::known().remove(self.base));
    }
}

/// The array for a handle.
pub(crate) fn resolve(array: *const core::ffi::c_void) -> Result<Arc<Array>, HipError> {
    listed().get(array).ok_or(HipError::InvalidHandle)
}

/// None for an unknown format, or for a number of channels other than 1, 2 or 4.
fn element_size(descriptor: &HIP_ARRAY3D_DESCRIPTOR) -> Option<usize> {
    let channel = match descriptor.Format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => return None,
    };
    matches!(descriptor.NumChannels, 1 | 2 | 4).then_some(channel * descriptor.NumChannels as usize)
}

fn format_of(channels: &hipChannelFormatDesc) -> Result<(u32, u32), HipError> {
    let bits = [channels.x, channels.y, channels.z, channels.w];
    let count = bits.iter().take_while(|b| **b != 0).count();
    let is_uniform = bits.iter().take(count).all(|b| *b == bits[0]) && bits[count..].iter().all(|b| *b == 0);
    let format = match (channels.f, bits[0]) {
        (UNSIGNED, 8) => 0x01,
        (UNSIGNED, 16) => 0x02,
        (UNSIGNED, 32) => 0x03,
        (SIGNED, 8) => 0x08,
        (SIGNED, 16) => 0x09,
        (SIGNED, 32) => 0x0a,
        (FLOAT, 16) => 0x10,
        (FLOAT, 32) => 0x20,
        _ => return Err(HipError::InvalidValue),
    };
    if is_uniform { Ok((format, count as u32)) } else { Err(HipError::InvalidValue) }
}

fn channels_of(descriptor: &HIP_ARRAY3D_DESCRIPTOR) -> hipChannelFormatDesc {
    let (bits, f) = match descriptor.Format {
        0x01 => (8, UNSIGNED),
        0x02 => (16, UNSIGNED),
        0x03 => (32, UNSIGNED),
        0x08 => (8, SIGNED),
        0x09 => (16, SIGNED),
        0x0a => (32, SIGNED),
        0x10 => (16, FLOAT),
        _ => (32, FLOAT),
    };
    let channel = |index| if index < descriptor.NumChannels { bits } else { 0 };
    hipChannelFormatDesc { x: channel(0), y: channel(1), z: channel(2), w: channel(3), f }
}

fn make(out: *mut hipArray_t, descriptor: HIP_ARRAY3D_DESCRIPTOR) -> Result<(), HipError> {
    let element = element_size(&descriptor).ok_or(HipError::InvalidValue)?;
    if out.is_null() || descriptor.Flags & !KNOWN_FLAGS != 0 || descriptor.Width == 0 {
        return Err(HipError::InvalidValue);
    }
    capture::check_unsafe()?;
    let rows = descriptor.Height.max(1).checked_mul(descriptor.Depth.max(1));
    let size = rows.and_then(|rows| rows.checked_mul(descriptor.Width)?.checked_mul(element));
    let base = size.and_then(|size| memory::known().allocate(size, Kind::Device, 0));
    let base = base.ok_or(HipError::OutOfMemory)?.expose_provenance();
    let array = Arc::new(Array { base, descriptor });
    // SAFETY: the caller passes null or a writable out-parameter.
    unsafe { write(out, listed().insert(&array)) }
}

/// `hipArrayCreate`
pub(crate) unsafe extern "C" fn create(
    out: *mut hipArray_t,
    given: *const HIP_ARRAY_DESCRIPTOR,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or a valid description.
        let given = unsafe { given.as_ref() }.ok_or(HipError::InvalidValue)?;
        let HIP_ARRAY_DESCRIPTOR { Width, Height, Format, NumChannels } = *given;
        make(out, HIP_ARRAY3D_DESCRIPTOR { Width, Height, Depth: 0, Format, NumChannels, Flags: 0 })
    })
}

/// `hipArray3DCreate`
pub(crate) unsafe extern "C" fn create_3d(
    out: *mut hipArray_t,
    given: *const HIP_ARRAY3D_DESCRIPTOR,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or a valid description.
        make(out, *unsafe { given.as_ref() }.ok_or(HipError::InvalidValue)?)
    })
}

fn malloc_of(
    out: *mut hipArray_t,
    channels: *const hipChannelFormatDesc,
    extent: hipExtent,
    flags: u32,
) -> Result<(), HipError> {
    // SAFETY: the caller passes null or a valid description.
    let (format, count) = format_of(unsafe { channels.as_ref() }.ok_or(HipError::InvalidValue)?)?;
    let hipExtent { width, height, depth } = extent;
    make(
        out,
        HIP_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: format,
            NumChannels: count,
            Flags: flags,
        },
    )
}

/// `hipMallocArray`
pub(crate) unsafe extern "C" fn malloc(
    out: *mut hipArray_t,
    channels: *const hipChannelFormatDesc,
    width: usize,
    height: usize,
    flags: u32,
) -> hipError_t {
    boundary::call(|| malloc_of(out, channels, hipExtent { width, height, depth: 0 }, flags))
}

/// `hipMalloc3DArray`
pub(crate) unsafe extern "C" fn malloc_3d(
    out: *mut hipArray_t,
    channels: *const hipChannelFormatDesc,
    extent: hipExtent,
    flags: u32,
) -> hipError_t {
    boundary::call(|| malloc_of(out, channels, extent, flags))
}

/// `hipFreeArray`, `hipArrayDestroy`: waits for the device, as freeing memory does.
pub(crate) unsafe extern "C" fn free(array: hipArray_t) -> hipError_t {
    boundary::call(|| {
        if array.is_null() {
            return Err(HipError::InvalidValue);
        }
        capture::check_unsafe()?;
        let array = listed().remove(array).ok_or(HipError::ContextIsDestroyed)?;
        stream::wait_for_all();
        drop(array);
        Ok(())
    })
}

/// `hipArrayGetDescriptor`
pub(crate) unsafe extern "C" fn descriptor(out: *mut HIP_ARRAY_DESCRIPTOR, array: hipArray_t) -> hipError_t {
    boundary::call(|| {
        let HIP_ARRAY3D_DESCRIPTOR { Width, Height, Format, NumChannels, .. } = resolve(array)?.descriptor;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, HIP_ARRAY_DESCRIPTOR { Width, Height, Format, NumChannels }) }
    })
}

/// `hipArray3DGetDescriptor`
pub(crate) unsafe extern "C" fn descriptor_3d(
    out: *mut HIP_ARRAY3D_DESCRIPTOR,
    array: hipArray_t,
) -> hipError_t {
    boundary::call(|| {
        let array = resolve(array)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, array.descriptor) }
    })
}

/// `hipGetChannelDesc`
pub(crate) unsafe extern "C" fn channels(
    out: *mut hipChannelFormatDesc,
    array: *const core::ffi::c_void,
) -> hipError_t {
    boundary::call(|| {
        let array = resolve(array)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, channels_of(&array.descriptor)) }
    })
}

/// `hipArrayGetInfo`: a null pointer skips that value.
pub(crate) unsafe extern "C" fn info(
    channels: *mut hipChannelFormatDesc,
    extent: *mut hipExtent,
    flags: *mut u32,
    array: hipArray_t,
) -> hipError_t {
    boundary::call(|| {
        let descriptor = resolve(array)?.descriptor;
        let HIP_ARRAY3D_DESCRIPTOR { Width: width, Height: height, Depth: depth, Flags, .. } = descriptor;
        // SAFETY: the caller passes null or writable out-parameters.
        unsafe {
            if !channels.is_null() {
                write(channels, channels_of(&descriptor))?;
            }
            if !extent.is_null() {
                write(extent, hipExtent { width, height, depth })?;
            }
            if flags.is_null() { Ok(()) } else { write(flags, Flags) }
        }
    })
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    #[test]
    fn a_format_and_its_channel_description_convert_both_ways() {
        for format in [0x01, 0x02, 0x03, 0x08, 0x09, 0x0a, 0x10, 0x20] {
            for count in [1, 2, 4] {
                let descriptor = HIP_ARRAY3D_DESCRIPTOR {
                    Width: 1,
                    Height: 0,
                    Depth: 0,
                    Format: format,
                    NumChannels: count,
                    Flags: 0,
                };
                assert_eq!(format_of(&channels_of(&descriptor)), Ok((format, count)));
            }
        }
        let uneven = hipChannelFormatDesc { x: 8, y: 16, z: 0, w: 0, f: UNSIGNED };
        assert_eq!(format_of(&uneven), Err(HipError::InvalidValue));
    }

    #[test]
    fn a_freed_array_is_no_longer_valid() {
        let mut array = ptr::null_mut();
        let channels = hipChannelFormatDesc { x: 32, y: 0, z: 0, w: 0, f: FLOAT };
        // SAFETY: local parameters.
        unsafe {
            assert_eq!(malloc(&raw mut array, &raw const channels, 4, 2, 0), 0);
            assert_eq!(free(array), 0);
            assert_eq!(free(array), HipError::ContextIsDestroyed.code());
        }
    }
}
