//! Executable graphs: copies of graphs whose shape is fixed but whose nodes may get new parameters.

use core::ffi::c_char;
use core::ptr;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::object::{Graph, Node, address, node_handle, resolve, resolve_node};
use super::plan::{Lane, Plan};
use crate::abi::{
    hipError_t, hipGraph_t, hipGraphExec_t, hipGraphExecUpdateResult, hipGraphInstantiateParams,
    hipGraphNode_t, hipStream_t, node_type,
};
use crate::boundary::{self, write};
use crate::engine::Completion;
use crate::error::HipError;
use crate::handles::Handles;
use crate::operation::Operation;
use crate::runtime::table;
use crate::{capture, config, stream};

const FLAG_AUTO_FREE: u64 = 1;
const FLAG_UPLOAD: u64 = 2;
const FLAG_DEVICE_LAUNCH: u64 = 4;
const FLAG_NODE_PRIORITY: u64 = 8;

const RESULT_SUCCESS: u32 = 0;
const RESULT_ERROR: u32 = 1;

/// `hipGraphExecUpdateResult`
const UPDATE_SUCCESS: u32 = 0;
const UPDATE_TOPOLOGY_CHANGED: u32 = 2;
const UPDATE_NODE_TYPE_CHANGED: u32 = 3;
const UPDATE_PARAMETERS_CHANGED: u32 = 5;

table! {
    /// All executables.
    listed: Handles<Executable> = Handles::default()
}

/// An instantiated graph.
pub(crate) struct Executable {
    graph: Arc<Graph>,
    plan: Plan,
    /// The nodes by the addresses of their originals. The originals are kept, so that no other node gets the
    /// same address.
    by_source: HashMap<usize, (Arc<Node>, Arc<Node>)>,
    flags: u64,
    /// Completion of the latest launch, because launches of one executable do not overlap.
    last: Mutex<Option<Arc<Completion>>>,
}

impl Executable {
    fn new(graph: &Arc<Graph>, flags: u64) -> Result<Arc<Self>, HipError> {
        let copied = graph.copy(false);
        let plan = Plan::new(&copied).ok_or(HipError::InvalidValue)?;
        let mut by_source = HashMap::new();
        collect(&plan, &mut by_source);
        Ok(Arc::new(Self { graph: copied, plan, by_source, flags, last: Mutex::default() }))
    }

    /// The node that was copied from `source`.
    fn node(&self, source: &Arc<Node>) -> Result<&Arc<Node>, HipError> {
        self.by_source.get(&address(source)).map(|(_, own)| own).ok_or(HipError::InvalidValue)
    }
}

fn collect(plan: &Plan, by_source: &mut HashMap<usize, (Arc<Node>, Arc<Node>)>) {
    for node in plan.nodes() {
        if let Some(source) = node.source.as_ref().and_then(std::sync::Weak::upgrade) {
            by_source.insert(address(&source), (source, Arc::clone(node)));
        }
    }
    for child in plan.children() {
        collect(child, by_source);
    }
}

/// The executable for a handle.
fn resolve_exec(exec: hipGraphExec_t) -> Result<Arc<Executable>, HipError> {
    listed().get(exec).ok_or(HipError::InvalidValue)
}

/// An executable's node, by its original.
pub(super) fn resolve_exec_node(exec: hipGraphExec_t, node: hipGraphNode_t) -> Result<Arc<Node>, HipError> {
    let exec = resolve_exec(exec)?;
    exec.node(&resolve_node(node)?).cloned()
}

fn instantiated(out: *mut hipGraphExec_t, graph: hipGraph_t, flags: u64) -> Result<(), HipError> {
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let exec = Executable::new(&resolve(graph)?, flags)?;
    // SAFETY: the caller passes null or a writable out-parameter.
    unsafe { write(out, listed().insert(&exec)) }
}

/// `hipGraphInstantiate`: writes neither the error node nor the log, as in the genuine runtime.
pub(crate) unsafe extern "C" fn instantiate(
    exec: *mut hipGraphExec_t,
    graph: hipGraph_t,
    _error_node: *mut hipGraphNode_t,
    _log: *mut c_char,
    _log_size: usize,
) -> hipError_t {
    boundary::call(|| instantiated(exec, graph, 0))
}

/// `hipGraphInstantiateWithFlags`
pub(crate) unsafe extern "C" fn instantiate_with_flags(
    exec: *mut hipGraphExec_t,
    graph: hipGraph_t,
    flags: u64,
) -> hipError_t {
    boundary::call(|| {
        if !matches!(flags, 0 | FLAG_AUTO_FREE | FLAG_NODE_PRIORITY) {
            return Err(HipError::InvalidValue);
        }
        instantiated(exec, graph, flags)
    })
}

/// `hipGraphInstantiateWithParams`
pub(crate) unsafe extern "C" fn instantiate_with_params(
    exec: *mut hipGraphExec_t,
    graph: hipGraph_t,
    params: *mut hipGraphInstantiateParams,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or a valid structure.
        let params = unsafe { params.as_mut() }.ok_or(HipError::InvalidValue)?;
        params.result_out = RESULT_ERROR;
        let known = [0, FLAG_AUTO_FREE, FLAG_UPLOAD, FLAG_DEVICE_LAUNCH, FLAG_NODE_PRIORITY];
        if !known.contains(&params.flags) {
            return Err(HipError::InvalidValue);
        }
        instantiated(exec, graph, params.flags)?;
        params.result_out = RESULT_SUCCESS;
        params.errNode_out = ptr::null_mut();
        Ok(())
    })
}

/// `hipGraphExecDestroy`: a launch in progress continues.
pub(crate) unsafe extern "C" fn destroy(exec: hipGraphExec_t) -> hipError_t {
    boundary::call(|| {
        let exec = listed().remove(exec).ok_or(HipError::InvalidValue)?;
        let last = exec.last.lock().expect("no holder panics").take();
        if let Some(last) = last {
            // Its queues are destroyed with it.
            last.wait();
        }
        Ok(())
    })
}

/// `hipGraphExecGetFlags`
pub(crate) unsafe extern "C" fn flags(exec: hipGraphExec_t, flags: *mut u64) -> hipError_t {
    boundary::call(|| {
        let exec = resolve_exec(exec)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(flags, exec.flags) }
    })
}

/// `hipGraphLaunch`: in the stream's order; no other work of the stream runs in between.
pub(crate) unsafe extern "C" fn launch(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        let exec = resolve_exec(exec)?;
        let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        if stream.is_captured()? {
            return capture::add(&stream, Operation::Graph(exec.graph.copy(true)));
        }
        if config::get().null {
            return Ok(());
        }
        let mut last = exec.last.lock().expect("no holder panics");
        let earlier = last.take().filter(|completion| completion.poll().is_none());
        let guard = stream.lock_submission();
        *last = Some(exec.plan.run(&Lane::Stream(&guard), earlier.into_iter().collect()));
        Ok(())
    })
}

/// `hipGraphLaunch_spt`
pub(crate) unsafe extern "C" fn launch_spt(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { launch(exec, stream::or_per_thread(stream)) }
}

/// `hipGraphUpload`: does nothing, because there is nothing to upload.
pub(crate) unsafe extern "C" fn upload(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t {
    boundary::call(|| {
        resolve_exec(exec)?;
        stream::resolve(stream).map(drop).ok_or(HipError::ContextIsDestroyed)
    })
}

/// `hipGraphNodeSetEnabled`: only for kernels, copies and fills.
pub(crate) unsafe extern "C" fn set_enabled(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    is_enabled: u32,
) -> hipError_t {
    boundary::call(|| {
        let node = resolve_exec_node(exec, node)?;
        check_can_be_disabled(&node)?;
        node.is_enabled.store(is_enabled != 0, core::sync::atomic::Ordering::Relaxed);
        Ok(())
    })
}

/// `hipGraphNodeGetEnabled`
pub(crate) unsafe extern "C" fn is_enabled(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    out: *mut u32,
) -> hipError_t {
    boundary::call(|| {
        let node = resolve_exec_node(exec, node)?;
        check_can_be_disabled(&node)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, u32::from(node.is_enabled())) }
    })
}

fn check_can_be_disabled(node: &Node) -> Result<(), HipError> {
    match node.operation().node_type() {
        node_type::KERNEL | node_type::MEMCPY | node_type::MEMSET => Ok(()),
        _ => Err(HipError::InvalidValue),
    }
}

/// Why an executable cannot be updated from a graph, and the graph's node that caused it.
struct Mismatch {
    result: u32,
    node: hipGraphNode_t,
}

impl Executable {
    /// Takes the parameters of a graph of the same shape. As in the genuine runtime, nodes before the
    /// mismatch are already updated.
    fn update(&self, graph: &Graph) -> Result<(), Mismatch> {
        let new = Plan::new(graph);
        let new = new.filter(|new| new.nodes().count() == self.plan.nodes().count());
        let new = new.ok_or(Mismatch { result: UPDATE_TOPOLOGY_CHANGED, node: ptr::null_mut() })?;
        let (own_edges, new_edges) = (edge_counts(&self.graph), edge_counts(graph));
        for (own, new) in self.plan.nodes().zip(new.nodes()) {
            let mismatch = |result| Mismatch { result, node: node_handle(new) };
            let (old_operation, new_operation) = (own.operation(), new.operation());
            if old_operation.node_type() != new_operation.node_type() {
                return Err(mismatch(UPDATE_NODE_TYPE_CHANGED));
            }
            if own_edges.get(&address(own)) != new_edges.get(&address(new)) {
                return Err(mismatch(UPDATE_TOPOLOGY_CHANGED));
            }
            match (old_operation, new_operation) {
                (Operation::Copy(old), Operation::Copy(new)) if old.kind != new.kind => {
                    return Err(mismatch(UPDATE_PARAMETERS_CHANGED));
                }
                (Operation::Graph(own), Operation::Graph(new)) => {
                    take_child(&own, &new).map_err(|_| mismatch(UPDATE_TOPOLOGY_CHANGED))?;
                }
                _ => own.copy_operation(new),
            }
        }
        Ok(())
    }
}

/// Number of dependencies of each node.
fn edge_counts(graph: &Graph) -> HashMap<usize, usize> {
    let mut counts = HashMap::new();
    for (_, to) in &graph.lock().edges {
        *counts.entry(address(to)).or_default() += 1;
    }
    counts
}

/// Updates the nodes of an executable's child graph with the parameters of another graph.
pub(super) fn take_child(own: &Graph, new: &Graph) -> Result<(), HipError> {
    let (own, new) = (own.in_order(), new.in_order());
    let (own, new) = own.zip(new).ok_or(HipError::Unknown)?;
    let alike =
        |(own, new): (&Arc<Node>, &Arc<Node>)| own.operation().node_type() == new.operation().node_type();
    if own.len() != new.len() || !own.iter().zip(&new).all(alike) {
        return Err(HipError::Unknown);
    }
    for (own, new) in own.iter().zip(&new) {
        match (own.operation(), new.operation()) {
            (Operation::Graph(own), Operation::Graph(new)) => take_child(&own, &new)?,
            _ => own.copy_operation(new),
        }
    }
    Ok(())
}

/// `hipGraphExecUpdate`
pub(crate) unsafe extern "C" fn update(
    exec: hipGraphExec_t,
    graph: hipGraph_t,
    error_node: *mut hipGraphNode_t,
    result: *mut hipGraphExecUpdateResult,
) -> hipError_t {
    boundary::call(|| {
        let (exec, graph) = (resolve_exec(exec)?, resolve(graph)?);
        if error_node.is_null() || result.is_null() {
            return Err(HipError::InvalidValue);
        }
        let mismatch = exec.update(&graph).err();
        // SAFETY: the caller passes writable out-parameters, which are not null.
        unsafe {
            result.write(mismatch.as_ref().map_or(UPDATE_SUCCESS, |m| m.result));
            if let Some(mismatch) = &mismatch {
                error_node.write(mismatch.node);
            }
        }
        if mismatch.is_some() { Err(HipError::GraphExecUpdateFailure) } else { Ok(()) }
    })
}
