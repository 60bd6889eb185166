//! HIP's C types as the shim sees them.
//!
//! Only types that cross a call by value have a layout here. Memory behind a pointer stays `c_void` until a hook has
//! to read it. The types are the shim's own: it forwards to runtimes of many releases, which have only the C ABI in
//! common. Layouts are from HIP's `hip/hip_runtime_api.h` and `hip/driver_types.h`; they have not changed between 4.2
//! and 7.2.

pub(crate) mod boxes;
mod frame;
mod layout;
mod passing;
mod replay;
mod signature;

use std::ffi::{c_int, c_uint, c_void};

pub(crate) use frame::{ArgumentLocation, Frame};
pub(crate) use layout::Layout;
#[cfg(test)]
pub(crate) use passing::Arg;
pub(crate) use passing::{InRegister, Passed, Ret};
pub(crate) use replay::replay;
pub(crate) use signature::{Args, Hooked, Signature};

/// Declares opaque handles: pointers in the ABI, distinct types here so that they cannot be swapped.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            pub(crate) struct $name(pub(crate) *mut c_void);
        )*
    };
}

handles! {
    /// `hipStream_t`. Null and 1 are the legacy null stream, 2 is the per-thread stream.
    Stream;
    /// `hipEvent_t`
    Event;
    /// `hipGraph_t`
    Graph;
    /// `hipGraphExec_t`
    GraphExec;
    /// `hipGraphNode_t`
    GraphNode;
    /// `hipModule_t`
    Module;
    /// `hipFunction_t`, a kernel of a loaded module
    Function;
    /// `hipLibrary_t`
    Library;
    /// `hipKernel_t`, a kernel of a library
    Kernel;
    /// `hipArray_t`, `hipArray_const_t`
    Array;
    /// `hipMipmappedArray_t`, `hipMipmappedArray_const_t`
    MipmappedArray;
    /// `hipMemPool_t`
    MemPool;
    /// `hipCtx_t`
    Context;
    /// `hipDeviceptr_t`
    DevicePtr;
    /// `hipMemGenericAllocationHandle_t`
    Allocation;
    /// `hipExternalMemory_t`
    ExternalMemory;
    /// `hipExternalSemaphore_t`
    ExternalSemaphore;
    /// `hipGraphicsResource_t`
    GraphicsResource;
    /// `hipTextureObject_t`
    TextureObject;
    /// `hipSurfaceObject_t`
    SurfaceObject;
    /// `hipHostFn_t`, a host function that the runtime calls
    HostFn;
    /// `hipStreamCallback_t`, a host function that the runtime calls
    StreamCallback;
}

/// `hipError_t`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct HipError(pub(crate) c_uint);

impl HipError {
    /// `hipSuccess`
    pub(crate) const SUCCESS: Self = Self(0);

    /// `hipErrorInvalidValue`
    pub(crate) const INVALID_VALUE: Self = Self(1);
    /// `hipErrorNotSupported`
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    /// `hipErrorNotReady`
    pub(crate) const NOT_READY: Self = Self(600);
}

/// `hipDevice_t`, a device's ordinal in the driver API
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Device(pub(crate) c_int);

/// `hipMemcpyKind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct MemcpyKind(pub(crate) c_uint);

/// Any other C enumeration: four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Enum(pub(crate) c_uint);

/// `dim3`: 12 bytes, hence passed in two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Dim3 {
    /// extent in x
    pub(crate) x: u32,
    /// extent in y
    pub(crate) y: u32,
    /// extent in z
    pub(crate) z: u32,
}

/// `hipMemLocation`: 8 bytes, hence passed in one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct MemLocation {
    /// `hipMemLocationType`
    pub(crate) kind: Enum,
    /// which device or NUMA node
    pub(crate) id: c_int,
}

/// `hipExtent`: too large for registers, hence passed on the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Extent {
    /// bytes, or elements where an array takes part
    pub(crate) width: usize,
    /// rows
    pub(crate) height: usize,
    /// slices
    pub(crate) depth: usize,
}

/// `hipPitchedPtr`, passed on the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct PitchedPtr {
    /// of the first byte
    pub(crate) address: usize,
    /// bytes from row to row
    pub(crate) pitch: usize,
    /// logical width
    pub(crate) xsize: usize,
    /// logical height
    pub(crate) ysize: usize,
}

/// `hipIpcEventHandle_t`, passed on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct IpcEventHandle(pub(crate) [u8; 64]);

/// `hipChannelFormatDesc`: returned by value, hence through a pointer that the caller passes in front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ChannelFormatDesc {
    /// bits of x
    pub(crate) x: c_int,
    /// bits of y
    pub(crate) y: c_int,
    /// bits of z
    pub(crate) z: c_int,
    /// bits of w
    pub(crate) w: c_int,
    /// `hipChannelFormatKind`
    pub(crate) f: c_uint,
}

const _: () = {
    assert!(size_of::<Dim3>() == 12);
    assert!(size_of::<MemLocation>() == 8);
    assert!(size_of::<Extent>() == 24);
    assert!(size_of::<PitchedPtr>() == 32);
    assert!(size_of::<IpcEventHandle>() == 64);
    assert!(size_of::<ChannelFormatDesc>() == 20);
};
