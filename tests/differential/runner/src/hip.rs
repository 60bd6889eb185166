//! The part of HIP's C interface that programs use, bound by the linker as for any client.
//!
//! Names, types and values are HIP's (`tests/data/hip-api.tsv`). Functions with two names are in [`crate::names`].

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::boxes::{DriverBox, DriverRows};

/// `hipError_t`
pub(crate) type Code = c_int;
/// Any of HIP's handles, and device addresses.
pub(crate) type Handle = *mut c_void;
/// `hipHostFn_t`
pub(crate) type HostFunction = unsafe extern "C" fn(Handle);
/// `hipStreamCallback_t`
pub(crate) type Callback = unsafe extern "C" fn(Handle, Code, Handle);

pub(crate) const SUCCESS: Code = 0;
pub(crate) const NON_BLOCKING: c_uint = 1;
pub(crate) const HOST_TO_HOST: c_uint = 0;
pub(crate) const HOST_TO_DEVICE: c_uint = 1;
pub(crate) const DEVICE_TO_HOST: c_uint = 2;
pub(crate) const DEVICE_TO_DEVICE: c_uint = 3;
pub(crate) const COPY_DEFAULT: c_uint = 4;
pub(crate) const WAIT_AT_LEAST: c_uint = 0;
pub(crate) const ATTACH_GLOBAL: c_uint = 1;
/// Words of the list `extra` of a launch.
pub(crate) const EXTRA_BUFFER: usize = 1;
pub(crate) const EXTRA_SIZE: usize = 2;
pub(crate) const EXTRA_END: usize = 3;

/// `dim3`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dim3 {
    pub(crate) x: c_uint,
    pub(crate) y: c_uint,
    pub(crate) z: c_uint,
}

impl Dim3 {
    pub(crate) const fn x(x: c_uint) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

/// `hipKernelNodeParams`
#[repr(C)]
pub(crate) struct KernelNode {
    pub(crate) block: Dim3,
    pub(crate) extra: *mut Handle,
    pub(crate) function: *const c_void,
    pub(crate) grid: Dim3,
    pub(crate) arguments: *mut Handle,
    pub(crate) lds_size: c_uint,
}

/// `hipMemsetParams`
#[repr(C)]
pub(crate) struct MemsetNode {
    pub(crate) to: Handle,
    pub(crate) element_size: c_uint,
    pub(crate) height: usize,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) width: usize,
}

/// `hipHostNodeParams`
#[repr(C)]
pub(crate) struct HostNode {
    pub(crate) function: HostFunction,
    pub(crate) user: Handle,
}

/// `hipMemPoolProps`: pinned memory of a device, for this process.
#[repr(C)]
pub(crate) struct PoolProps {
    pub(crate) allocation: c_uint,
    pub(crate) handles: c_uint,
    pub(crate) location: [c_uint; 2],
    pub(crate) rest: [u64; 9],
}

/// `hipChannelFormatDesc`
#[repr(C)]
pub(crate) struct Channels {
    pub(crate) bits: [c_int; 4],
    pub(crate) kind: c_uint,
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        unsafe extern "C" {
            $(pub(crate) fn $name($($argument: $type),*) -> Code;)*
        }
    };
}

functions! {
    fn hipGetDeviceCount(count: *mut c_int);
    fn hipSetDevice(device: c_int);
    fn hipDeviceSynchronize();
    fn hipGetLastError();
    fn hipPeekAtLastError();
    fn hipMalloc(out: *mut Handle, size: usize);
    fn hipMallocAsync(out: *mut Handle, size: usize, stream: Handle);
    fn hipHostMalloc(out: *mut Handle, size: usize, flags: c_uint);
    fn hipMallocManaged(out: *mut Handle, size: usize, flags: c_uint);
    fn hipFree(address: Handle);
    fn hipFreeAsync(address: Handle, stream: Handle);
    fn hipHostFree(address: Handle);
    fn hipGetDevice(out: *mut c_int);
    fn hipMemPoolCreate(out: *mut Handle, props: *const PoolProps);
    fn hipMallocFromPoolAsync(out: *mut Handle, size: usize, pool: Handle, stream: Handle);
    fn hipMallocArray(out: *mut Handle, channels: *const Channels, width: usize, height: usize, flags: c_uint);
    fn hipFreeArray(array: Handle);
    fn hipMemcpy2DFromArray(
        to: Handle, pitch: usize, from: Handle, x: usize, y: usize, width: usize, height: usize, kind: c_uint,
    );
    fn hipDrvMemcpy3DAsync(copy: *const DriverBox, stream: Handle);
    fn hipMemcpyParam2DAsync(copy: *const DriverRows, stream: Handle);
    fn hipMemcpyPeerAsync(
        to: Handle, to_device: c_int, from: Handle, from_device: c_int, size: usize, stream: Handle,
    );
    fn hipMemcpy(to: Handle, from: Handle, size: usize, kind: c_uint);
    fn hipMemcpyWithStream(to: Handle, from: Handle, size: usize, kind: c_uint, stream: Handle);
    fn hipMemcpyHtoDAsync(to: Handle, from: Handle, size: usize, stream: Handle);
    fn hipMemcpyDtoHAsync(to: Handle, from: Handle, size: usize, stream: Handle);
    fn hipMemcpyDtoDAsync(to: Handle, from: Handle, size: usize, stream: Handle);
    fn hipMemset(to: Handle, value: c_int, size: usize);
    fn hipMemsetD8Async(to: Handle, value: u8, count: usize, stream: Handle);
    fn hipMemsetD16Async(to: Handle, value: u16, count: usize, stream: Handle);
    fn hipMemsetD32Async(to: Handle, value: c_int, count: usize, stream: Handle);
    fn hipStreamCreate(out: *mut Handle);
    fn hipStreamCreateWithFlags(out: *mut Handle, flags: c_uint);
    fn hipStreamCreateWithPriority(out: *mut Handle, flags: c_uint, priority: c_int);
    fn hipStreamDestroy(stream: Handle);
    fn hipStreamWaitValue32(stream: Handle, word: Handle, value: c_uint, flags: c_uint, mask: c_uint);
    fn hipStreamWaitValue64(stream: Handle, word: Handle, value: u64, flags: c_uint, mask: u64);
    fn hipStreamWriteValue64(stream: Handle, word: Handle, value: u64, flags: c_uint);
    fn hipStreamAttachMemAsync(stream: Handle, address: Handle, size: usize, flags: c_uint);
    fn hipMemPrefetchAsync(address: Handle, size: usize, device: c_int, stream: Handle);
    fn hipStreamWriteValue32(stream: Handle, word: Handle, value: c_uint, flags: c_uint);
    fn hipEventCreateWithFlags(out: *mut Handle, flags: c_uint);
    fn hipEventDestroy(event: Handle);
    fn hipEventSynchronize(event: Handle);
    fn hipEventQuery(event: Handle);
    fn hipEventElapsedTime(out: *mut f32, from: Handle, to: Handle);
    fn hipExtLaunchKernel(
        kernel: *const c_void, grid: Dim3, block: Dim3, arguments: *mut Handle, lds_size: usize, stream: Handle,
        start: Handle, stop: Handle, flags: c_int,
    );
    fn hipModuleLaunchCooperativeKernel(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_size: c_uint, stream: Handle, arguments: *mut Handle,
    );
    fn hipModuleLoad(out: *mut Handle, path: *const c_char);
    fn hipModuleGetFunction(out: *mut Handle, module: Handle, name: *const c_char);
    fn hipModuleLaunchKernel(
        function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, lds_size: c_uint, stream: Handle, arguments: *mut Handle, extra: *mut Handle,
    );
    fn hipGraphCreate(out: *mut Handle, flags: c_uint);
    fn hipGraphDestroy(graph: Handle);
    fn hipGraphInstantiate(
        out: *mut Handle, graph: Handle, error_node: *mut Handle, log: *mut c_char, log_size: usize,
    );
    fn hipGraphUpload(graph: Handle, stream: Handle);
    fn hipGraphExecDestroy(graph: Handle);
    fn hipGraphAddKernelNode(
        out: *mut Handle, graph: Handle, after: *const Handle, count: usize, node: *const KernelNode,
    );
    fn hipGraphAddMemcpyNode1D(
        out: *mut Handle, graph: Handle, after: *const Handle, count: usize, to: Handle, from: Handle, size: usize,
        kind: c_uint,
    );
    fn hipGraphAddMemsetNode(
        out: *mut Handle, graph: Handle, after: *const Handle, count: usize, node: *const MemsetNode,
    );
    fn hipGraphAddHostNode(
        out: *mut Handle, graph: Handle, after: *const Handle, count: usize, node: *const HostNode,
    );
}

unsafe extern "C" {
    /// `kernels.hip`
    pub(crate) fn diff_kernel(kernel: c_uint) -> *const c_void;
    /// `kernels.hip`
    pub(crate) fn diff_variable() -> *const c_void;
    /// `kernels.hip`
    pub(crate) fn diff_chevrons(kernel: c_uint, arguments: *mut Handle, stream: Handle);
}
