//! Graphs: built or captured, instantiated, changed. The launches of graphs are in `launch.rs`.

use super::row::{field, flags, param, pointer, stream};
use crate::probe::Category::Graph;
use crate::probe::{Param, ParamKind, Probe};

pub(super) const GRAPH: &[Param] = &[pointer("graph", 0)];
/// Where a node is returned, graph, dependencies, their number.
pub(super) const ADD: &[Param] = &[pointer("graph", 1)];
pub(super) const INSTANTIATE: &[Param] = &[pointer("graph", 1)];
pub(super) const BEGIN_CAPTURE: &[Param] = &[stream(0), param("mode", ParamKind::U32, 1)];
pub(super) const CHANGE: &[Param] = &[pointer("executable", 0), pointer("node", 1)];

/// Stream, graph, dependencies, their edges, their number, mode.
pub(super) const BEGIN_CAPTURE_TO_GRAPH: &[Param] =
    &[stream(0), pointer("graph", 1), param("mode", ParamKind::U32, 5)];
pub(super) const UPDATE: &[Param] = &[pointer("executable", 0), pointer("graph", 1)];
pub(super) const SET_ENABLED: &[Param] =
    &[pointer("executable", 0), pointer("node", 1), param("enabled", ParamKind::U32, 2)];

/// Of the 64 bytes of `hipKernelNodeParams`: function at 24, grid at 32, shared memory at 56.
const KERNEL_TAIL: u16 = 24;
const ADD_KERNEL: &[Param] = &[
    pointer("graph", 1),
    field("kernel", ParamKind::Kernel, 0),
    field("grid", ParamKind::Dim3, 8),
    field("shared_bytes", ParamKind::U32, 32),
];
const CHANGE_KERNEL: &[Param] = &[
    pointer("executable", 0),
    pointer("node", 1),
    field("kernel", ParamKind::Kernel, 0),
    field("grid", ParamKind::Dim3, 8),
    field("shared_bytes", ParamKind::U32, 32),
];

pub(super) const PROBES: &[Probe] = &[
    Probe::new("hipGraphCreate", Graph, &[]).out(0),
    Probe::new("hipGraphClone", Graph, ADD).out(0),
    Probe::new("hipGraphDestroy", Graph, GRAPH),
    Probe::new("hipGraphInstantiate", Graph, INSTANTIATE).out(0),
    Probe::new("hipGraphInstantiateWithFlags", Graph, INSTANTIATE).out(0),
    Probe::new("hipGraphInstantiateWithParams", Graph, INSTANTIATE).out(0),
    Probe::new("hipGraphExecUpdate", Graph, UPDATE),
    Probe::new("hipGraphExecDestroy", Graph, &[pointer("executable", 0)]),
    Probe::new("hipGraphUpload", Graph, &[pointer("executable", 0), stream(1)]),
    // Capture.
    Probe::new("hipStreamBeginCapture", Graph, BEGIN_CAPTURE),
    Probe::new("hipStreamBeginCapture_spt", Graph, BEGIN_CAPTURE),
    Probe::new("hipStreamBeginCaptureToGraph", Graph, BEGIN_CAPTURE_TO_GRAPH),
    Probe::new("hipStreamEndCapture", Graph, &[stream(0)]).out(1),
    Probe::new("hipStreamEndCapture_spt", Graph, &[stream(0)]).out(1),
    Probe::new("hipStreamUpdateCaptureDependencies", Graph, &[stream(0), flags(3)]),
    // Nodes.
    Probe::new("hipGraphAddKernelNode", Graph, ADD_KERNEL).pointee(4, KERNEL_TAIL).out(0),
    // `hipGraphNodeParams` begins with the node's type.
    Probe::new("hipGraphAddNode", Graph, &[pointer("graph", 1), field("type", ParamKind::U32, 0)])
        .pointee(4, 0)
        .out(0),
    Probe::new("hipGraphAddChildGraphNode", Graph, &[pointer("graph", 1), pointer("child", 4)]).out(0),
    Probe::new("hipGraphAddEmptyNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddEventRecordNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddEventWaitNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddHostNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddMemAllocNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddMemFreeNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddMemcpyNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddMemcpyNode1D", Graph, ADD).out(0),
    Probe::new("hipGraphAddMemcpyNodeFromSymbol", Graph, ADD).out(0),
    Probe::new("hipGraphAddMemcpyNodeToSymbol", Graph, ADD).out(0),
    Probe::new("hipGraphAddMemsetNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddBatchMemOpNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddExternalSemaphoresWaitNode", Graph, ADD).out(0),
    Probe::new("hipGraphAddExternalSemaphoresSignalNode", Graph, ADD).out(0),
    Probe::new("hipDrvGraphAddMemcpyNode", Graph, ADD).out(0),
    Probe::new("hipDrvGraphAddMemsetNode", Graph, ADD).out(0),
    Probe::new("hipDrvGraphAddMemFreeNode", Graph, ADD).out(0),
    Probe::new("hipGraphDestroyNode", Graph, &[pointer("node", 0)]),
    // Changes of executable graphs.
    Probe::new("hipGraphExecKernelNodeSetParams", Graph, CHANGE_KERNEL).pointee(2, KERNEL_TAIL),
    Probe::new("hipGraphExecChildGraphNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphExecEventRecordNodeSetEvent", Graph, CHANGE),
    Probe::new("hipGraphExecEventWaitNodeSetEvent", Graph, CHANGE),
    Probe::new("hipGraphExecHostNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphExecMemcpyNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphExecMemcpyNodeSetParams1D", Graph, CHANGE),
    Probe::new("hipGraphExecMemcpyNodeSetParamsFromSymbol", Graph, CHANGE),
    Probe::new("hipGraphExecMemcpyNodeSetParamsToSymbol", Graph, CHANGE),
    Probe::new("hipGraphExecMemsetNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphExecBatchMemOpNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphExecExternalSemaphoresSignalNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphExecExternalSemaphoresWaitNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphExecNodeSetParams", Graph, CHANGE),
    Probe::new("hipDrvGraphExecMemcpyNodeSetParams", Graph, CHANGE),
    Probe::new("hipDrvGraphExecMemsetNodeSetParams", Graph, CHANGE),
    Probe::new("hipGraphNodeSetEnabled", Graph, SET_ENABLED),
];
