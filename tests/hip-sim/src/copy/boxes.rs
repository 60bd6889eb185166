//! Conversions between HIP's descriptions of copies and the form used here.

use core::ffi::c_void;
use core::ptr;

use super::{Copy, End, Extent};
use crate::abi::{
    HIP_MEMCPY3D, hip_Memcpy2D, hipExtent, hipMemcpy3DParms, hipMemcpy3DPeerParms, hipPitchedPtr, hipPos,
    memcpy_kind, memory_type,
};
use crate::error::HipError;
use crate::{array, version};

/// A pitch above every valid one.
const MAX_PITCH: usize = i32::MAX as usize;

/// One side of `hipMemcpy3D`.
fn end(array: *mut c_void, position: hipPos, pitched: hipPitchedPtr) -> Result<(End, usize), HipError> {
    match (array.is_null(), pitched.ptr == 0) {
        (true, false) => {
            let hipPitchedPtr { ptr: base, pitch, ysize, .. } = pitched;
            let hipPos { x, y, z } = position;
            Ok((End { base, pitch, rows: ysize, x, y, z, array: 0 }, 0))
        }
        (false, true) => {
            let array = array::resolve(array).map_err(|_| HipError::InvalidValue)?;
            let element = array.element_size();
            Ok((array.end(position.x * element, position.y, position.z), element))
        }
        // Exactly one of the two must be given.
        _ => Err(HipError::InvalidValue),
    }
}

/// A copy from a description for `hipMemcpy3D`.
pub(crate) fn of_box(given: &hipMemcpy3DParms) -> Result<Copy, HipError> {
    let (from, from_element) = end(given.srcArray, given.srcPos, given.srcPtr)?;
    let (to, to_element) = end(given.dstArray, given.dstPos, given.dstPtr)?;
    if from_element != 0 && to_element != 0 && from_element != to_element {
        return Err(HipError::InvalidValue);
    }
    if given.srcPtr.pitch < given.srcPtr.xsize || given.dstPtr.pitch < given.dstPtr.xsize {
        return Err(HipError::InvalidPitchValue);
    }
    if given.srcPtr.pitch >= MAX_PITCH || given.dstPtr.pitch >= MAX_PITCH {
        return Err(HipError::InvalidValue);
    }
    let hipExtent { width, height, depth } = given.extent;
    // If an array takes part, the extent counts the array's elements.
    let width = width * from_element.max(to_element).max(1);
    let is_outside = |end: &End| end.array == 0 && width + end.x > end.pitch;
    if is_outside(&from) || is_outside(&to) {
        return Err(HipError::InvalidValue);
    }
    Ok(Copy { to, from, extent: Extent { width, height, depth }, kind: given.kind })
}

/// A description for `hipMemcpy3D`. A position inside of an array is in elements.
pub(crate) fn to_box(copy: &Copy) -> hipMemcpy3DParms {
    let element = |end: &End| {
        let array = array::resolve(ptr::with_exposed_provenance(end.array)).ok();
        array.map_or(1, |array| array.element_size())
    };
    let side = |end: &End| {
        let position = hipPos { x: end.x / element(end), y: end.y, z: end.z };
        let pitched = hipPitchedPtr { ptr: end.base, pitch: end.pitch, xsize: end.pitch, ysize: end.rows };
        match end.array {
            0 => (ptr::null_mut(), position, pitched),
            array => (ptr::with_exposed_provenance_mut(array), position, hipPitchedPtr::default()),
        }
    };
    let (from, to) = (side(&copy.from), side(&copy.to));
    let Extent { width, height, depth } = copy.extent;
    let width = width / element(&copy.from).max(element(&copy.to));
    let extent = hipExtent { width, height, depth };
    hipMemcpy3DParms {
        srcArray: from.0,
        srcPos: from.1,
        srcPtr: from.2,
        dstArray: to.0,
        dstPos: to.1,
        dstPtr: to.2,
        extent,
        kind: copy.kind,
    }
}

/// A copy from a description for `hipMemcpy3DPeer`.
pub(super) fn of_peer_box(given: &hipMemcpy3DPeerParms) -> Result<Copy, HipError> {
    of_box(&hipMemcpy3DParms {
        srcArray: given.srcArray,
        srcPos: given.srcPos,
        srcPtr: given.srcPtr,
        dstArray: given.dstArray,
        dstPos: given.dstPos,
        dstPtr: given.dstPtr,
        extent: given.extent,
        kind: memcpy_kind::DEVICE_TO_DEVICE,
    })
}

/// `hipMemoryType` in the numbering since 6.0.
fn memory_type_of(code: u32) -> u32 {
    if version::major() >= 6 {
        return code;
    }
    match code {
        0 => memory_type::HOST,
        1 => 2,
        2 => memory_type::ARRAY,
        _ => memory_type::UNIFIED,
    }
}

/// A copy from a description for `hipDrvMemcpy3D`.
pub(crate) fn of_driver_box(given: &HIP_MEMCPY3D) -> Result<Copy, HipError> {
    let side =
        |kind, host: *const c_void, device: *mut c_void, array: *mut c_void, (pitch, rows), (x, y, z)| {
            let base = match memory_type_of(kind) {
                memory_type::ARRAY => {
                    let array = array::resolve(array).map_err(|_| HipError::InvalidValue)?;
                    return Ok::<_, HipError>(array.end(x, y, z));
                }
                memory_type::HOST => host,
                _ => device.cast_const(),
            };
            Ok(End { base: base.expose_provenance(), pitch, rows, x, y, z, array: 0 })
        };
    let from = side(
        given.srcMemoryType,
        given.srcHost,
        given.srcDevice,
        given.srcArray,
        (given.srcPitch, given.srcHeight),
        (given.srcXInBytes, given.srcY, given.srcZ),
    )?;
    let to = side(
        given.dstMemoryType,
        given.dstHost,
        given.dstDevice,
        given.dstArray,
        (given.dstPitch, given.dstHeight),
        (given.dstXInBytes, given.dstY, given.dstZ),
    )?;
    let extent = Extent { width: given.WidthInBytes, height: given.Height, depth: given.Depth };
    Ok(Copy { to, from, extent, kind: memcpy_kind::DEFAULT })
}

/// A description for `hipDrvMemcpy3D`. It declares memory as unified, because host and device share
/// addresses.
pub(crate) fn to_driver_box(copy: &Copy) -> HIP_MEMCPY3D {
    let kind = |end: &End| if end.array == 0 { memory_type::UNIFIED } else { memory_type::ARRAY };
    let address = |end: &End| ptr::with_exposed_provenance_mut(if end.array == 0 { end.base } else { 0 });
    let (from, to) = (&copy.from, &copy.to);
    HIP_MEMCPY3D {
        srcXInBytes: from.x,
        srcY: from.y,
        srcZ: from.z,
        srcLOD: 0,
        srcMemoryType: kind(from),
        srcHost: ptr::null(),
        srcDevice: address(from),
        srcArray: ptr::with_exposed_provenance_mut(from.array),
        srcPitch: from.pitch,
        srcHeight: from.rows,
        dstXInBytes: to.x,
        dstY: to.y,
        dstZ: to.z,
        dstLOD: 0,
        dstMemoryType: kind(to),
        dstHost: ptr::null_mut(),
        dstDevice: address(to),
        dstArray: ptr::with_exposed_provenance_mut(to.array),
        dstPitch: to.pitch,
        dstHeight: to.rows,
        WidthInBytes: copy.extent.width,
        Height: copy.extent.height,
        Depth: copy.extent.depth,
    }
}

/// A copy from a description for `hipMemcpyParam2D`.
pub(super) fn of_driver_rows(given: &hip_Memcpy2D) -> Result<Copy, HipError> {
    of_driver_box(&HIP_MEMCPY3D {
        srcXInBytes: given.srcXInBytes,
        srcY: given.srcY,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: given.srcMemoryType,
        srcHost: given.srcHost,
        srcDevice: given.srcDevice,
        srcArray: given.srcArray,
        srcPitch: given.srcPitch,
        srcHeight: 0,
        dstXInBytes: given.dstXInBytes,
        dstY: given.dstY,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: given.dstMemoryType,
        dstHost: given.dstHost,
        dstDevice: given.dstDevice,
        dstArray: given.dstArray,
        dstPitch: given.dstPitch,
        dstHeight: 0,
        WidthInBytes: given.WidthInBytes,
        Height: given.Height,
        Depth: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pitched(base: usize, pitch: usize) -> hipPitchedPtr {
        hipPitchedPtr { ptr: base, pitch, xsize: pitch, ysize: 4 }
    }

    fn parameters() -> hipMemcpy3DParms {
        hipMemcpy3DParms {
            srcArray: ptr::null_mut(),
            srcPos: hipPos { x: 1, y: 2, z: 0 },
            srcPtr: pitched(0x1000, 16),
            dstArray: ptr::null_mut(),
            dstPos: hipPos::default(),
            dstPtr: pitched(0x2000, 32),
            extent: hipExtent { width: 8, height: 2, depth: 1 },
            kind: memcpy_kind::DEVICE_TO_DEVICE,
        }
    }

    #[test]
    fn a_description_survives_both_conversions() {
        let given = parameters();
        assert_eq!(to_box(&of_box(&given).unwrap()), given);
        let copy = of_box(&given).unwrap();
        let back = of_driver_box(&to_driver_box(&copy)).unwrap();
        assert_eq!(back, Copy { kind: memcpy_kind::DEFAULT, ..copy });
    }

    #[test]
    fn each_end_is_given_exactly_once() {
        let none = hipMemcpy3DParms { srcPtr: hipPitchedPtr::default(), ..parameters() };
        assert_eq!(of_box(&none), Err(HipError::InvalidValue));
        let wide = hipMemcpy3DParms { srcPos: hipPos { x: 9, y: 0, z: 0 }, ..parameters() };
        assert_eq!(of_box(&wide), Err(HipError::InvalidValue));
        let odd =
            hipMemcpy3DParms { srcPtr: hipPitchedPtr { xsize: 17, ..pitched(0x1000, 16) }, ..parameters() };
        assert_eq!(of_box(&odd), Err(HipError::InvalidPitchValue));
    }
}
