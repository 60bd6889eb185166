//! Graphs: built or captured, instantiated, changed. The launches of graphs are in `launch.rs`.

use super::super::graph::{
    ADD, BEGIN_CAPTURE, BEGIN_CAPTURE_TO_GRAPH, CHANGE, GRAPH, INSTANTIATE, SET_ENABLED, UPDATE,
};
use super::super::row::{field, flags, pointer, stream};
use crate::probe::Category::Graph;
use crate::probe::{Param, ParamKind, Probe};

const UPLOAD: &[Param] = &[pointer("executable", 0), stream(1)];
const END_CAPTURE: &[Param] = &[stream(0)];
const UPDATE_DEPENDENCIES: &[Param] = &[stream(0), flags(3)];
const UPDATE_DEPENDENCIES_V2: &[Param] = &[stream(0), flags(4)];

/// `CUDA_KERNEL_NODE_PARAMS`: function 0, grid 8, block 20, shared memory 32.
const ADD_KERNEL: &[Param] = &[
    pointer("graph", 1),
    field("kernel", ParamKind::Kernel, 0),
    field("grid", ParamKind::Dim3, 8),
    field("block", ParamKind::Dim3, 20),
    field("shared_bytes", ParamKind::U32, 32),
];
const CHANGE_KERNEL: &[Param] = &[
    pointer("executable", 0),
    pointer("node", 1),
    field("kernel", ParamKind::Kernel, 0),
    field("grid", ParamKind::Dim3, 8),
    field("block", ParamKind::Dim3, 20),
    field("shared_bytes", ParamKind::U32, 32),
];
/// `CUgraphNodeParams` begins with the node's type.
const ADD_TYPE: &[Param] = &[pointer("graph", 1), field("type", ParamKind::U32, 0)];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("cuGraphCreate", Graph, &[]).out(0),
    Probe::new("cuGraphClone", Graph, ADD).out(0),
    Probe::new("cuGraphDestroy", Graph, GRAPH),
    Probe::new("cuGraphInstantiate", Graph, INSTANTIATE).out(0),
    Probe::new("cuGraphInstantiate_v2", Graph, INSTANTIATE).out(0),
    Probe::new("cuGraphInstantiateWithFlags", Graph, INSTANTIATE).out(0),
    Probe::new("cuGraphInstantiateWithParams", Graph, INSTANTIATE).out(0),
    Probe::new("cuGraphInstantiateWithParams_ptsz", Graph, INSTANTIATE).out(0),
    Probe::new("cuGraphExecUpdate", Graph, UPDATE),
    Probe::new("cuGraphExecUpdate_v2", Graph, UPDATE),
    Probe::new("cuGraphExecDestroy", Graph, &[pointer("executable", 0)]),
    Probe::new("cuGraphUpload", Graph, UPLOAD),
    Probe::new("cuGraphUpload_ptsz", Graph, UPLOAD),
    // Capture.
    Probe::new("cuStreamBeginCapture_v2", Graph, BEGIN_CAPTURE),
    Probe::new("cuStreamBeginCapture_v2_ptsz", Graph, BEGIN_CAPTURE),
    Probe::new("cuStreamBeginCaptureToGraph", Graph, BEGIN_CAPTURE_TO_GRAPH),
    Probe::new("cuStreamBeginCaptureToGraph_ptsz", Graph, BEGIN_CAPTURE_TO_GRAPH),
    Probe::new("cuStreamEndCapture", Graph, END_CAPTURE).out(1),
    Probe::new("cuStreamEndCapture_ptsz", Graph, END_CAPTURE).out(1),
    Probe::new("cuStreamUpdateCaptureDependencies", Graph, UPDATE_DEPENDENCIES),
    Probe::new("cuStreamUpdateCaptureDependencies_ptsz", Graph, UPDATE_DEPENDENCIES),
    Probe::new("cuStreamUpdateCaptureDependencies_v2", Graph, UPDATE_DEPENDENCIES_V2),
    Probe::new("cuStreamUpdateCaptureDependencies_v2_ptsz", Graph, UPDATE_DEPENDENCIES_V2),
    // Nodes.
    Probe::new("cuGraphAddKernelNode", Graph, ADD_KERNEL).pointee(4, 0).out(0),
    Probe::new("cuGraphAddKernelNode_v2", Graph, ADD_KERNEL).pointee(4, 0).out(0),
    Probe::new("cuGraphAddNode", Graph, ADD_TYPE).pointee(4, 0).out(0),
    Probe::new("cuGraphAddNode_v2", Graph, ADD_TYPE).pointee(5, 0).out(0),
    Probe::new("cuGraphAddChildGraphNode", Graph, &[pointer("graph", 1), pointer("child", 4)]).out(0),
    Probe::new("cuGraphAddEmptyNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddEventRecordNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddEventWaitNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddHostNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddMemAllocNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddMemFreeNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddMemcpyNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddMemsetNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddBatchMemOpNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddExternalSemaphoresWaitNode", Graph, ADD).out(0),
    Probe::new("cuGraphAddExternalSemaphoresSignalNode", Graph, ADD).out(0),
    Probe::new("cuGraphDestroyNode", Graph, &[pointer("node", 0)]),
    // Changes of executable graphs.
    Probe::new("cuGraphExecKernelNodeSetParams", Graph, CHANGE_KERNEL).pointee(2, 0),
    Probe::new("cuGraphExecKernelNodeSetParams_v2", Graph, CHANGE_KERNEL).pointee(2, 0),
    Probe::new("cuGraphExecChildGraphNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphExecEventRecordNodeSetEvent", Graph, CHANGE),
    Probe::new("cuGraphExecEventWaitNodeSetEvent", Graph, CHANGE),
    Probe::new("cuGraphExecHostNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphExecMemcpyNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphExecMemsetNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphExecBatchMemOpNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphExecExternalSemaphoresSignalNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphExecExternalSemaphoresWaitNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphExecNodeSetParams", Graph, CHANGE),
    Probe::new("cuGraphNodeSetEnabled", Graph, SET_ENABLED),
];
