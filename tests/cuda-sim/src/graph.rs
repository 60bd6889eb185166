//! Graphs: captured or built of kernels and child graphs, instantiated, changed.

use core::ffi::{c_char, c_void};
use core::ptr;

use crate::context::enter;
use crate::export::exports;
use crate::hip::{self, HipKernelNode};
use crate::module::function_of;
use crate::result::{CUresult, Handle, INVALID_HANDLE, INVALID_VALUE, of_hip, write};

/// `CUDA_KERNEL_NODE_PARAMS_v1`
#[repr(C)]
pub(crate) struct FirstKernelNode {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`, and the third version, which is the same.
#[repr(C)]
pub(crate) struct KernelNode {
    first: FirstKernelNode,
    kernel: Handle,
    context: Handle,
}

/// `CUgraphNodeParams`
#[repr(C)]
pub(crate) struct NodeParameters {
    kind: u32,
    reserved: [u32; 3],
    parameters: [usize; 30],
}

const _: () = assert!(size_of::<KernelNode>() == 72 && size_of::<NodeParameters>() == 256);

/// `CUgraphExecUpdateResultInfo`: the result, and the two nodes of an error.
#[repr(C)]
pub(crate) struct UpdateResult {
    result: u32,
    padding: u32,
    nodes: [Handle; 2],
}

/// What HIP takes for a kernel node. A node of a library's kernel has that instead of a function.
fn of_hips(node: &FirstKernelNode, kernel: Handle) -> Result<HipKernelNode, CUresult> {
    let FirstKernelNode { function, grid, block, shared, parameters, extra } = *node;
    let launched = if function.is_null() { kernel } else { function };
    let function = function_of(launched).ok_or(INVALID_HANDLE)?;
    if !extra.is_null() {
        return Err(INVALID_VALUE);
    }
    Ok(HipKernelNode { block, extra, function, grid, parameters, shared })
}

/// # Safety
///
/// `node` is null or valid.
unsafe fn of_first(node: *const FirstKernelNode) -> Result<HipKernelNode, CUresult> {
    // SAFETY: the caller upholds this function's contract.
    of_hips(unsafe { node.as_ref() }.ok_or(INVALID_VALUE)?, ptr::null_mut())
}

/// # Safety
///
/// `node` is null or valid.
unsafe fn of_second(node: *const KernelNode) -> Result<HipKernelNode, CUresult> {
    // SAFETY: the caller upholds this function's contract.
    let node = unsafe { node.as_ref() }.ok_or(INVALID_VALUE)?;
    of_hips(&node.first, node.kernel)
}

fn kernel_of(node: Handle) -> Result<FirstKernelNode, CUresult> {
    let mut found = HipKernelNode::default();
    // SAFETY: a local out-parameter.
    of_hip(unsafe { hip::hipGraphKernelNodeGetParams(node, &raw mut found) })?;
    let HipKernelNode { block, extra, function, grid, parameters, shared } = found;
    Ok(FirstKernelNode { function, grid, block, shared, parameters, extra })
}

exports! {
    @10000 cuGraphCreate(graph: *mut Handle, flags: u32) { enter()?; of_hip(hip::hipGraphCreate(graph, flags)) }
    @10000 cuGraphDestroy(graph: Handle) { of_hip(hip::hipGraphDestroy(graph)) }
    @10000 cuGraphAddEmptyNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize) {
        of_hip(hip::hipGraphAddEmptyNode(node, graph, dependencies, count))
    }
    @10000 cuGraphAddKernelNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, with: *const FirstKernelNode,
    ) {
        let with = of_first(with)?;
        of_hip(hip::hipGraphAddKernelNode(node, graph, dependencies, count, &raw const with))
    }
    @12000 cuGraphAddKernelNode_v2(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, with: *const KernelNode,
    ) {
        let with = of_second(with)?;
        of_hip(hip::hipGraphAddKernelNode(node, graph, dependencies, count, &raw const with))
    }
    @10000 cuGraphAddChildGraphNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, child: Handle,
    ) {
        of_hip(hip::hipGraphAddChildGraphNode(node, graph, dependencies, count, child))
    }
    @10000 cuGraphNodeGetType(node: Handle, kind: *mut u32) { of_hip(hip::hipGraphNodeGetType(node, kind)) }
    @10000 cuGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) {
        of_hip(hip::hipGraphChildGraphNodeGetGraph(node, graph))
    }
    @10000 cuGraphKernelNodeGetParams(node: Handle, out: *mut FirstKernelNode) { write(out, kernel_of(node)?) }
    @12000 cuGraphKernelNodeGetParams_v2(node: Handle, out: *mut KernelNode) {
        let first = kernel_of(node)?;
        write(out, KernelNode { first, kernel: ptr::null_mut(), context: ptr::null_mut() })
    }
    @10000 cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        of_hip(hip::hipGraphGetNodes(graph, nodes, count))
    }
    @11000 cuGraphInstantiate_v2(
        executable: *mut Handle, graph: Handle, _node: *mut Handle, _log: *mut c_char, _len: usize,
    ) {
        enter()?;
        of_hip(hip::hipGraphInstantiateWithFlags(executable, graph, 0))
    }
    @11040 cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) {
        enter()?;
        of_hip(hip::hipGraphInstantiateWithFlags(executable, graph, flags))
    }
    @10000 [stream: cuGraphLaunch_ptsz] cuGraphLaunch(executable: Handle, stream: Handle) {
        enter()?;
        of_hip(hip::hipGraphLaunch(executable, stream))
    }
    @11010 [stream: cuGraphUpload_ptsz] cuGraphUpload(executable: Handle, stream: Handle) {
        enter()?;
        of_hip(hip::hipGraphUpload(executable, stream))
    }
    @10010 cuGraphExecKernelNodeSetParams(executable: Handle, node: Handle, with: *const FirstKernelNode) {
        let with = of_first(with)?;
        of_hip(hip::hipGraphExecKernelNodeSetParams(executable, node, &raw const with))
    }
    @12000 cuGraphExecKernelNodeSetParams_v2(executable: Handle, node: Handle, with: *const KernelNode) {
        let with = of_second(with)?;
        of_hip(hip::hipGraphExecKernelNodeSetParams(executable, node, &raw const with))
    }
    @11010 cuGraphExecChildGraphNodeSetParams(executable: Handle, node: Handle, child: Handle) {
        of_hip(hip::hipGraphExecChildGraphNodeSetParams(executable, node, child))
    }
    @12020 cuGraphExecNodeSetParams(executable: Handle, node: Handle, with: *mut NodeParameters) {
        let with = with.as_ref().ok_or(INVALID_VALUE)?;
        match with.kind {
            0 => {
                let with = of_second(with.parameters.as_ptr().cast())?;
                of_hip(hip::hipGraphExecKernelNodeSetParams(executable, node, &raw const with))
            }
            4 => {
                let child = ptr::with_exposed_provenance_mut(with.parameters[0]);
                of_hip(hip::hipGraphExecChildGraphNodeSetParams(executable, node, child))
            }
            _ => Err(INVALID_VALUE),
        }
    }
    @12000 cuGraphExecUpdate_v2(executable: Handle, graph: Handle, result: *mut UpdateResult) {
        let result = result.as_mut().ok_or(INVALID_VALUE)?;
        of_hip(hip::hipGraphExecUpdate(executable, graph, &raw mut result.nodes[0], &raw mut result.result))
    }
    @10000 cuGraphExecDestroy(executable: Handle) { of_hip(hip::hipGraphExecDestroy(executable)) }
}
