//! The functions of the simulated HIP runtime. They are linked into this library, and the linker exports none of them.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;

use crate::result::Handle;

// The crate has no interface for Rust; its C symbols are its interface.
extern crate hip_sim as _;

type Callback = Option<unsafe extern "C" fn(stream: Handle, status: u32, user: *mut c_void)>;
type HostFunction = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// `hipKernelNodeParams`
#[repr(C)]
pub(crate) struct HipKernelNode {
    pub(crate) block: [u32; 3],
    pub(crate) extra: *mut *mut c_void,
    pub(crate) function: Handle,
    pub(crate) grid: [u32; 3],
    pub(crate) parameters: *mut *mut c_void,
    pub(crate) shared: u32,
}

const _: () = assert!(size_of::<HipKernelNode>() == 64);

impl Default for HipKernelNode {
    fn default() -> Self {
        let (block, grid, shared) = ([0; 3], [0; 3], 0);
        let (extra, function, parameters) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        Self { block, extra, function, grid, parameters, shared }
    }
}

unsafe extern "C" {
    pub(crate) fn hipInit(flags: u32) -> u32;
    pub(crate) fn hipSetDevice(device: c_int) -> u32;
    pub(crate) fn hipGetDeviceCount(count: *mut c_int) -> u32;
    pub(crate) fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> u32;
    pub(crate) fn hipDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int) -> u32;
    pub(crate) fn hipDeviceGetByPCIBusId(device: *mut c_int, text: *const c_char) -> u32;
    pub(crate) fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> u32;
    pub(crate) fn hipDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> u32;
    pub(crate) fn hipDeviceGetAttribute(value: *mut c_int, attribute: u32, device: c_int) -> u32;
    pub(crate) fn hipDeviceSynchronize() -> u32;
    pub(crate) fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> u32;
    pub(crate) fn hipDrvGetErrorName(error: u32, text: *mut *const c_char) -> u32;
    pub(crate) fn hipDrvGetErrorString(error: u32, text: *mut *const c_char) -> u32;

    pub(crate) fn hipModuleLoad(module: *mut Handle, path: *const c_char) -> u32;
    pub(crate) fn hipModuleLoadData(module: *mut Handle, image: *const c_void) -> u32;
    pub(crate) fn hipModuleUnload(module: Handle) -> u32;
    pub(crate) fn hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> u32;
    pub(crate) fn hipModuleGetFunctionCount(count: *mut u32, module: Handle) -> u32;
    pub(crate) fn hipKernelNameRef(function: Handle) -> *const c_char;
    pub(crate) fn hipFuncGetAttribute(value: *mut c_int, attribute: u32, function: Handle) -> u32;
    pub(crate) fn hipKernelGetParamInfo(f: Handle, index: usize, offset: *mut usize, size: *mut usize)
    -> u32;
    pub(crate) fn hipModuleLaunchKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: Handle,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> u32;
    pub(crate) fn hipModuleLaunchCooperativeKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: Handle,
        parameters: *mut *mut c_void,
    ) -> u32;
    pub(crate) fn hipLaunchHostFunc(stream: Handle, function: HostFunction, user: *mut c_void) -> u32;

    pub(crate) fn hipStreamCreateWithPriority(stream: *mut Handle, flags: u32, priority: c_int) -> u32;
    pub(crate) fn hipStreamDestroy(stream: Handle) -> u32;
    pub(crate) fn hipStreamQuery(stream: Handle) -> u32;
    pub(crate) fn hipStreamSynchronize(stream: Handle) -> u32;
    pub(crate) fn hipStreamWaitEvent(stream: Handle, event: Handle, flags: u32) -> u32;
    pub(crate) fn hipStreamGetFlags(stream: Handle, flags: *mut u32) -> u32;
    pub(crate) fn hipStreamAddCallback(stream: Handle, f: Callback, user: *mut c_void, flags: u32) -> u32;
    pub(crate) fn hipStreamWaitValue32(
        s: Handle,
        word: *mut c_void,
        value: u32,
        flags: u32,
        mask: u32,
    ) -> u32;
    pub(crate) fn hipStreamWaitValue64(
        s: Handle,
        word: *mut c_void,
        value: u64,
        flags: u32,
        mask: u64,
    ) -> u32;
    pub(crate) fn hipStreamWriteValue32(stream: Handle, word: *mut c_void, value: u32, flags: u32) -> u32;
    pub(crate) fn hipStreamWriteValue64(stream: Handle, word: *mut c_void, value: u64, flags: u32) -> u32;
    pub(crate) fn hipStreamBeginCapture(stream: Handle, mode: u32) -> u32;
    pub(crate) fn hipStreamEndCapture(stream: Handle, graph: *mut Handle) -> u32;
    pub(crate) fn hipStreamIsCapturing(stream: Handle, status: *mut u32) -> u32;
    pub(crate) fn hipStreamGetCaptureInfo_v2(
        stream: Handle,
        status: *mut u32,
        id: *mut u64,
        graph: *mut Handle,
        dependencies: *mut *const Handle,
        count: *mut usize,
    ) -> u32;
    pub(crate) fn hipThreadExchangeStreamCaptureMode(mode: *mut u32) -> u32;

    pub(crate) fn hipEventCreateWithFlags(event: *mut Handle, flags: u32) -> u32;
    pub(crate) fn hipEventRecord(event: Handle, stream: Handle) -> u32;
    pub(crate) fn hipEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) -> u32;
    pub(crate) fn hipEventQuery(event: Handle) -> u32;
    pub(crate) fn hipEventSynchronize(event: Handle) -> u32;
    pub(crate) fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) -> u32;
    pub(crate) fn hipEventDestroy(event: Handle) -> u32;

    pub(crate) fn hipMalloc(memory: *mut *mut c_void, size: usize) -> u32;
    pub(crate) fn hipFree(memory: *mut c_void) -> u32;
    pub(crate) fn hipMallocAsync(memory: *mut *mut c_void, size: usize, stream: Handle) -> u32;
    pub(crate) fn hipFreeAsync(memory: *mut c_void, stream: Handle) -> u32;
    pub(crate) fn hipHostMalloc(memory: *mut *mut c_void, size: usize, flags: u32) -> u32;
    pub(crate) fn hipHostFree(memory: *mut c_void) -> u32;
    pub(crate) fn hipHostRegister(memory: *mut c_void, size: usize, flags: u32) -> u32;
    pub(crate) fn hipHostUnregister(memory: *mut c_void) -> u32;
    pub(crate) fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: u32) -> u32;
    pub(crate) fn hipMemGetAddressRange(base: *mut *mut c_void, size: *mut usize, memory: *mut c_void)
    -> u32;
    pub(crate) fn hipMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: u32) -> u32;
    pub(crate) fn hipMemcpyAsync(
        to: *mut c_void,
        from: *const c_void,
        size: usize,
        kind: u32,
        stream: Handle,
    ) -> u32;
    pub(crate) fn hipMemsetD8Async(to: *mut c_void, value: u8, count: usize, stream: Handle) -> u32;
    pub(crate) fn hipMemsetD16Async(to: *mut c_void, value: u16, count: usize, stream: Handle) -> u32;
    pub(crate) fn hipMemsetD32Async(to: *mut c_void, value: c_int, count: usize, stream: Handle) -> u32;
    pub(crate) fn hipMemsetD8(to: *mut c_void, value: u8, count: usize) -> u32;
    pub(crate) fn hipMemsetD32(to: *mut c_void, value: c_int, count: usize) -> u32;

    pub(crate) fn hipGraphCreate(graph: *mut Handle, flags: u32) -> u32;
    pub(crate) fn hipGraphDestroy(graph: Handle) -> u32;
    pub(crate) fn hipGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) -> u32;
    pub(crate) fn hipGraphLaunch(executable: Handle, stream: Handle) -> u32;
    pub(crate) fn hipGraphUpload(executable: Handle, stream: Handle) -> u32;
    pub(crate) fn hipGraphExecDestroy(executable: Handle) -> u32;
    pub(crate) fn hipGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) -> u32;
    pub(crate) fn hipGraphAddEmptyNode(
        node: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
    ) -> u32;
    pub(crate) fn hipGraphAddKernelNode(
        node: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        with: *const HipKernelNode,
    ) -> u32;
    pub(crate) fn hipGraphAddChildGraphNode(
        node: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        child: Handle,
    ) -> u32;
    pub(crate) fn hipGraphNodeGetType(node: Handle, kind: *mut u32) -> u32;
    pub(crate) fn hipGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) -> u32;
    pub(crate) fn hipGraphKernelNodeGetParams(node: Handle, out: *mut HipKernelNode) -> u32;
    pub(crate) fn hipGraphExecKernelNodeSetParams(
        executable: Handle,
        node: Handle,
        with: *const HipKernelNode,
    ) -> u32;
    pub(crate) fn hipGraphExecChildGraphNodeSetParams(executable: Handle, node: Handle, child: Handle)
    -> u32;
    pub(crate) fn hipGraphExecUpdate(
        executable: Handle,
        graph: Handle,
        node: *mut Handle,
        result: *mut u32,
    ) -> u32;
}
