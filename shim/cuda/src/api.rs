//! The one list of functions that the shim stands before. libcuda's other functions are not exported and not touched.
//!
//! ```text
//! CLASS { name(arguments) on STREAM, WORK; }
//! ```
//!
//! | class | what is done with a call |
//! | --- | --- |
//! | `work` | it puts WORK on STREAM, and waits in place while its process must wait |
//! | `waits` | it waits for STREAM, or for everything of the current context |
//! | `asks` | it asks whether STREAM is done |
//! | `begins_capture`, `ends_capture` | STREAM captures from now on, or not any more |
//! | `creates` | a stream, left in `out` |
//! | `instantiates` | an executable graph, left in `out`, of a graph |
//! | `changes` | an executable graph |
//! | `gives` | the address of a function, left in `out` |
//! | `special` | a hook of its own, `hooks::special::NAME` |
//!
//! Names are those of the exports. `_ptsz` and `_ptds` variants mean the calling thread's stream by a null one.

use std::ffi::c_void;

/// Any of CUDA's handles.
pub(crate) type Handle = *mut c_void;
/// Any pointer that is only passed on.
pub(crate) type Pointer = *mut c_void;
/// A device address.
pub(crate) type Address = u64;

/// `CUlaunchConfig`
#[repr(C)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    pub(crate) stream: Handle,
    attributes: Pointer,
    count: u32,
}

const _: () = assert!(size_of::<LaunchConfig>() == 56);

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

/// The stream of a configured launch, by one of the two functions above.
///
/// # Safety
/// The configuration is null or valid.
pub(crate) unsafe fn configured(config: *const LaunchConfig, named: fn(Handle) -> Named) -> Named {
    // SAFETY: the caller's promise.
    named(unsafe { config.as_ref() }.map_or(std::ptr::null_mut(), |config| config.stream))
}

/// The grid of a configured launch.
///
/// # Safety
/// The configuration is null or valid.
pub(crate) unsafe fn grid(config: *const LaunchConfig) -> [u32; 3] {
    // SAFETY: the caller's promise.
    unsafe { config.as_ref() }.map_or([0; 3], |config| config.grid)
}

/// What a call puts on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A function or kernel, and its grid.
    Kernel(usize, [u32; 3]),
    /// An executable graph.
    Graph(usize),
    /// So many bytes; 0: not known.
    Copy(usize),
    /// The same, and the call may return only when it is done.
    AwaitedCopy(usize),
    /// So many elements.
    Fill(usize),
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

/// `CU_GRAPH_NODE_TYPE_KERNEL`, `CU_GRAPH_NODE_TYPE_GRAPH`
pub(crate) const KERNEL_NODE: u32 = 0;
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

macro_rules! for_each_function {
    ($then:ident) => {
        $then! {
            work {
                cuLaunchKernel(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer, extra: Pointer) on stream(stream_), Work::Kernel(function.addr(), [grid_x, grid_y, grid_z]);
                cuLaunchKernel_ptsz(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer, extra: Pointer) on own(stream_), Work::Kernel(function.addr(), [grid_x, grid_y, grid_z]);
                cuLaunchKernelEx(config: *const LaunchConfig, function: Handle, parameters: Pointer, extra: Pointer) on configured(config, stream), Work::Kernel(function.addr(), grid(config));
                cuLaunchKernelEx_ptsz(config: *const LaunchConfig, function: Handle, parameters: Pointer, extra: Pointer) on configured(config, own), Work::Kernel(function.addr(), grid(config));
                cuLaunchCooperativeKernel(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer) on stream(stream_), Work::Kernel(function.addr(), [grid_x, grid_y, grid_z]);
                cuLaunchCooperativeKernel_ptsz(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream_: Handle, parameters: Pointer) on own(stream_), Work::Kernel(function.addr(), [grid_x, grid_y, grid_z]);

                cuGraphLaunch(graph: Handle, stream_: Handle) on stream(stream_), Work::Graph(graph.addr());
                cuGraphLaunch_ptsz(graph: Handle, stream_: Handle) on own(stream_), Work::Graph(graph.addr());

                cuMemcpyAsync(to: Address, from: Address, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyAsync_ptsz(to: Address, from: Address, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
                cuMemcpyHtoDAsync_v2(to: Address, from: Pointer, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyHtoDAsync_v2_ptsz(to: Address, from: Pointer, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
                cuMemcpyDtoHAsync_v2(to: Pointer, from: Address, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyDtoHAsync_v2_ptsz(to: Pointer, from: Address, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
                cuMemcpyDtoDAsync_v2(to: Address, from: Address, size: usize, stream_: Handle) on stream(stream_), Work::Copy(size);
                cuMemcpyDtoDAsync_v2_ptsz(to: Address, from: Address, size: usize, stream_: Handle) on own(stream_), Work::Copy(size);
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

                cuMemsetD8Async(to: Address, value: u8, count: usize, stream_: Handle) on stream(stream_), Work::Fill(count);
                cuMemsetD8Async_ptsz(to: Address, value: u8, count: usize, stream_: Handle) on own(stream_), Work::Fill(count);
                cuMemsetD16Async(to: Address, value: u16, count: usize, stream_: Handle) on stream(stream_), Work::Fill(count);
                cuMemsetD16Async_ptsz(to: Address, value: u16, count: usize, stream_: Handle) on own(stream_), Work::Fill(count);
                cuMemsetD32Async(to: Address, value: u32, count: usize, stream_: Handle) on stream(stream_), Work::Fill(count);
                cuMemsetD32Async_ptsz(to: Address, value: u32, count: usize, stream_: Handle) on own(stream_), Work::Fill(count);
                cuMemsetD2D8Async(to: Address, pitch: usize, value: u8, width: usize, height: usize, stream_: Handle) on stream(stream_), Work::Fill(width.saturating_mul(height));
                cuMemsetD2D8Async_ptsz(to: Address, pitch: usize, value: u8, width: usize, height: usize, stream_: Handle) on own(stream_), Work::Fill(width.saturating_mul(height));
                cuMemsetD2D16Async(to: Address, pitch: usize, value: u16, width: usize, height: usize, stream_: Handle) on stream(stream_), Work::Fill(width.saturating_mul(height));
                cuMemsetD2D16Async_ptsz(to: Address, pitch: usize, value: u16, width: usize, height: usize, stream_: Handle) on own(stream_), Work::Fill(width.saturating_mul(height));
                cuMemsetD2D32Async(to: Address, pitch: usize, value: u32, width: usize, height: usize, stream_: Handle) on stream(stream_), Work::Fill(width.saturating_mul(height));
                cuMemsetD2D32Async_ptsz(to: Address, pitch: usize, value: u32, width: usize, height: usize, stream_: Handle) on own(stream_), Work::Fill(width.saturating_mul(height));
                cuMemsetD8_v2(to: Address, value: u8, count: usize) on Named::Legacy, Work::Fill(count);
                cuMemsetD8_v2_ptds(to: Address, value: u8, count: usize) on Named::PerThread, Work::Fill(count);
                cuMemsetD16_v2(to: Address, value: u16, count: usize) on Named::Legacy, Work::Fill(count);
                cuMemsetD16_v2_ptds(to: Address, value: u16, count: usize) on Named::PerThread, Work::Fill(count);
                cuMemsetD32_v2(to: Address, value: u32, count: usize) on Named::Legacy, Work::Fill(count);
                cuMemsetD32_v2_ptds(to: Address, value: u32, count: usize) on Named::PerThread, Work::Fill(count);
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
            gives {
                cuGetProcAddress(symbol: *const c_char, out: *mut Pointer, version: i32, flags: u64) on out, ();
                cuGetProcAddress_v2(symbol: *const c_char, out: *mut Pointer, version: i32, flags: u64, status: Pointer) on out, ();
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
        }
    };
}
pub(crate) use for_each_function;

macro_rules! define_ids {
    ($($class:ident { $($name:ident($($argument:ident: $type:ty),*) on $stream:expr, $work:expr;)* })*) => {
        /// A function of the list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(non_camel_case_types, reason = "CUDA's names")]
        #[repr(usize)]
        pub(crate) enum Id {
            $($(
                /// The function of this name.
                $name,
            )*)*
        }

        /// Names in the order of the list, each terminated.
        pub(crate) const NAMES: &[&std::ffi::CStr] = &[$($(
            // No name of the list has a zero.
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
        )*)*];
    };
}
for_each_function!(define_ids);

/// How many functions the list has.
pub(crate) const COUNT: usize = NAMES.len();
