//! Functions that copy rows, boxes and arrays.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use super::boxes::{of_driver_rows, of_peer_box};
use super::{Call, Copy, End, Extent, of_box, of_driver_box, submit};
use crate::abi::{
    HIP_MEMCPY3D, hip_Memcpy2D, hipArray_const_t, hipArray_t, hipDeviceptr_t, hipError_t, hipMemcpy3DParms,
    hipMemcpy3DPeerParms, hipMemcpyKind, hipStream_t, memcpy_kind,
};
use crate::array::{self, Array};
use crate::error::HipError;
use crate::{boundary, device, stream};

/// The copy that a call describes, before its checks against memory.
type Described = Result<Copy, HipError>;

/// Defines four functions for one description: synchronous and asynchronous, each also for per-thread
/// streams.
macro_rules! copies {
    ($($doc:literal: ($($name:ident: $call:ident),*) $parameters:tt => $described:expr;)*) => {
        $($(copies!(@ $doc $name: $call $parameters => $described);)*)*
    };
    (@ $doc:literal $name:ident: sync ($($parameter:ident: $type:ty),*) => $described:expr) => {
        #[doc = $doc]
        pub(crate) unsafe extern "C" fn $name($($parameter: $type),*) -> hipError_t {
            boundary::call(|| submit($described?, ptr::null_mut(), Call::Synchronous))
        }
    };
    (@ $doc:literal $name:ident: sync_spt ($($parameter:ident: $type:ty),*) => $described:expr) => {
        #[doc = $doc]
        ///
        /// For the calling thread's default stream.
        pub(crate) unsafe extern "C" fn $name($($parameter: $type),*) -> hipError_t {
            boundary::call(|| submit($described?, stream::or_per_thread(ptr::null_mut()), Call::Synchronous))
        }
    };
    (@ $doc:literal $name:ident: asynchronous ($($parameter:ident: $type:ty),*) => $described:expr) => {
        #[doc = $doc]
        ///
        /// Asynchronous.
        pub(crate) unsafe extern "C" fn $name($($parameter: $type,)* stream: hipStream_t) -> hipError_t {
            boundary::call(|| submit($described?, stream, Call::Asynchronous))
        }
    };
    (@ $doc:literal $name:ident: async_spt ($($parameter:ident: $type:ty),*) => $described:expr) => {
        #[doc = $doc]
        ///
        /// Asynchronous; a null stream means the calling thread's default stream.
        pub(crate) unsafe extern "C" fn $name($($parameter: $type,)* stream: hipStream_t) -> hipError_t {
            boundary::call(|| submit($described?, stream::or_per_thread(stream), Call::Asynchronous))
        }
    };
}

copies! {
    "`hipMemcpy2D`":
    (memcpy_2d: sync, memcpy_2d_spt: sync_spt, memcpy_2d_async: asynchronous, memcpy_2d_async_spt: async_spt)
    (
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: hipMemcpyKind
    ) => rows((to, to_pitch), (from, from_pitch), (width, height), kind);

    "`hipMemcpy3D`":
    (memcpy_3d: sync, memcpy_3d_spt: sync_spt, memcpy_3d_async: asynchronous, memcpy_3d_async_spt: async_spt)
    (given: *const hipMemcpy3DParms) => {
        // SAFETY: the caller passes null or a valid description.
        unsafe { given.as_ref() }.ok_or(HipError::InvalidValue).and_then(of_box)
    };

    "`hipDrvMemcpy3D`":
    (driver_3d: sync, driver_3d_async: asynchronous) (given: *const HIP_MEMCPY3D) => {
        // SAFETY: the caller passes null or a valid description.
        unsafe { given.as_ref() }.ok_or(HipError::InvalidValue).and_then(of_driver_box)
    };

    "`hipMemcpyParam2D`, `hipDrvMemcpy2DUnaligned`":
    (param_2d: sync, param_2d_async: asynchronous) (given: *const hip_Memcpy2D) => {
        // SAFETY: the caller passes null or a valid description.
        unsafe { given.as_ref() }.ok_or(HipError::InvalidValue).and_then(of_driver_rows)
    };

    "`hipMemcpy3DPeer`":
    (peer_3d: sync, peer_3d_async: asynchronous) (given: *mut hipMemcpy3DPeerParms) => {
        // SAFETY: the caller passes null or a valid description.
        unsafe { given.as_ref() }.ok_or(HipError::InvalidValue).and_then(|given| {
            device::check(given.srcDevice)?;
            device::check(given.dstDevice)?;
            of_peer_box(given)
        })
    };

    "`hipMemcpyPeer`":
    (peer: sync, peer_async: asynchronous)
    (to: *mut c_void, to_device: i32, from: *const c_void, from_device: i32, size: usize)
        => between_devices(to, to_device, from, from_device, size);

    "`hipMemcpy2DToArray`":
    (to_array_2d: sync, to_array_2d_spt: sync_spt, to_array_2d_async: asynchronous, to_array_2d_async_spt: async_spt)
    (
        to: hipArray_t, x: usize, y: usize, from: *const c_void, pitch: usize, width: usize, height: usize,
        kind: hipMemcpyKind
    ) => array_rows(to).map(|to| Copy {
        to: to.end(x, y, 0), from: End::pitched(from, pitch), extent: Extent { width, height, depth: 1 }, kind
    });

    "`hipMemcpy2DFromArray`":
    (
        from_array_2d: sync, from_array_2d_spt: sync_spt, from_array_2d_async: asynchronous,
        from_array_2d_async_spt: async_spt
    )
    (
        to: *mut c_void, pitch: usize, from: hipArray_const_t, x: usize, y: usize, width: usize, height: usize,
        kind: hipMemcpyKind
    ) => array_rows(from).map(|from| Copy {
        to: End::pitched(to, pitch), from: from.end(x, y, 0), extent: Extent { width, height, depth: 1 }, kind
    });

    "`hipMemcpy2DArrayToArray`":
    (array_to_array_2d: sync)
    (
        to: hipArray_t, to_x: usize, to_y: usize, from: hipArray_const_t, x: usize, y: usize, width: usize,
        height: usize, kind: hipMemcpyKind
    ) => array_rows(to).and_then(|to| Ok(Copy {
        to: to.end(to_x, to_y, 0), from: array_rows(from)?.end(x, y, 0),
        extent: Extent { width, height, depth: 1 }, kind
    }));

    "`hipMemcpyToArray`":
    (to_array: sync)
    (to: hipArray_t, x: usize, y: usize, from: *const c_void, size: usize, kind: hipMemcpyKind)
        => in_array(to, x, y, size).map(|to| Copy { to, ..Copy::linear(ptr::null_mut(), from, size, kind) });

    "`hipMemcpyFromArray`":
    (from_array: sync, from_array_spt: sync_spt)
    (to: *mut c_void, from: hipArray_const_t, x: usize, y: usize, size: usize, kind: hipMemcpyKind)
        => in_array(from, x, y, size).map(|from| Copy { from, ..Copy::linear(to, ptr::null(), size, kind) });

    "`hipMemcpyHtoA`":
    (host_to_array: sync, host_to_array_async: asynchronous)
    (to: hipArray_t, offset: usize, from: *const c_void, size: usize)
        => in_array(to, offset, 0, size)
            .map(|to| Copy { to, ..Copy::linear(ptr::null_mut(), from, size, memcpy_kind::HOST_TO_DEVICE) });

    "`hipMemcpyAtoH`":
    (array_to_host: sync, array_to_host_async: asynchronous)
    (to: *mut c_void, from: hipArray_t, offset: usize, size: usize)
        => in_array(from, offset, 0, size)
            .map(|from| Copy { from, ..Copy::linear(to, ptr::null(), size, memcpy_kind::DEVICE_TO_HOST) });

    "`hipMemcpyAtoD`":
    (array_to_device: sync) (to: hipDeviceptr_t, from: hipArray_t, offset: usize, size: usize)
        => in_array(from, offset, 0, size)
            .map(|from| Copy { from, ..Copy::linear(to, ptr::null(), size, memcpy_kind::DEVICE_TO_DEVICE) });

    "`hipMemcpyDtoA`":
    (device_to_array: sync) (to: hipArray_t, offset: usize, from: hipDeviceptr_t, size: usize)
        => in_array(to, offset, 0, size)
            .map(|to| Copy { to, ..Copy::linear(ptr::null_mut(), from, size, memcpy_kind::DEVICE_TO_DEVICE) });

    "`hipMemcpyAtoA`":
    (array_to_array: sync) (to: hipArray_t, to_offset: usize, from: hipArray_t, offset: usize, size: usize)
        => in_array(to, to_offset, 0, size).and_then(|to| {
            let from = in_array(from, offset, 0, size)?;
            Ok(Copy { to, from, ..Copy::linear(ptr::null_mut(), ptr::null(), size, memcpy_kind::DEVICE_TO_DEVICE) })
        });
}

fn rows(
    to: (*mut c_void, usize),
    from: (*const c_void, usize),
    size: (usize, usize),
    kind: hipMemcpyKind,
) -> Described {
    let copy = Copy::pitched(to, from, size, kind);
    if kind > memcpy_kind::DEFAULT && kind != memcpy_kind::DEVICE_TO_DEVICE_NO_CU {
        return Err(HipError::InvalidMemcpyDirection);
    }
    if !copy.is_empty() && (size.0 > to.1 || size.0 > from.1) {
        return Err(HipError::InvalidPitchValue);
    }
    Ok(copy)
}

fn between_devices(
    to: *mut c_void,
    to_device: i32,
    from: *const c_void,
    from_device: i32,
    size: usize,
) -> Described {
    device::check(to_device)?;
    device::check(from_device)?;
    Ok(Copy::linear(to, from, size, memcpy_kind::DEVICE_TO_DEVICE))
}

fn array_rows(array: hipArray_const_t) -> Result<Arc<Array>, HipError> {
    array::resolve(array)
}

/// A range of an array's bytes, row after row.
fn in_array(array: hipArray_const_t, x: usize, y: usize, size: usize) -> Result<End, HipError> {
    let end = array_rows(array)?.end(x, y, 0);
    let base = end.pitch.checked_mul(end.y).and_then(|rows| end.base.checked_add(rows)?.checked_add(end.x));
    let base = base.ok_or(HipError::InvalidValue)?;
    Ok(End { base, pitch: size, rows: 0, x: 0, y: 0, z: 0, array: 0 })
}

/// `hipMemcpyBatchAsync`: copies one after the other; it makes no use of the freedom that attributes grant.
pub(crate) unsafe extern "C" fn batch_async(
    to: *mut *mut c_void,
    from: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    _attributes: *mut c_void,
    _attribute_indices: *mut usize,
    _attribute_count: usize,
    fail_index: *mut usize,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| {
        if to.is_null() || from.is_null() || sizes.is_null() || count == 0 || stream.is_null() {
            return Err(HipError::InvalidValue);
        }
        for index in 0..count {
            // SAFETY: the caller passes three arrays of `count` elements.
            let (to, from, size) = unsafe { (*to.add(index), *from.add(index), *sizes.add(index)) };
            let copy = Copy::linear(to, from, size, memcpy_kind::DEFAULT);
            if let Err(error) = submit(copy, stream, Call::Asynchronous) {
                if !fail_index.is_null() {
                    // SAFETY: the caller passes null or a writable out-parameter.
                    unsafe { fail_index.write(index) };
                }
                return Err(error);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::hipChannelFormatDesc;
    use crate::memory;
    use crate::memory::Kind;

    #[test]
    fn rows_arrive_with_the_pitch_of_the_target() {
        let device = memory::known().allocate(64, Kind::Device, 0).unwrap();
        let from: Vec<u8> = (0..12).collect();
        let mut back = [0_u8; 6];
        // SAFETY: an allocation of 64 bytes and local buffers.
        unsafe {
            assert_eq!(memcpy_2d(device, 32, from.as_ptr().cast(), 4, 3, 2, 1), 0);
            assert_eq!(memcpy_2d(back.as_mut_ptr().cast(), 3, device, 32, 3, 2, 2), 0);
            assert_eq!(back, [0, 1, 2, 4, 5, 6]);
            let code = memcpy_2d(device, 32, from.as_ptr().cast(), 2, 3, 2, 1);
            assert_eq!(code, HipError::InvalidPitchValue.code());
            let code = memcpy_2d(device, 32, from.as_ptr().cast(), 4, 3, 4, 1);
            assert_eq!(code, HipError::InvalidValue.code(), "four rows do not fit");
        }
    }

    #[test]
    fn data_written_to_an_array_is_read_back() {
        let channels = hipChannelFormatDesc { x: 32, y: 0, z: 0, w: 0, f: 2 };
        let from: Vec<u32> = (0..12).collect();
        let mut to = [0_u32; 12];
        let mut part = [0_u32; 2];
        let mut array = ptr::null_mut();
        // SAFETY: local parameters; the array has three rows of four words.
        unsafe {
            assert_eq!(array::malloc(&raw mut array, &raw const channels, 4, 3, 0), 0);
            assert_eq!(to_array_2d(array, 0, 0, from.as_ptr().cast(), 16, 16, 3, 1), 0);
            assert_eq!(from_array_2d(to.as_mut_ptr().cast(), 16, array, 0, 0, 16, 3, 2), 0);
            assert_eq!(from_array(part.as_mut_ptr().cast(), array, 12, 1, 8, 2), 0);
            let outside = from_array(part.as_mut_ptr().cast(), array, 12, 2, 8, 2);
            assert_eq!(outside, HipError::InvalidValue.code());
        }
        assert_eq!(to[..], from[..]);
        assert_eq!(part, [7, 8]);
    }
}
