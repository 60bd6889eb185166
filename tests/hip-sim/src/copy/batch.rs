//! `hipMemcpy3DBatchAsync`: many boxes between memory and arrays in one call.
//!
//! Refused arguments and the report of the failed copy follow ROCm's own tests of the function (7.1).

use core::ptr;

use super::{Call, Copy, of_box, submit};
use crate::abi::{
    access_order, hipArray_t, hipError_t, hipExtent, hipMemcpy3DBatchOp, hipMemcpy3DOperand,
    hipMemcpy3DParms, hipPitchedPtr, hipPos, hipStream_t, memcpy_kind, operand_type,
};
use crate::error::HipError;
use crate::{array, boundary, stream};

/// Index of the failed copy if the error belongs to no single copy.
const NONE: usize = usize::MAX;

/// Size of an array's elements in bytes; none for plain memory.
fn element_size(operand: &hipMemcpy3DOperand) -> Result<Option<usize>, HipError> {
    if operand.r#type != operand_type::ARRAY {
        return Ok(None);
    }
    // SAFETY: every bit pattern is valid for this field; the handle is looked up, not dereferenced.
    let handle = unsafe { operand.op.array.array };
    let array = array::resolve(handle).map_err(|_| HipError::InvalidValue)?;
    Ok(Some(array.element_size()))
}

/// One side, in the terms of `hipMemcpy3D`.
fn side(
    operand: &hipMemcpy3DOperand,
    extent: hipExtent,
    element: usize,
) -> Result<(hipArray_t, hipPos, hipPitchedPtr), HipError> {
    match operand.r#type {
        operand_type::POINTER => {
            // SAFETY: every bit pattern is valid for this field.
            let range = unsafe { operand.op.ptr };
            let or = |given, extent| if given == 0 { extent } else { given };
            let (length, rows) = (or(range.rowLength, extent.width), or(range.layerHeight, extent.height));
            if length < extent.width || rows < extent.height {
                return Err(HipError::InvalidValue);
            }
            let pitch = length.checked_mul(element).ok_or(HipError::InvalidValue)?;
            let pitched = hipPitchedPtr { ptr: range.ptr, pitch, xsize: pitch, ysize: rows };
            Ok((ptr::null_mut(), hipPos::default(), pitched))
        }
        operand_type::ARRAY => {
            // SAFETY: every bit pattern is valid for this field.
            let side = unsafe { operand.op.array };
            Ok((side.array, side.offset, hipPitchedPtr::default()))
        }
        _ => Err(HipError::InvalidValue),
    }
}

/// One copy from its description. The operands' locations and whether to overlap with kernels are hints.
fn of_operation(given: &hipMemcpy3DBatchOp) -> Result<Copy, HipError> {
    let extent = given.extent;
    let is_empty = extent.width == 0 || extent.height == 0 || extent.depth == 0;
    if is_empty || !(access_order::STREAM..=access_order::ANY).contains(&given.srcAccessOrder) {
        return Err(HipError::InvalidValue);
    }
    let element = element_size(&given.src)?.or(element_size(&given.dst)?).unwrap_or(1);
    extent.width.checked_mul(element).ok_or(HipError::InvalidValue)?;
    let from = side(&given.src, extent, element)?;
    let to = side(&given.dst, extent, element)?;
    of_box(&hipMemcpy3DParms {
        srcArray: from.0,
        srcPos: from.1,
        srcPtr: from.2,
        dstArray: to.0,
        dstPos: to.1,
        dstPtr: to.2,
        extent,
        kind: memcpy_kind::DEFAULT,
    })
}

/// `hipMemcpy3DBatchAsync`: copies one after the other, up to the first that fails.
pub(crate) unsafe extern "C" fn batch_3d_async(
    count: usize,
    operations: *mut hipMemcpy3DBatchOp,
    fail_index: *mut usize,
    flags: u64,
    stream: hipStream_t,
) -> hipError_t {
    boundary::call(|| {
        let fail = |index, error| {
            if !fail_index.is_null() {
                // SAFETY: the caller passes null or a writable out-parameter.
                unsafe { fail_index.write(index) };
            }
            error
        };
        if operations.is_null() || count == 0 || flags != 0 {
            return Err(fail(NONE, HipError::InvalidValue));
        }
        let target = stream::resolve(stream).ok_or_else(|| fail(NONE, HipError::ContextIsDestroyed))?;
        for index in 0..count {
            // SAFETY: the caller passes an array of `count` elements.
            let operation = unsafe { &*operations.add(index) };
            let submitted = of_operation(operation).and_then(|copy| submit(copy, stream, Call::Asynchronous));
            submitted.map_err(|error| fail(index, error))?;
            if operation.srcAccessOrder == access_order::DURING_CALL && !target.is_captured()? {
                target.synchronize();
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{
        hipChannelFormatDesc, hipMemLocation, hipMemcpy3DArray, hipMemcpy3DEither, hipMemcpy3DRange,
    };
    use crate::engine::Command;
    use crate::memory;
    use crate::memory::Kind;

    fn memory<T>(address: *const T, row: usize, layer: usize) -> hipMemcpy3DOperand {
        let ptr = address.expose_provenance();
        let ptr =
            hipMemcpy3DRange { ptr, rowLength: row, layerHeight: layer, locHint: hipMemLocation::default() };
        hipMemcpy3DOperand { r#type: operand_type::POINTER, op: hipMemcpy3DEither { ptr } }
    }

    fn in_array(array: hipArray_t, x: usize, y: usize) -> hipMemcpy3DOperand {
        let array = hipMemcpy3DArray { array, offset: hipPos { x, y, z: 0 } };
        hipMemcpy3DOperand { r#type: operand_type::ARRAY, op: hipMemcpy3DEither { array } }
    }

    fn operation(
        src: hipMemcpy3DOperand,
        dst: hipMemcpy3DOperand,
        (width, height, depth): (usize, usize, usize),
    ) -> hipMemcpy3DBatchOp {
        let extent = hipExtent { width, height, depth };
        hipMemcpy3DBatchOp { src, dst, extent, srcAccessOrder: access_order::STREAM, flags: 0 }
    }

    /// An array of words.
    fn new_array(width: usize, height: usize) -> hipArray_t {
        let channels = hipChannelFormatDesc { x: 32, y: 0, z: 0, w: 0, f: 2 };
        let mut array = ptr::null_mut();
        // SAFETY: local parameters.
        assert_eq!(unsafe { array::malloc(&raw mut array, &raw const channels, width, height, 0) }, 0);
        array
    }

    /// The result code, and the index of the failed copy if the call reports one.
    fn submit_all(operations: &mut [hipMemcpy3DBatchOp], flags: u64) -> (hipError_t, usize) {
        let (stream, mut failed) = (ptr::without_provenance_mut(2), 77);
        // SAFETY: an array with one description for each element, and a local out-parameter.
        let code = unsafe {
            batch_3d_async(operations.len(), operations.as_mut_ptr(), &raw mut failed, flags, stream)
        };
        (code, failed)
    }

    #[test]
    fn the_copies_of_a_batch_see_the_results_of_earlier_ones() {
        let device = memory::known().allocate(256, Kind::Device, 0).unwrap();
        let from: Vec<u8> = (0..12).collect();
        let mut to = [0_u8; 12];
        let mut both = [
            operation(memory(from.as_ptr(), 0, 0), memory(device, 8, 3), (3, 2, 2)),
            operation(memory(device, 8, 3), memory(to.as_ptr(), 0, 0), (3, 2, 2)),
        ];
        assert_eq!(submit_all(&mut both, 0), (0, 77));
        assert_eq!(to[..], from[..]);
        // The second layer's first row: three rows of eight bytes after the start.
        let mut row =
            [operation(memory(device.wrapping_byte_add(24), 0, 0), memory(&raw mut to, 0, 0), (3, 1, 1))];
        assert_eq!(submit_all(&mut row, 0), (0, 77));
        assert_eq!(to[..3], [6, 7, 8]);
    }

    #[test]
    fn with_an_array_lengths_count_its_elements() {
        let (first, second) = (new_array(4, 3), new_array(4, 3));
        let from: Vec<u32> = (0..12).collect();
        let mut to = [0_u32; 4];
        let mut all = [
            operation(memory(from.as_ptr(), 4, 0), in_array(first, 0, 0), (4, 3, 1)),
            operation(in_array(first, 1, 1), in_array(second, 0, 0), (2, 2, 1)),
            operation(in_array(second, 0, 0), memory(&raw mut to, 0, 0), (2, 2, 1)),
        ];
        assert_eq!(submit_all(&mut all, 0), (0, 77));
        assert_eq!(to, [5, 6, 9, 10]);
    }

    #[test]
    fn the_index_of_the_failed_copy_is_reported() {
        let device = memory::known().allocate(64, Kind::Device, 0).unwrap();
        let good = operation(memory(device, 0, 0), memory(device.wrapping_byte_add(32), 0, 0), (4, 2, 2));
        let invalid = HipError::InvalidValue.code();
        let mut bad = [good; 8];
        bad[0].srcAccessOrder = 0;
        bad[1].extent.width = 0;
        bad[2].extent.depth = 0;
        bad[3].src = memory(device, 3, 0);
        bad[4].dst = memory(device, 0, 1);
        bad[5].src.r#type = 3;
        bad[6].dst = memory(device.wrapping_byte_add(49), 0, 0);
        bad[7].extent.width = usize::MAX;
        for bad in bad {
            assert_eq!(submit_all(&mut [good, bad], 0), (invalid, 1));
        }
        assert_eq!(submit_all(&mut [good], 1), (invalid, NONE));
        assert_eq!(submit_all(&mut [], 0), (invalid, NONE));
        assert_eq!(submit_all(&mut [good], 0), (0, 77));
    }

    #[test]
    fn a_source_for_the_call_only_may_change_after_it() {
        let pinned = memory::known().allocate(8, Kind::Host, 0).unwrap().cast::<u8>();
        let device = memory::known().allocate(8, Kind::Device, 0).unwrap();
        // SAFETY: eight bytes of host memory.
        unsafe { pinned.write_bytes(1, 8) };
        let stream = stream::resolve(ptr::without_provenance_mut(2)).unwrap();
        stream.submit(Command::kernel(30_000_000, || ()));
        let mut copy = operation(memory(pinned, 0, 0), memory(device, 0, 0), (8, 1, 1));
        copy.srcAccessOrder = access_order::DURING_CALL;
        assert_eq!(submit_all(&mut [copy], 0), (0, 77));
        // SAFETY: as above; the device's memory is the host's in this process.
        unsafe {
            pinned.write_bytes(2, 8);
            assert_eq!(device.cast::<[u8; 8]>().read(), [1; 8]);
        }
    }
}
