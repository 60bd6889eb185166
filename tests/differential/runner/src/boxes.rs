//! The structures that some of HIP's functions take for copies and fills.

use core::ffi::{c_int, c_uint};
use core::ptr;

use crate::hip::Handle;

/// `hipPitchedPtr`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Pitched {
    pub(crate) address: Handle,
    pub(crate) pitch: usize,
    pub(crate) xsize: usize,
    pub(crate) ysize: usize,
}

/// `hipExtent`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// One end of a [`Box3d`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BoxEnd {
    pub(crate) array: Handle,
    pub(crate) position: [usize; 3],
    pub(crate) memory: Pitched,
}

impl BoxEnd {
    /// Memory of consecutive rows, as one slice.
    pub(crate) fn rows(address: Handle, pitch: usize, rows: usize) -> Self {
        let memory = Pitched { address, pitch, xsize: pitch, ysize: rows };
        Self { array: ptr::null_mut(), position: [0; 3], memory }
    }
}

/// `hipMemcpy3DParms`
#[repr(C)]
pub(crate) struct Box3d {
    pub(crate) from: BoxEnd,
    pub(crate) to: BoxEnd,
    pub(crate) extent: [usize; 3],
    pub(crate) kind: c_uint,
}

/// `hipMemcpy3DPeerParms`
#[repr(C)]
pub(crate) struct PeerBox {
    pub(crate) from: BoxEnd,
    pub(crate) from_device: c_int,
    pub(crate) to: BoxEnd,
    pub(crate) to_device: c_int,
    pub(crate) extent: [usize; 3],
}

/// One end of a [`DriverBox`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DriverBoxEnd {
    pub(crate) position: [usize; 3],
    pub(crate) level: usize,
    pub(crate) kind: c_uint,
    pub(crate) host: Handle,
    pub(crate) device: Handle,
    pub(crate) array: Handle,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `HIP_MEMCPY3D`
#[repr(C)]
pub(crate) struct DriverBox {
    pub(crate) from: DriverBoxEnd,
    pub(crate) to: DriverBoxEnd,
    pub(crate) extent: [usize; 3],
}

/// One end of [`DriverRows`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DriverRowsEnd {
    pub(crate) position: [usize; 2],
    pub(crate) kind: c_uint,
    pub(crate) host: Handle,
    pub(crate) device: Handle,
    pub(crate) array: Handle,
    pub(crate) pitch: usize,
}

/// `hip_Memcpy2D`
#[repr(C)]
pub(crate) struct DriverRows {
    pub(crate) from: DriverRowsEnd,
    pub(crate) to: DriverRowsEnd,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One end of a [`BoxOperation`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BoxOperand {
    pub(crate) kind: c_uint,
    pub(crate) base: Handle,
    /// For memory: length of a row, rows of a slice, and a hint. For an array: a position.
    pub(crate) lengths: [usize; 3],
}

/// `hipMemcpy3DBatchOp`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BoxOperation {
    pub(crate) from: BoxOperand,
    pub(crate) to: BoxOperand,
    pub(crate) extent: [usize; 3],
    pub(crate) order: c_uint,
    pub(crate) flags: c_uint,
}

impl BoxOperation {
    /// Memory to memory, one row, with an access order that does not exist.
    pub(crate) fn without_order(to: Handle, from: Handle, bytes: usize) -> Self {
        let operand = |base| BoxOperand { kind: OPERAND_MEMORY, base, lengths: [0; 3] };
        Self { from: operand(from), to: operand(to), extent: [bytes, 1, 1], order: 0, flags: 0 }
    }
}

/// `hipMemcpyOperandTypePointer`, `hipMemcpyOperandTypeArray`
pub(crate) const OPERAND_MEMORY: c_uint = 1;
pub(crate) const OPERAND_ARRAY: c_uint = 2;
/// `hipMemcpySrcAccessOrderStream`
pub(crate) const ORDER_OF_STREAM: c_uint = 1;
