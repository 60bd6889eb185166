//! HIP's C types, under HIP's names. The build checks the signatures in `tests/data/hip-api.tsv` against
//! them.
//!
//! Layouts are those of the public headers of HIP 5 to 7 (`hip_runtime_api.h`).
#![expect(non_camel_case_types, reason = "C's names, so that generated signatures match")]
#![expect(non_snake_case, reason = "C's field names")]

use core::ffi::c_void;

use zerocopy::FromZeros;

mod copy;
mod device_prop;
mod graph;
mod memory_pool;

pub(crate) use copy::{
    HIP_ARRAY_DESCRIPTOR, HIP_ARRAY3D_DESCRIPTOR, HIP_MEMCPY3D, access_order, hip_Memcpy2D, hipArray_const_t,
    hipArray_t, hipExtent, hipMemcpy3DBatchOp, hipMemcpy3DOperand, hipMemcpy3DParms, hipMemcpy3DPeerParms,
    hipPitchedPtr, hipPos, memory_type, operand_type,
};
#[cfg(test)]
pub(crate) use copy::{hipMemcpy3DArray, hipMemcpy3DEither, hipMemcpy3DRange};
pub(crate) use device_prop::{hipDeviceProp_tR0000, hipDeviceProp_tR0600};
pub(crate) use graph::{
    hipBatchMemOpNodeParams, hipGraph_t, hipGraphEdgeData, hipGraphExec_t, hipGraphExecUpdateResult,
    hipGraphInstantiateParams, hipGraphNode_t, hipGraphNodeParams, hipGraphNodeType, hipHostNodeParams,
    hipKernelNodeAttrID, hipKernelNodeAttrValue, hipKernelNodeParams, hipMemAllocNodeParams,
    hipMemcpyNodeParams, hipMemsetParams, hipStreamBatchMemOpParams, hipStreamCaptureMode,
    hipStreamCaptureStatus, hipUserObject_t, node_type,
};
pub(crate) use memory_pool::{
    hipMemAccessDesc, hipMemAccessFlags, hipMemLocation, hipMemPool_t, hipMemPoolAttr, hipMemPoolProps,
    hipMemRangeAttribute, hipMemoryAdvise, hipUUID,
};

/// A result code; `crate::error` has the names.
pub(crate) type hipError_t = u32;
pub(crate) type hipDevice_t = i32;
pub(crate) type hipDeviceAttribute_t = u32;
pub(crate) type hipDeviceptr_t = *mut c_void;
pub(crate) type hipMemcpyKind = u32;
pub(crate) type hipChannelFormatKind = u32;
pub(crate) type hipJitOption = u32;
pub(crate) type hipDeviceP2PAttr = u32;
pub(crate) type hipFuncCache_t = u32;
pub(crate) type hipSharedMemConfig = u32;
pub(crate) type hipLimit_t = u32;
pub(crate) type hipDeviceProp_t = hipDeviceProp_tR0600;
pub(crate) type hipPointer_attribute = u32;
pub(crate) type hipStreamAttrID = u32;
/// The same union as a kernel node's attributes.
pub(crate) type hipStreamAttrValue = hipKernelNodeAttrValue;
pub(crate) type hipDriverProcAddressQueryResult = u32;
pub(crate) type hipDriverEntryPointQueryResult = u32;
/// Address of a `Stream`, or null, 1 (legacy null stream) or 2 (this thread's default stream).
pub(crate) type hipStream_t = *mut c_void;
pub(crate) type hipEvent_t = *mut c_void;
pub(crate) type hipModule_t = *mut c_void;
pub(crate) type hipFunction_t = *mut c_void;
pub(crate) type hipStreamCallback_t =
    Option<unsafe extern "C" fn(stream: hipStream_t, status: hipError_t, user: *mut c_void)>;
/// Annotations of a batch's copies; ignored.
pub(crate) type hipMemcpyAttributes = c_void;
pub(crate) type hipCtx_t = *mut c_void;
pub(crate) type hipHostFn_t = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// A library of code, and also a kernel in one, which is a `hipFunction_t` too.
pub(crate) type hipLibrary_t = *mut c_void;
pub(crate) type hipKernel_t = *mut c_void;
pub(crate) type hipLibraryOption = u32;
/// The numbers of `function_attribute`, under HIP's two names for them.
pub(crate) type hipFunction_attribute = u32;
pub(crate) type hipFuncAttribute = u32;

/// Values of `hipFunction_attribute`.
pub(crate) mod function_attribute {
    pub(crate) const MAX_THREADS_PER_BLOCK: u32 = 0;
    pub(crate) const SHARED_SIZE: u32 = 1;
    pub(crate) const CONST_SIZE: u32 = 2;
    pub(crate) const LOCAL_SIZE: u32 = 3;
    pub(crate) const REGISTERS: u32 = 4;
    pub(crate) const PTX_VERSION: u32 = 5;
    pub(crate) const BINARY_VERSION: u32 = 6;
    pub(crate) const CACHE_MODE: u32 = 7;
    pub(crate) const MAX_DYNAMIC_SHARED_SIZE: u32 = 8;
    pub(crate) const SHARED_CARVEOUT: u32 = 9;
    pub(crate) const MAX: u32 = 10;
}

/// Output of `hipFuncGetAttributes`; sizes in bytes.
#[repr(C)]
pub(crate) struct hipFuncAttributes {
    pub(crate) binaryVersion: i32,
    pub(crate) cacheModeCA: i32,
    pub(crate) constSizeBytes: usize,
    pub(crate) localSizeBytes: usize,
    pub(crate) maxDynamicSharedSizeBytes: i32,
    pub(crate) maxThreadsPerBlock: i32,
    pub(crate) numRegs: i32,
    pub(crate) preferredShmemCarveout: i32,
    pub(crate) ptxVersion: i32,
    pub(crate) sharedSizeBytes: usize,
}

const _: () = assert!(size_of::<hipFuncAttributes>() == 56);

/// Extent of a grid in blocks or of a block in threads.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct uint3 {
    x: u32,
    y: u32,
    z: u32,
}

/// Output of `hipPointerGetAttributes`.
#[repr(C)]
#[derive(FromZeros)]
pub(crate) struct hipPointerAttribute_t {
    pub(crate) r#type: u32,
    pub(crate) device: i32,
    pub(crate) devicePointer: usize,
    pub(crate) hostPointer: usize,
    pub(crate) isManaged: i32,
    pub(crate) allocationFlags: u32,
}

/// Argument of `hipLaunchKernelExC`.
#[repr(C)]
pub(crate) struct hipLaunchConfig_t {
    pub(crate) gridDim: dim3,
    pub(crate) blockDim: dim3,
    pub(crate) dynamicSmemBytes: usize,
    pub(crate) stream: hipStream_t,
    pub(crate) attrs: *const hipLaunchAttribute,
    pub(crate) numAttrs: u32,
}

/// The value is a union of 64 bytes; only its first four are read here.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipLaunchAttribute {
    pub(crate) id: u32,
    pub(crate) pad: u32,
    pub(crate) value: u32,
    pub(crate) rest: [u32; 15],
}

const _: () = assert!(size_of::<hipLaunchAttribute>() == 72);

/// One launch of several. `args` has the same form as for `hipLaunchKernel`.
#[repr(C)]
pub(crate) struct hipLaunchParams {
    pub(crate) func: *mut c_void,
    pub(crate) gridDim: dim3,
    pub(crate) blockDim: dim3,
    pub(crate) args: *mut *mut c_void,
    pub(crate) sharedMem: usize,
    pub(crate) stream: hipStream_t,
}

/// One launch of several, by function.
#[repr(C)]
pub(crate) struct hipFunctionLaunchParams {
    pub(crate) function: hipFunction_t,
    pub(crate) grid: dim3,
    pub(crate) block: dim3,
    pub(crate) sharedMemBytes: u32,
    pub(crate) hStream: hipStream_t,
    pub(crate) kernelParams: *mut *mut c_void,
}

/// Argument of `hipDrvLaunchKernelEx`.
#[repr(C)]
pub(crate) struct HIP_LAUNCH_CONFIG {
    pub(crate) grid: dim3,
    pub(crate) block: dim3,
    pub(crate) sharedMemBytes: u32,
    pub(crate) hStream: hipStream_t,
    pub(crate) attrs: *const hipLaunchAttribute,
    pub(crate) numAttrs: u32,
}

/// Argument of `__hipRegisterFatBinary`.
#[repr(C)]
pub(crate) struct FatBinaryWrapper {
    /// `HIPF` for a binary in this image.
    pub(crate) magic: u32,
    pub(crate) version: u32,
    pub(crate) binary: *const c_void,
    reserved: *const c_void,
}

/// Bits per channel, and the channels' number format.
#[repr(C)]
pub(crate) struct hipChannelFormatDesc {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) z: i32,
    pub(crate) w: i32,
    pub(crate) f: hipChannelFormatKind,
}

/// `hipMemcpyKind` values.
pub(crate) mod memcpy_kind {
    pub(crate) const HOST_TO_HOST: u32 = 0;
    pub(crate) const HOST_TO_DEVICE: u32 = 1;
    pub(crate) const DEVICE_TO_HOST: u32 = 2;
    pub(crate) const DEVICE_TO_DEVICE: u32 = 3;
    /// Derived from the addresses.
    pub(crate) const DEFAULT: u32 = 4;
    /// Device to device by a copy engine only.
    pub(crate) const DEVICE_TO_DEVICE_NO_CU: u32 = 1024;
}

const _: () = {
    assert!(size_of::<dim3>() == 12);
    assert!(size_of::<hipPointerAttribute_t>() == 32);
    assert!(size_of::<hipLaunchConfig_t>() == 56);
    assert!(size_of::<FatBinaryWrapper>() == 24);
    assert!(size_of::<hipLaunchParams>() == 56);
    assert!(size_of::<hipFunctionLaunchParams>() == 56);
    assert!(size_of::<HIP_LAUNCH_CONFIG>() == 56);
    assert!(size_of::<hipMemPoolProps>() == 88);
};
