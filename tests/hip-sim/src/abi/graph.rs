//! Parameters of graph functions and nodes, with the layouts of `hip_runtime_api.h`.

use core::ffi::c_void;
use core::mem::offset_of;

use super::{dim3, hipDeviceptr_t, hipHostFn_t, hipMemcpy3DParms, hipStream_t};

pub(crate) type hipGraph_t = *mut c_void;
pub(crate) type hipGraphNode_t = *mut c_void;
pub(crate) type hipGraphExec_t = *mut c_void;
pub(crate) type hipUserObject_t = *mut c_void;
pub(crate) type hipGraphNodeType = u32;
pub(crate) type hipGraphExecUpdateResult = u32;
pub(crate) type hipStreamCaptureMode = u32;
pub(crate) type hipStreamCaptureStatus = u32;
pub(crate) type hipKernelNodeAttrID = u32;

/// Annotations of edges. None is supported, so it only matters whether there are any.
#[repr(C)]
pub(crate) struct hipGraphEdgeData {
    opaque: [u8; 8],
}

/// The union that holds a kernel node's attribute.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct hipKernelNodeAttrValue {
    pub(crate) words: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipKernelNodeParams {
    pub(crate) blockDim: dim3,
    pub(crate) extra: *mut *mut c_void,
    /// A kernel's host address, or a `hipFunction_t`.
    pub(crate) func: *mut c_void,
    pub(crate) gridDim: dim3,
    pub(crate) kernelParams: *mut *mut c_void,
    pub(crate) sharedMemBytes: u32,
}

/// `width` in elements, `pitch` in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct hipMemsetParams {
    pub(crate) dst: *mut c_void,
    pub(crate) elementSize: u32,
    pub(crate) height: usize,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) width: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipHostNodeParams {
    pub(crate) r#fn: hipHostFn_t,
    pub(crate) userData: *mut c_void,
}

/// The pool's properties are taken as words, because memory of graphs is not pooled.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipMemAllocNodeParams {
    pub(crate) poolProps: [u64; 11],
    pub(crate) accessDescs: *const c_void,
    pub(crate) accessDescCount: usize,
    pub(crate) bytesize: usize,
    pub(crate) dptr: *mut c_void,
}

/// Parameters for every type of node; `payload` begins with those of the node's type.
#[repr(C)]
pub(crate) struct hipGraphNodeParams {
    pub(crate) r#type: hipGraphNodeType,
    reserved0: [i32; 3],
    pub(crate) payload: [u64; 29],
    reserved2: i64,
}

/// Payload of a copy.
#[repr(C)]
pub(crate) struct hipMemcpyNodeParams {
    flags: i32,
    reserved: [i32; 3],
    pub(crate) copyParams: hipMemcpy3DParms,
}

#[repr(C)]
pub(crate) struct hipGraphInstantiateParams {
    pub(crate) errNode_out: hipGraphNode_t,
    pub(crate) flags: u64,
    pub(crate) result_out: u32,
    pub(crate) uploadStream: hipStream_t,
}

/// One wait, write, barrier or flush of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipStreamBatchMemOpParams {
    pub(crate) operation: u32,
    pub(crate) address: hipDeviceptr_t,
    pub(crate) value: u64,
    pub(crate) flags: u32,
    alias: hipDeviceptr_t,
    pad: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct hipBatchMemOpNodeParams {
    pub(crate) ctx: *mut c_void,
    pub(crate) count: u32,
    pub(crate) paramArray: *mut hipStreamBatchMemOpParams,
    pub(crate) flags: u32,
}

/// `hipGraphNodeType` values.
pub(crate) mod node_type {
    pub(crate) const KERNEL: u32 = 0;
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const HOST: u32 = 3;
    pub(crate) const GRAPH: u32 = 4;
    pub(crate) const EMPTY: u32 = 5;
    pub(crate) const WAIT_EVENT: u32 = 6;
    pub(crate) const EVENT_RECORD: u32 = 7;
    pub(crate) const MEM_ALLOC: u32 = 10;
    pub(crate) const MEM_FREE: u32 = 11;
    pub(crate) const BATCH_MEM_OP: u32 = 14;
}

const _: () = {
    assert!(size_of::<hipKernelNodeParams>() == 64);
    assert!(offset_of!(hipKernelNodeParams, kernelParams) == 48);
    assert!(size_of::<hipMemsetParams>() == 48);
    assert!(size_of::<hipMemAllocNodeParams>() == 120);
    assert!(size_of::<hipGraphNodeParams>() == 256);
    assert!(offset_of!(hipMemcpyNodeParams, copyParams) == 16);
    assert!(size_of::<hipStreamBatchMemOpParams>() == 48);
    assert!(size_of::<hipGraphInstantiateParams>() == 32);
};
