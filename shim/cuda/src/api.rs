//! The one list of functions that the shim stands before. libcuda's other functions are not exported and not touched.
//!
//! ```text
//! CLASS { name(arguments) on STREAM, WORK; }  =>  { name .. }
//! ```
//!
//! | class | what is done with a call |
//! | --- | --- |
//! | `work` | it puts WORK on STREAM. While its process must wait it is deferred, or waits in place |
//! | `orders` | it puts something on STREAM that takes no time there: it waits until what it comes after was launched |
//! | `waits` | it waits for STREAM, or for everything of the current context |
//! | `asks` | it asks whether STREAM is done |
//! | `begins_capture`, `ends_capture` | STREAM captures from now on, or not any more |
//! | `creates` | a stream, left in `out` |
//! | `instantiates` | an executable graph, left in `out`, of a graph |
//! | `changes` | an executable graph, once everything that is deferred was launched |
//! | `sets` | what later launches of a function are like; the same, unless it changes nothing |
//! | `gives` | the address of a function, left in `out` |
//! | `special` | a hook of its own, `hooks::special::NAME` |
//! | behind `=>` | without knowing its arguments: it waits until everything that is deferred was launched. So does each function that could see, change or take away what a launch uses, and is in no class. A test has those that could not |
//!
//! Names are those of the exports. `_ptsz` and `_ptds` variants mean the calling thread's stream by a null one.

mod launch;

use std::ffi::c_void;

pub(crate) use launch::{
    Launch, LaunchAttribute, LaunchConfig, Shape, configured, cooperative, launch_of, plain,
};

/// Any of CUDA's handles.
pub(crate) type Handle = *mut c_void;
/// Any pointer that is only passed on.
pub(crate) type Pointer = *mut c_void;
/// A device address.
pub(crate) type Address = u64;

/// A stream as a call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    /// The current context's null stream.
    Legacy,
    /// The calling thread's stream.
    PerThread,
    /// The address of a stream that was created.
    Created(usize),
}

/// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

impl Named {
    /// The handle that means the same in every function.
    pub(crate) fn address(self) -> usize {
        match self {
            Self::Legacy => LEGACY,
            Self::PerThread => PER_THREAD,
            Self::Created(address) => address,
        }
    }
}

/// The stream that a handle means; a null one is the null stream.
pub(crate) fn stream(handle: Handle) -> Named {
    match handle.addr() {
        0 | LEGACY => Named::Legacy,
        PER_THREAD => Named::PerThread,
        address => Named::Created(address),
    }
}

/// The same in a per-thread variant of a function.
pub(crate) fn own(handle: Handle) -> Named {
    if handle.is_null() { Named::PerThread } else { stream(handle) }
}

/// What a call puts on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Of a function, or of a library's kernel.
    Kernel(Launch),
    /// An executable graph.
    Graph(usize),
    /// So many bytes; 0: not known.
    Copy(usize),
    /// The same, and the call may return only when it is done.
    AwaitedCopy(usize),
    /// The same within devices.
    DeviceCopy(DeviceCopy),
    /// So many elements.
    Fill(usize),
    /// The same, and the call does not wait for it.
    AsyncFill(Fill),
}

/// A copy within devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeviceCopy {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) size: usize,
}

/// What fills memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Byte(u8),
    Half(u16),
    Word(u32),
}

/// A fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) to: Address,
    pub(crate) element: Element,
    /// Elements in a row.
    pub(crate) width: usize,
    /// Bytes from one row to the next, and rows; None: there is one row.
    pub(crate) rows: Option<(usize, usize)>,
}

impl Fill {
    pub(crate) fn elements(&self) -> usize {
        self.width.saturating_mul(self.rows.map_or(1, |(_, rows)| rows))
    }
}

/// A fill that its caller does not wait for.
pub(crate) fn fill(to: Address, element: Element, width: usize, rows: Option<(usize, usize)>) -> Work {
    Work::AsyncFill(Fill { to, element, width, rows })
}

/// `CUDA_KERNEL_NODE_PARAMS`; callers of functions of its first version pass as much as [`FirstKernelNode`].
#[repr(C)]
pub(crate) struct KernelNode {
    first: FirstKernelNode,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`
#[repr(C)]
pub(crate) struct FirstKernelNode {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    parameters: Pointer,
    extra: Pointer,
}

/// `CUgraphNodeParams`: the type of the node, and parameters by type.
#[repr(C)]
pub(crate) struct NodeParameters {
    kind: u32,
    reserved: [u32; 3],
    parameters: [usize; 30],
}

const _: () = assert!(size_of::<FirstKernelNode>() == 56 && size_of::<KernelNode>() == 72);
const _: () = assert!(size_of::<NodeParameters>() == 256);

/// `CU_GRAPH_NODE_TYPE_KERNEL`, `CU_GRAPH_NODE_TYPE_MEMCPY`, `CU_GRAPH_NODE_TYPE_MEMSET`, `CU_GRAPH_NODE_TYPE_GRAPH`
pub(crate) const KERNEL_NODE: u32 = 0;
pub(crate) const COPY_NODE: u32 = 1;
pub(crate) const FILL_NODE: u32 = 2;
pub(crate) const GRAPH_NODE: u32 = 4;

impl KernelNode {
    /// What a node launches: a function, or else a kernel of a library.
    pub(crate) fn launched(&self) -> usize {
        let Self { first: FirstKernelNode { function, .. }, kernel, .. } = self;
        if function.is_null() { kernel.addr() } else { function.addr() }
    }
}

impl FirstKernelNode {
    pub(crate) fn launched(&self) -> usize {
        self.function.addr()
    }
}

/// A change of an executable graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) executable: usize,
    pub(crate) node: usize,
    pub(crate) contents: Contents,
}

/// What a node has from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Kernel(usize),
    Graph(usize),
    /// The whole graph is as this one.
    AllOf(usize),
}

fn change(executable: Handle, node: Handle, contents: Contents) -> Change {
    Change { executable: executable.addr(), node: node.addr(), contents }
}

/// A node gets another kernel.
///
/// # Safety
/// The parameters are null or valid.
pub(crate) unsafe fn new_kernel(executable: Handle, node: Handle, with: *const KernelNode) -> Option<Change> {
    // SAFETY: the caller's promise.
    let kernel = unsafe { with.as_ref() }?.launched();
    Some(change(executable, node, Contents::Kernel(kernel)))
}

/// The same with parameters of the first version.
///
/// # Safety
/// The parameters are null or valid.
pub(crate) unsafe fn new_function(
    executable: Handle,
    node: Handle,
    with: *const FirstKernelNode,
) -> Option<Change> {
    // SAFETY: the caller's promise.
    let function = unsafe { with.as_ref() }?.launched();
    Some(change(executable, node, Contents::Kernel(function)))
}

/// A node gets other parameters; None: of a kind that launches nothing.
///
/// # Safety
/// The parameters are null or valid.
pub(crate) unsafe fn new_parameters(
    executable: Handle,
    node: Handle,
    with: *const NodeParameters,
) -> Option<Change> {
    // SAFETY: the caller's promise.
    let with = unsafe { with.as_ref() }?;
    match with.kind {
        // SAFETY: a node of this kind has such parameters, which fit.
        KERNEL_NODE => unsafe { new_kernel(executable, node, with.parameters.as_ptr().cast()) },
        GRAPH_NODE => Some(change(executable, node, Contents::Graph(with.parameters[0]))),
        _ => None,
    }
}

/// A node gets another child graph.
pub(crate) fn new_graph(executable: Handle, node: Handle, graph: Handle) -> Change {
    change(executable, node, Contents::Graph(graph.addr()))
}

/// The executable graph gets all parameters of another graph.
pub(crate) fn all_of(executable: Handle, graph: Handle) -> Change {
    change(executable, std::ptr::null_mut(), Contents::AllOf(graph.addr()))
}

/// A setting of a function or of a library's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) function: usize,
    pub(crate) attribute: u32,
    /// -1: all.
    pub(crate) device: i32,
    pub(crate) value: i32,
}

pub(crate) fn setting(function: Handle, attribute: u32, device: i32, value: i32) -> Setting {
    Setting { function: function.addr(), attribute, device, value }
}

macro_rules! for_each_function {
    ($then:ident) => {
        $then! {
            work {
                cuLaunchKernel(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer, extra: Pointer) on stream(stream_), Work::Kernel(plain(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, parameters, extra));
                cuLaunchKernel_ptsz(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer, extra: Pointer) on own(stream_), Work::Kernel(plain(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, parameters, extra));
                cuLaunchKernelEx(config: *const LaunchConfig, function: Handle, parameters: Pointer, extra: Pointer) on configured(config, stream), Work::Kernel(launch_of(config, function, parameters, extra));
                cuLaunchKernelEx_ptsz(config: *const LaunchConfig, function: Handle, parameters: Pointer, extra: Pointer) on configured(config, own), Work::Kernel(launch_of(config, function, parameters, extra));
                cuLaunchCooperativeKernel(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer) on stream(stream_), Work::Kernel(cooperative(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, parameters));
                cuLaunchCooperativeKernel_ptsz(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer) on own(stream_), Work::Kernel(cooperative(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, parameters));

                cuGraphLaunch(graph: Handle, stream_: Handle) on stream(stream_), Work::Graph(graph.addr());
                cuGraphLaunch_ptsz(graph: Handle, stream_: Handle) on own(stream_), Work::Graph(graph.addr());

                cuMemcpyAsync(to: Address, from: Address, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyAsync_ptsz(to: Address, from: Address, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
                cuMemcpyHtoDAsync_v2(to: Address, from: Pointer, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyHtoDAsync_v2_ptsz(to: Address, from: Pointer, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
                cuMemcpyDtoHAsync_v2(to: Pointer, from: Address, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyDtoHAsync_v2_ptsz(to: Pointer, from: Address, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
                cuMemcpyDtoDAsync_v2(to: Address, from: Address, size: usize, stream_: Handle) on stream(stream_), Work::DeviceCopy(DeviceCopy { to, from, size });
                cuMemcpyDtoDAsync_v2_ptsz(to: Address, from: Address, size: usize, stream_: Handle) on own(stream_), Work::DeviceCopy(DeviceCopy { to, from, size });
                cuMemcpyPeerAsync(to: Address, to_context: Handle, from: Address, from_context: Handle, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyPeerAsync_ptsz(to: Address, to_context: Handle, from: Address, from_context: Handle, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
                cuMemcpy2DAsync_v2(copy: Pointer, stream_: Handle) on stream(stream_), Work::Copy(0);
                cuMemcpy2DAsync_v2_ptsz(copy: Pointer, stream_: Handle) on own(stream_), Work::Copy(0);
                cuMemcpy3DAsync_v2(copy: Pointer, stream_: Handle) on stream(stream_), Work::Copy(0);
                cuMemcpy3DAsync_v2_ptsz(copy: Pointer, stream_: Handle) on own(stream_), Work::Copy(0);
                cuMemcpyBatchAsync(to: Pointer, from: Pointer, sizes: Pointer, count: usize, attributes: Pointer, indices: Pointer, attribute_count: usize, failed: Pointer, stream_: Handle) on stream(stream_), Work::Copy(0);
                cuMemcpyBatchAsync_ptsz(to: Pointer, from: Pointer, sizes: Pointer, count: usize, attributes: Pointer, indices: Pointer, attribute_count: usize, failed: Pointer, stream_: Handle) on own(stream_), Work::Copy(0);
                cuMemcpyBatchAsync_v2(to: Pointer, from: Pointer, sizes: Pointer, count: usize, attributes: Pointer, indices: Pointer, attribute_count: usize, stream_: Handle) on stream(stream_), Work::Copy(0);
                cuMemcpyBatchAsync_v2_ptsz(to: Pointer, from: Pointer, sizes: Pointer, count: usize, attributes: Pointer, indices: Pointer, attribute_count: usize, stream_: Handle) on own(stream_), Work::Copy(0);

                cuMemcpy(to: Address, from: Address, size: usize) on Named::Legacy, Work::AwaitedCopy(size);
                cuMemcpy_ptds(to: Address, from: Address, size: usize) on Named::PerThread, Work::AwaitedCopy(size);
                cuMemcpyHtoD_v2(to: Address, from: Pointer, size: usize) on Named::Legacy, Work::AwaitedCopy(size);
                cuMemcpyHtoD_v2_ptds(to: Address, from: Pointer, size: usize) on Named::PerThread, Work::AwaitedCopy(size);
                cuMemcpyDtoH_v2(to: Pointer, from: Address, size: usize) on Named::Legacy, Work::AwaitedCopy(size);
                cuMemcpyDtoH_v2_ptds(to: Pointer, from: Address, size: usize) on Named::PerThread, Work::AwaitedCopy(size);
                cuMemcpyDtoD_v2(to: Address, from: Address, size: usize) on Named::Legacy, Work::Copy(size);
                cuMemcpyDtoD_v2_ptds(to: Address, from: Address, size: usize) on Named::PerThread, Work::Copy(size);
                cuMemcpy2D_v2(copy: Pointer) on Named::Legacy, Work::AwaitedCopy(0);
                cuMemcpy2D_v2_ptds(copy: Pointer) on Named::PerThread, Work::AwaitedCopy(0);
                cuMemcpy2DUnaligned_v2(copy: Pointer) on Named::Legacy, Work::AwaitedCopy(0);
                cuMemcpy2DUnaligned_v2_ptds(copy: Pointer) on Named::PerThread, Work::AwaitedCopy(0);
                cuMemcpy3D_v2(copy: Pointer) on Named::Legacy, Work::AwaitedCopy(0);
                cuMemcpy3D_v2_ptds(copy: Pointer) on Named::PerThread, Work::AwaitedCopy(0);

                cuMemsetD8Async(to: Address, value: u8, count: usize, stream_: Handle) on stream(stream_), fill(to, Element::Byte(value), count, None);
                cuMemsetD8Async_ptsz(to: Address, value: u8, count: usize, stream_: Handle) on own(stream_), fill(to, Element::Byte(value), count, None);
                cuMemsetD16Async(to: Address, value: u16, count: usize, stream_: Handle) on stream(stream_), fill(to, Element::Half(value), count, None);
                cuMemsetD16Async_ptsz(to: Address, value: u16, count: usize, stream_: Handle) on own(stream_), fill(to, Element::Half(value), count, None);
                cuMemsetD32Async(to: Address, value: u32, count: usize, stream_: Handle) on stream(stream_), fill(to, Element::Word(value), count, None);
                cuMemsetD32Async_ptsz(to: Address, value: u32, count: usize, stream_: Handle) on own(stream_), fill(to, Element::Word(value), count, None);
                cuMemsetD2D8Async(to: Address, pitch: usize, value: u8, width: usize, height: usize, stream_: Handle) on stream(stream_), fill(to, Element::Byte(value), width, Some((pitch, height)));
                cuMemsetD2D8Async_ptsz(to: Address, pitch: usize, value: u8, width: usize, height: usize, stream_: Handle) on own(stream_), fill(to, Element::Byte(value), width, Some((pitch, height)));
                cuMemsetD2D16Async(to: Address, pitch: usize, value: u16, width: usize, height: usize, stream_: Handle) on stream(stream_), fill(to, Element::Half(value), width, Some((pitch, height)));
                cuMemsetD2D16Async_ptsz(to: Address, pitch: usize, value: u16, width: usize, height: usize, stream_: Handle) on own(stream_), fill(to, Element::Half(value), width, Some((pitch, height)));
                cuMemsetD2D32Async(to: Address, pitch: usize, value: u32, width: usize, height: usize, stream_: Handle) on stream(stream_), fill(to, Element::Word(value), width, Some((pitch, height)));
                cuMemsetD2D32Async_ptsz(to: Address, pitch: usize, value: u32, width: usize, height: usize, stream_: Handle) on own(stream_), fill(to, Element::Word(value), width, Some((pitch, height)));
                cuMemsetD8_v2(to: Address, value: u8, count: usize) on Named::Legacy, Work::Fill(count);
                cuMemsetD8_v2_ptds(to: Address, value: u8, count: usize) on Named::PerThread, Work::Fill(count);
                cuMemsetD16_v2(to: Address, value: u16, count: usize) on Named::Legacy, Work::Fill(count);
                cuMemsetD16_v2_ptds(to: Address, value: u16, count: usize) on Named::PerThread, Work::Fill(count);
                cuMemsetD32_v2(to: Address, value: u32, count: usize) on Named::Legacy, Work::Fill(count);
                cuMemsetD32_v2_ptds(to: Address, value: u32, count: usize) on Named::PerThread, Work::Fill(count);
            }
            orders {
                cuEventRecord(event: Handle, stream_: Handle) on stream(stream_), ();
                cuEventRecord_ptsz(event: Handle, stream_: Handle) on own(stream_), ();
                cuEventRecordWithFlags(event: Handle, stream_: Handle, flags: u32) on stream(stream_), ();
                cuEventRecordWithFlags_ptsz(event: Handle, stream_: Handle, flags: u32) on own(stream_), ();
                cuStreamWaitEvent(stream_: Handle, event: Handle, flags: u32) on stream(stream_), ();
                cuStreamWaitEvent_ptsz(stream_: Handle, event: Handle, flags: u32) on own(stream_), ();
                cuLaunchHostFunc(stream_: Handle, function: Pointer, user: Pointer) on stream(stream_), ();
                cuLaunchHostFunc_ptsz(stream_: Handle, function: Pointer, user: Pointer) on own(stream_), ();
                cuStreamAddCallback(stream_: Handle, function: Pointer, user: Pointer, flags: u32) on stream(stream_), ();
                cuStreamAddCallback_ptsz(stream_: Handle, function: Pointer, user: Pointer, flags: u32) on own(stream_), ();
                cuStreamWaitValue32_v2(stream_: Handle, word: Address, value: u32, flags: u32) on stream(stream_), ();
                cuStreamWaitValue32_v2_ptsz(stream_: Handle, word: Address, value: u32, flags: u32) on own(stream_), ();
                cuStreamWaitValue64_v2(stream_: Handle, word: Address, value: u64, flags: u32) on stream(stream_), ();
                cuStreamWaitValue64_v2_ptsz(stream_: Handle, word: Address, value: u64, flags: u32) on own(stream_), ();
                cuStreamWriteValue32_v2(stream_: Handle, word: Address, value: u32, flags: u32) on stream(stream_), ();
                cuStreamWriteValue32_v2_ptsz(stream_: Handle, word: Address, value: u32, flags: u32) on own(stream_), ();
                cuStreamWriteValue64_v2(stream_: Handle, word: Address, value: u64, flags: u32) on stream(stream_), ();
                cuStreamWriteValue64_v2_ptsz(stream_: Handle, word: Address, value: u64, flags: u32) on own(stream_), ();
                cuMemAllocAsync(out: *mut Address, size: usize, stream_: Handle) on stream(stream_), ();
                cuMemAllocAsync_ptsz(out: *mut Address, size: usize, stream_: Handle) on own(stream_), ();
                cuMemAllocFromPoolAsync(out: *mut Address, size: usize, pool: Handle, stream_: Handle) on stream(stream_), ();
                cuMemAllocFromPoolAsync_ptsz(out: *mut Address, size: usize, pool: Handle, stream_: Handle) on own(stream_), ();
                cuMemFreeAsync(memory: Address, stream_: Handle) on stream(stream_), ();
                cuMemFreeAsync_ptsz(memory: Address, stream_: Handle) on own(stream_), ();
            }
            waits {
                cuStreamSynchronize(stream_: Handle) on Some(stream(stream_)), ();
                cuStreamSynchronize_ptsz(stream_: Handle) on Some(own(stream_)), ();
                cuCtxSynchronize() on None, ();
            }
            asks {
                cuStreamQuery(stream_: Handle) on stream(stream_), ();
                cuStreamQuery_ptsz(stream_: Handle) on own(stream_), ();
            }
            begins_capture {
                cuStreamBeginCapture(stream_: Handle) on stream(stream_), ();
                cuStreamBeginCapture_ptsz(stream_: Handle) on own(stream_), ();
                cuStreamBeginCapture_v2(stream_: Handle, mode: u32) on stream(stream_), ();
                cuStreamBeginCapture_v2_ptsz(stream_: Handle, mode: u32) on own(stream_), ();
                cuStreamBeginCaptureToGraph(stream_: Handle, graph: Handle, nodes: Pointer, edges: Pointer, count: usize, mode: u32) on stream(stream_), ();
                cuStreamBeginCaptureToGraph_ptsz(stream_: Handle, graph: Handle, nodes: Pointer, edges: Pointer, count: usize, mode: u32) on own(stream_), ();
            }
            ends_capture {
                cuStreamEndCapture(stream_: Handle, graph: Pointer) on stream(stream_), ();
                cuStreamEndCapture_ptsz(stream_: Handle, graph: Pointer) on own(stream_), ();
            }
            creates {
                cuStreamCreate(out: *mut Handle, flags: u32) on out, ();
                cuStreamCreateWithPriority(out: *mut Handle, flags: u32, priority: i32) on out, ();
            }
            instantiates {
                cuGraphInstantiate(out: *mut Handle, graph: Handle, node: Pointer, log: Pointer, size: usize) on (out, graph), ();
                cuGraphInstantiate_v2(out: *mut Handle, graph: Handle, node: Pointer, log: Pointer, size: usize) on (out, graph), ();
                cuGraphInstantiateWithFlags(out: *mut Handle, graph: Handle, flags: u64) on (out, graph), ();
                cuGraphInstantiateWithParams(out: *mut Handle, graph: Handle, with: Pointer) on (out, graph), ();
                cuGraphInstantiateWithParams_ptsz(out: *mut Handle, graph: Handle, with: Pointer) on (out, graph), ();
            }
            changes {
                cuGraphExecKernelNodeSetParams(executable: Handle, node: Handle, with: *const FirstKernelNode) on new_function(executable, node, with), ();
                cuGraphExecKernelNodeSetParams_v2(executable: Handle, node: Handle, with: *const KernelNode) on new_kernel(executable, node, with), ();
                cuGraphExecNodeSetParams(executable: Handle, node: Handle, with: *const NodeParameters) on new_parameters(executable, node, with), ();
                cuGraphExecChildGraphNodeSetParams(executable: Handle, node: Handle, graph: Handle) on Some(new_graph(executable, node, graph)), ();
                cuGraphExecUpdate(executable: Handle, graph: Handle, node: Pointer, result: Pointer) on Some(all_of(executable, graph)), ();
                cuGraphExecUpdate_v2(executable: Handle, graph: Handle, result: Pointer) on Some(all_of(executable, graph)), ();
            }
            sets {
                cuFuncSetAttribute(function: Handle, attribute: u32, value: i32) on setting(function, attribute, -1, value), ();
                cuKernelSetAttribute(attribute: u32, value: i32, kernel: Handle, device: i32) on setting(kernel, attribute, device, value), ();
            }
            gives {
                cuGetProcAddress(symbol: *const c_char, out: *mut Pointer, version: i32, flags: u64) on (out, version), ();
                cuGetProcAddress_v2(symbol: *const c_char, out: *mut Pointer, version: i32, flags: u64, status: Pointer) on (out, version), ();
                cuGetProcAddress_v2_ptsz(symbol: *const c_char, out: *mut Pointer, version: i32, flags: u64, status: Pointer) on (out, version), ();
            }
            special {
                cuStreamDestroy(stream_: Handle) on (), ();
                cuStreamDestroy_v2(stream_: Handle) on (), ();
                cuCtxDestroy(context: Handle) on (), ();
                cuCtxDestroy_v2(context: Handle) on (), ();
                cuCtxDetach(context: Handle) on (), ();
                cuGreenCtxCreate(out: *mut Handle, description: Handle, device: i32, flags: u32) on (), ();
                cuGreenCtxDestroy(green: Handle) on (), ();
                cuGreenCtxStreamCreate(out: *mut Handle, green: Handle, flags: u32, priority: i32) on (), ();
                cuGraphExecDestroy(executable: Handle) on (), ();
                cuModuleUnload(module: Handle) on (), ();
                cuLibraryUnload(library: Handle) on (), ();
                cuDevicePrimaryCtxRetain(out: *mut Handle, device: i32) on (), ();
                cuDevicePrimaryCtxRelease(device: i32) on (), ();
                cuDevicePrimaryCtxRelease_v2(device: i32) on (), ();
                cuDevicePrimaryCtxReset(device: i32) on (), ();
                cuDevicePrimaryCtxReset_v2(device: i32) on (), ();
            }
            => {
                cuArrayDestroy cuCheckpointProcessCheckpoint cuCheckpointProcessLock cuCheckpointProcessRestore
                cuCheckpointProcessUnlock cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxRecordEvent
                cuCtxResetPersistingL2Cache cuCtxSetCacheConfig cuCtxSetFlags cuCtxSetLimit
                cuCtxSetSharedMemConfig cuCtxSynchronize_v2 cuCtxWaitEvent cuDestroyExternalMemory
                cuDestroyExternalSemaphore cuDeviceGraphMemTrim cuDevicePrimaryCtxSetFlags
                cuDevicePrimaryCtxSetFlags_v2 cuDeviceSetGraphMemAttribute cuDeviceSetMemPool
                cuFlushGPUDirectRDMAWrites cuFuncSetBlockShape cuFuncSetCacheConfig cuFuncSetSharedMemConfig
                cuFuncSetSharedSize cuGraphExecBatchMemOpNodeSetParams cuGraphExecEventRecordNodeSetEvent
                cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
                cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecHostNodeSetParams
                cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphNodeSetEnabled
                cuGraphUpload cuGraphUpload_ptsz cuGraphicsMapResources cuGraphicsMapResources_ptsz
                cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2 cuGraphicsUnmapResources
                cuGraphicsUnmapResources_ptsz cuGraphicsUnregisterResource cuGreenCtxRecordEvent
                cuGreenCtxWaitEvent cuIpcCloseMemHandle cuKernelSetCacheConfig cuLaunch
                cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync cuMemAddressFree cuMemAdvise
                cuMemAdvise_v2 cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz
                cuMemDiscardAndPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync_ptsz cuMemDiscardBatchAsync
                cuMemDiscardBatchAsync_ptsz cuMemFree cuMemFreeHost cuMemFree_v2 cuMemHostUnregister
                cuMemMapArrayAsync cuMemMapArrayAsync_ptsz cuMemPoolDestroy cuMemPoolSetAccess
                cuMemPoolSetAttribute cuMemPoolTrimTo cuMemPrefetchAsync cuMemPrefetchAsync_ptsz
                cuMemPrefetchAsync_v2 cuMemPrefetchAsync_v2_ptsz cuMemPrefetchBatchAsync
                cuMemPrefetchBatchAsync_ptsz cuMemRelease cuMemSetAccess cuMemSetMemPool cuMemUnmap cuMemcpy2D
                cuMemcpy2DAsync cuMemcpy2DUnaligned cuMemcpy3D cuMemcpy3DAsync cuMemcpy3DBatchAsync
                cuMemcpy3DBatchAsync_ptsz cuMemcpy3DBatchAsync_v2 cuMemcpy3DBatchAsync_v2_ptsz cuMemcpy3DPeer
                cuMemcpy3DPeerAsync cuMemcpy3DPeerAsync_ptsz cuMemcpy3DPeer_ptds cuMemcpyAtoA cuMemcpyAtoA_v2
                cuMemcpyAtoA_v2_ptds cuMemcpyAtoD cuMemcpyAtoD_v2 cuMemcpyAtoD_v2_ptds cuMemcpyAtoH
                cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2 cuMemcpyAtoHAsync_v2_ptsz cuMemcpyAtoH_v2
                cuMemcpyAtoH_v2_ptds cuMemcpyDtoA cuMemcpyDtoA_v2 cuMemcpyDtoA_v2_ptds cuMemcpyDtoD
                cuMemcpyDtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyHtoA cuMemcpyHtoAAsync
                cuMemcpyHtoAAsync_v2 cuMemcpyHtoAAsync_v2_ptsz cuMemcpyHtoA_v2 cuMemcpyHtoA_v2_ptds cuMemcpyHtoD
                cuMemcpyHtoDAsync cuMemcpyPeer cuMemcpyPeer_ptds cuMemsetD16 cuMemsetD2D16 cuMemsetD2D16_v2
                cuMemsetD2D16_v2_ptds cuMemsetD2D32 cuMemsetD2D32_v2 cuMemsetD2D32_v2_ptds cuMemsetD2D8
                cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds cuMemsetD32 cuMemsetD8 cuMipmappedArrayDestroy
                cuMulticastBindAddr cuMulticastBindMem cuMulticastUnbind cuParamSetSize cuParamSetTexRef
                cuParamSetf cuParamSeti cuParamSetv cuPointerSetAttribute cuProfilerStart cuProfilerStop
                cuSignalExternalSemaphoresAsync cuSignalExternalSemaphoresAsync_ptsz cuStreamAttachMemAsync
                cuStreamAttachMemAsync_ptsz cuStreamBatchMemOp cuStreamBatchMemOp_ptsz cuStreamBatchMemOp_v2
                cuStreamBatchMemOp_v2_ptsz cuStreamCopyAttributes cuStreamCopyAttributes_ptsz
                cuStreamSetAttribute cuStreamSetAttribute_ptsz cuStreamUpdateCaptureDependencies
                cuStreamUpdateCaptureDependencies_ptsz cuStreamUpdateCaptureDependencies_v2
                cuStreamUpdateCaptureDependencies_v2_ptsz cuStreamWaitValue32 cuStreamWaitValue32_ptsz
                cuStreamWaitValue64 cuStreamWaitValue64_ptsz cuStreamWriteValue32 cuStreamWriteValue32_ptsz
                cuStreamWriteValue64 cuStreamWriteValue64_ptsz cuSurfObjectDestroy cuSurfRefSetArray
                cuTexObjectDestroy cuTexRefDestroy cuTexRefSetAddress cuTexRefSetAddress2D
                cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode cuTexRefSetAddress_v2
                cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat
                cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias
                cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray cuWaitExternalSemaphoresAsync
                cuWaitExternalSemaphoresAsync_ptsz
            }
        }
    };
}
pub(crate) use for_each_function;

macro_rules! define_ids {
    ($($class:ident { $($name:ident($($argument:ident: $type:ty),*) on $stream:expr, $work:expr;)* })* => { $($drain:ident)* }) => {
        /// A function of the list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(non_camel_case_types, reason = "CUDA's names")]
        #[repr(usize)]
        pub(crate) enum Id {
            $($(
                /// The function of this name.
                $name,
            )*)*
            $(
                /// The function of this name.
                $drain,
            )*
        }

        /// Names in the order of the list, each terminated.
        pub(crate) const NAMES: &[&std::ffi::CStr] = &[
            $($(terminated(concat!(stringify!($name), "\0")),)*)*
            $(terminated(concat!(stringify!($drain), "\0")),)*
        ];

        /// How many arguments each has, of those that are not drained.
        #[cfg(test)]
        const ARGUMENTS: &[usize] = &[$($(<[&str]>::len(&[$(stringify!($argument)),*]),)*)*];
    };
}
/// A name as C has it. No name of the list has a zero within.
const fn terminated(name: &str) -> &std::ffi::CStr {
    match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

for_each_function!(define_ids);

/// How many functions the list has.
pub(crate) const COUNT: usize = NAMES.len();

#[cfg(test)]
mod tests;
