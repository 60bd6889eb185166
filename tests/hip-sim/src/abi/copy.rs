//! Types that describe pitched copies, three-dimensional copies and arrays.

use core::ffi::c_void;

use super::{hipDeviceptr_t, hipMemLocation, hipMemcpyKind};

pub(crate) type hipArray_t = *mut c_void;
pub(crate) type hipArray_const_t = *const c_void;
pub(crate) type hipMemoryType = u32;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct hipPitchedPtr {
    pub(crate) ptr: usize,
    pub(crate) pitch: usize,
    pub(crate) xsize: usize,
    pub(crate) ysize: usize,
}

/// `width` is in bytes, or in elements if an array takes part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct hipExtent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `x` is in bytes, or in elements of an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct hipPos {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct hipMemcpy3DParms {
    pub(crate) srcArray: hipArray_t,
    pub(crate) srcPos: hipPos,
    pub(crate) srcPtr: hipPitchedPtr,
    pub(crate) dstArray: hipArray_t,
    pub(crate) dstPos: hipPos,
    pub(crate) dstPtr: hipPitchedPtr,
    pub(crate) extent: hipExtent,
    pub(crate) kind: hipMemcpyKind,
}

/// Peers are device numbers.
#[repr(C)]
pub(crate) struct hipMemcpy3DPeerParms {
    pub(crate) srcArray: hipArray_t,
    pub(crate) srcPos: hipPos,
    pub(crate) srcPtr: hipPitchedPtr,
    pub(crate) srcDevice: i32,
    pub(crate) dstArray: hipArray_t,
    pub(crate) dstPos: hipPos,
    pub(crate) dstPtr: hipPitchedPtr,
    pub(crate) dstDevice: i32,
    pub(crate) extent: hipExtent,
}

/// One side of `hipMemcpy3DBatchAsync` in plain memory. Lengths are in elements; 0 means that of the extent.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipMemcpy3DRange {
    pub(crate) ptr: usize,
    pub(crate) rowLength: usize,
    pub(crate) layerHeight: usize,
    pub(crate) locHint: hipMemLocation,
}

/// One side of `hipMemcpy3DBatchAsync` in an array.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipMemcpy3DArray {
    pub(crate) array: hipArray_t,
    pub(crate) offset: hipPos,
}

/// Either side; `operand_type` says which. Every bit pattern is valid for both.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union hipMemcpy3DEither {
    pub(crate) ptr: hipMemcpy3DRange,
    pub(crate) array: hipMemcpy3DArray,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipMemcpy3DOperand {
    pub(crate) r#type: u32,
    pub(crate) op: hipMemcpy3DEither,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipMemcpy3DBatchOp {
    pub(crate) src: hipMemcpy3DOperand,
    pub(crate) dst: hipMemcpy3DOperand,
    pub(crate) extent: hipExtent,
    pub(crate) srcAccessOrder: u32,
    pub(crate) flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hip_Memcpy2D {
    pub(crate) srcXInBytes: usize,
    pub(crate) srcY: usize,
    pub(crate) srcMemoryType: hipMemoryType,
    pub(crate) srcHost: *const c_void,
    pub(crate) srcDevice: hipDeviceptr_t,
    pub(crate) srcArray: hipArray_t,
    pub(crate) srcPitch: usize,
    pub(crate) dstXInBytes: usize,
    pub(crate) dstY: usize,
    pub(crate) dstMemoryType: hipMemoryType,
    pub(crate) dstHost: *mut c_void,
    pub(crate) dstDevice: hipDeviceptr_t,
    pub(crate) dstArray: hipArray_t,
    pub(crate) dstPitch: usize,
    pub(crate) WidthInBytes: usize,
    pub(crate) Height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HIP_MEMCPY3D {
    pub(crate) srcXInBytes: usize,
    pub(crate) srcY: usize,
    pub(crate) srcZ: usize,
    pub(crate) srcLOD: usize,
    pub(crate) srcMemoryType: hipMemoryType,
    pub(crate) srcHost: *const c_void,
    pub(crate) srcDevice: hipDeviceptr_t,
    pub(crate) srcArray: hipArray_t,
    pub(crate) srcPitch: usize,
    pub(crate) srcHeight: usize,
    pub(crate) dstXInBytes: usize,
    pub(crate) dstY: usize,
    pub(crate) dstZ: usize,
    pub(crate) dstLOD: usize,
    pub(crate) dstMemoryType: hipMemoryType,
    pub(crate) dstHost: *mut c_void,
    pub(crate) dstDevice: hipDeviceptr_t,
    pub(crate) dstArray: hipArray_t,
    pub(crate) dstPitch: usize,
    pub(crate) dstHeight: usize,
    pub(crate) WidthInBytes: usize,
    pub(crate) Height: usize,
    pub(crate) Depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HIP_ARRAY_DESCRIPTOR {
    pub(crate) Width: usize,
    pub(crate) Height: usize,
    pub(crate) Format: u32,
    pub(crate) NumChannels: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HIP_ARRAY3D_DESCRIPTOR {
    pub(crate) Width: usize,
    pub(crate) Height: usize,
    pub(crate) Depth: usize,
    pub(crate) Format: u32,
    pub(crate) NumChannels: u32,
    pub(crate) Flags: u32,
}

/// `hipMemoryType` values used in descriptions of copies.
pub(crate) mod memory_type {
    pub(crate) const HOST: u32 = 1;
    pub(crate) const ARRAY: u32 = 10;
    pub(crate) const UNIFIED: u32 = 11;
}

/// `hipMemcpy3DOperandType`
pub(crate) mod operand_type {
    pub(crate) const POINTER: u32 = 1;
    pub(crate) const ARRAY: u32 = 2;
}

/// `hipMemcpySrcAccessOrder`: when the source may be read.
pub(crate) mod access_order {
    pub(crate) const STREAM: u32 = 1;
    pub(crate) const DURING_CALL: u32 = 2;
    pub(crate) const ANY: u32 = 3;
}

const _: () = {
    assert!(size_of::<hipMemcpy3DParms>() == 160);
    assert!(size_of::<hipMemcpy3DOperand>() == 40);
    assert!(size_of::<hipMemcpy3DBatchOp>() == 112);
    assert!(size_of::<hip_Memcpy2D>() == 128);
    assert!(size_of::<HIP_MEMCPY3D>() == 184);
    assert!(size_of::<HIP_ARRAY3D_DESCRIPTOR>() == 40);
};
