//! The structures by which HIP describes copies of boxes: rows and slices of memory or of an array.
//!
//! Layouts are from HIP's `hip/driver_types.h`; they have not changed between 4.2 and 7.2.

use crate::abi::{Extent, PitchedPtr};

/// `hipPos`: bytes, or elements of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Coordinates {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
}

/// One end of a [`Box3d`]: an array or memory, and the other null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct BoxEnd {
    pub(crate) array: usize,
    pub(crate) position: Coordinates,
    pub(crate) memory: PitchedPtr,
}

/// `hipMemcpy3DParms`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Box3d {
    pub(crate) src: BoxEnd,
    pub(crate) dst: BoxEnd,
    pub(crate) extent: Extent,
    /// `hipMemcpyKind`
    pub(crate) kind: u32,
}

/// `hipMemcpy3DPeerParms`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct PeerBox {
    pub(crate) src: BoxEnd,
    pub(crate) src_device: i32,
    pub(crate) dst: BoxEnd,
    pub(crate) dst_device: i32,
    pub(crate) extent: Extent,
}

/// One end of a [`DriverBox`], of the kind that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DriverBoxEnd {
    /// `x` in bytes, also in an array.
    pub(crate) position: Coordinates,
    pub(crate) level: usize,
    /// `hipMemoryType`
    pub(crate) kind: u32,
    pub(crate) host: usize,
    pub(crate) device: usize,
    pub(crate) array: usize,
    pub(crate) pitch: usize,
    /// Rows of a slice.
    pub(crate) height: usize,
}

/// `HIP_MEMCPY3D`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DriverBox {
    pub(crate) src: DriverBoxEnd,
    pub(crate) dst: DriverBoxEnd,
    /// Bytes, rows, slices.
    pub(crate) extent: Extent,
}

/// One end of [`DriverRows`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DriverRowsEnd {
    /// Bytes.
    pub(crate) x: usize,
    pub(crate) y: usize,
    /// `hipMemoryType`
    pub(crate) kind: u32,
    pub(crate) host: usize,
    pub(crate) device: usize,
    pub(crate) array: usize,
    pub(crate) pitch: usize,
}

/// `hip_Memcpy2D`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DriverRows {
    pub(crate) src: DriverRowsEnd,
    pub(crate) dst: DriverRowsEnd,
    /// Bytes.
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl DriverRows {
    /// The same copy as one of a box with one slice.
    pub(crate) fn as_box(&self) -> DriverBox {
        let end = |end: DriverRowsEnd| DriverBoxEnd {
            position: Coordinates { x: end.x, y: end.y, z: 0 },
            level: 0,
            kind: end.kind,
            host: end.host,
            device: end.device,
            array: end.array,
            pitch: end.pitch,
            height: 0,
        };
        let extent = Extent { width: self.width, height: self.height, depth: 1 };
        DriverBox { src: end(self.src), dst: end(self.dst), extent }
    }
}

/// One end of a [`BoxOperation`], of the kind that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct BoxOperand {
    /// `hipMemcpy3DOperandType`: 1 for memory, 2 for an array.
    pub(crate) kind: u32,
    /// Address, or handle of an array.
    pub(crate) handle: usize,
    /// Of memory: length of a row and rows of a slice, 0 for those of the extent, and its location. Of an array:
    /// the position.
    pub(crate) lengths: [usize; 3],
}

/// `hipMemcpy3DBatchOp`, since 7.1
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct BoxOperation {
    pub(crate) src: BoxOperand,
    pub(crate) dst: BoxOperand,
    /// With an array in it, its width and the lengths of rows count elements.
    pub(crate) extent: Extent,
    /// `hipMemcpySrcAccessOrder`
    pub(crate) order: u32,
    pub(crate) flags: u32,
}

const _: () = {
    assert!(size_of::<BoxOperation>() == 112);
    assert!(size_of::<Box3d>() == 160);
    assert!(size_of::<PeerBox>() == 168);
    assert!(size_of::<DriverBox>() == 184);
    assert!(size_of::<DriverRows>() == 128);
};
