//! Graph functions: creation, copies, destruction, edges, lists of nodes and edges.

use core::ptr;
use std::sync::{Arc, Weak};

use super::object::{
    Edge, Graph, Node, create_registered, handle, listed_nodes, node_handle, resolve, resolve_node,
    resolve_nodes,
};
use crate::abi::{hipError_t, hipGraph_t, hipGraphNode_t, hipGraphNodeType};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::operation::Operation;

/// `hipGraphCreate`
pub(crate) unsafe extern "C" fn create(graph: *mut hipGraph_t, flags: u32) -> hipError_t {
    boundary::call(|| {
        if graph.is_null() || flags != 0 {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(graph, handle(&create_registered())) }
    })
}

/// `hipGraphDestroy`
pub(crate) unsafe extern "C" fn destroy(graph: hipGraph_t) -> hipError_t {
    boundary::call(|| {
        resolve(graph)?.unregister();
        Ok(())
    })
}

/// `hipGraphClone`
pub(crate) unsafe extern "C" fn clone(out: *mut hipGraph_t, graph: hipGraph_t) -> hipError_t {
    boundary::call(|| {
        if out.is_null() {
            return Err(HipError::InvalidValue);
        }
        let copied = resolve(graph)?.copy(true);
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, handle(&copied)) }
    })
}

/// `hipGraphNodeFindInClone`
pub(crate) unsafe extern "C" fn find_in_clone(
    out: *mut hipGraphNode_t,
    node: hipGraphNode_t,
    graph: hipGraph_t,
) -> hipError_t {
    boundary::call(|| {
        let (node, graph) = (resolve_node(node)?, resolve(graph)?);
        let state = graph.lock();
        let duplicate = state.nodes.iter().find(|n| n.is_copy_of(&node)).ok_or(HipError::InvalidValue)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, node_handle(duplicate)) }
    })
}

/// `hipGraphDestroyNode`
pub(crate) unsafe extern "C" fn destroy_node(node: hipGraphNode_t) -> hipError_t {
    boundary::call(|| {
        let node = resolve_node(node)?;
        if matches!(node.operation(), Operation::Allocate(_) | Operation::Free(_)) {
            return Err(HipError::NotSupported);
        }
        if let Some(graph) = node.graph.upgrade() {
            graph.lock().remove(&node);
        }
        if let Operation::Graph(child) = node.operation() {
            child.unregister();
        }
        listed_nodes().remove(Arc::as_ptr(&node).cast());
        Ok(())
    })
}

/// Pairs of different nodes of one graph.
///
/// # Safety
///
/// Both arrays are null or have `count` elements.
unsafe fn pairs(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> Result<(Arc<Graph>, Vec<Edge>), HipError> {
    let graph = resolve(graph)?;
    // SAFETY: the caller upholds this function's contract.
    let (from, to) = unsafe { (resolve_nodes(&graph, from, count)?, resolve_nodes(&graph, to, count)?) };
    let pairs: Vec<_> = from.into_iter().zip(to).collect();
    if pairs.iter().any(|(from, to)| Arc::ptr_eq(from, to)) {
        return Err(HipError::InvalidValue);
    }
    Ok((graph, pairs))
}

/// `hipGraphAddDependencies`: an edge that exists already is an error; the edges before it stay.
pub(crate) unsafe extern "C" fn add_dependencies(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller upholds this function's contract.
        let (graph, pairs) = unsafe { pairs(graph, from, to, count) }?;
        let mut state = graph.lock();
        let all_new = pairs.iter().all(|(from, to)| state.connect(from, to));
        if all_new { Ok(()) } else { Err(HipError::InvalidValue) }
    })
}

/// `hipGraphRemoveDependencies`
pub(crate) unsafe extern "C" fn remove_dependencies(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller upholds this function's contract.
        let (graph, pairs) = unsafe { pairs(graph, from, to, count) }?;
        let mut state = graph.lock();
        let all_there = pairs.iter().all(|(from, to)| state.disconnect(from, to));
        if all_there { Ok(()) } else { Err(HipError::InvalidValue) }
    })
}

/// Returns a list in HIP's way: without an array only its length, otherwise as many entries as fit, padded
/// with null.
///
/// # Safety
///
/// `out` is null or has `*count` elements.
unsafe fn list(
    found: &[hipGraphNode_t],
    out: *mut hipGraphNode_t,
    count: *mut usize,
) -> Result<(), HipError> {
    // SAFETY: the caller passes null or a valid in- and out-parameter.
    let count = unsafe { count.as_mut() }.ok_or(HipError::InvalidValue)?;
    if out.is_null() {
        *count = found.len();
        return Ok(());
    }
    for index in 0..*count {
        // SAFETY: inside the array, as the caller guarantees.
        unsafe { out.add(index).write(found.get(index).copied().unwrap_or(ptr::null_mut())) };
    }
    *count = (*count).min(found.len());
    Ok(())
}

/// `hipGraphGetNodes`: in a valid execution order.
pub(crate) unsafe extern "C" fn nodes(
    graph: hipGraph_t,
    out: *mut hipGraphNode_t,
    count: *mut usize,
) -> hipError_t {
    boundary::call(|| {
        let order = resolve(graph)?.in_order().ok_or(HipError::InvalidValue)?;
        let found: Vec<_> = order.iter().map(node_handle).collect();
        // SAFETY: the caller upholds this function's contract.
        unsafe { list(&found, out, count) }
    })
}

/// `hipGraphGetRootNodes`
pub(crate) unsafe extern "C" fn roots(
    graph: hipGraph_t,
    out: *mut hipGraphNode_t,
    count: *mut usize,
) -> hipError_t {
    boundary::call(|| {
        let graph = resolve(graph)?;
        let state = graph.lock();
        let is_root = |node: &&Arc<Node>| !state.edges.iter().any(|(_, to)| Arc::ptr_eq(to, node));
        let found: Vec<_> = state.nodes.iter().filter(is_root).map(node_handle).collect();
        // SAFETY: the caller upholds this function's contract.
        unsafe { list(&found, out, count) }
    })
}

/// `hipGraphGetEdges`
pub(crate) unsafe extern "C" fn edges(
    graph: hipGraph_t,
    from: *mut hipGraphNode_t,
    to: *mut hipGraphNode_t,
    count: *mut usize,
) -> hipError_t {
    boundary::call(|| {
        let graph = resolve(graph)?;
        if from.is_null() != to.is_null() || count.is_null() {
            return Err(HipError::InvalidValue);
        }
        let state = graph.lock();
        let (sources, targets): (Vec<_>, Vec<_>) =
            state.edges.iter().map(|(from, to)| (node_handle(from), node_handle(to))).unzip();
        // SAFETY: the caller upholds this function's contract. The count is saved, so that the second list
        // gets the caller's value too.
        unsafe {
            let mut asked = *count;
            list(&sources, from, &raw mut asked)?;
            list(&targets, to, count)
        }
    })
}

/// The neighbours of a node on one side: its dependencies or its dependents.
fn neighbours(node: hipGraphNode_t, are_dependents: bool) -> Result<Vec<hipGraphNode_t>, HipError> {
    let node = resolve_node(node)?;
    let graph = node.graph.upgrade().ok_or(HipError::InvalidValue)?;
    let state = graph.lock();
    let other = |(from, to): &(Arc<Node>, Arc<Node>)| {
        let (own, other) = if are_dependents { (from, to) } else { (to, from) };
        Arc::ptr_eq(own, &node).then(|| node_handle(other))
    };
    Ok(state.edges.iter().filter_map(other).collect())
}

/// `hipGraphNodeGetDependencies`
pub(crate) unsafe extern "C" fn dependencies(
    node: hipGraphNode_t,
    out: *mut hipGraphNode_t,
    count: *mut usize,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { list(&neighbours(node, false)?, out, count) })
}

/// `hipGraphNodeGetDependentNodes`
pub(crate) unsafe extern "C" fn dependents(
    node: hipGraphNode_t,
    out: *mut hipGraphNode_t,
    count: *mut usize,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    boundary::call(|| unsafe { list(&neighbours(node, true)?, out, count) })
}

/// `hipGraphNodeGetType`
pub(crate) unsafe extern "C" fn node_type(node: hipGraphNode_t, out: *mut hipGraphNodeType) -> hipError_t {
    boundary::call(|| {
        let node = resolve_node(node)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, node.operation().node_type()) }
    })
}

/// `hipGraphChildGraphNodeGetGraph`
pub(crate) unsafe extern "C" fn child_graph(node: hipGraphNode_t, out: *mut hipGraph_t) -> hipError_t {
    boundary::call(|| match resolve_node(node)?.operation() {
        // SAFETY: the caller passes null or a writable out-parameter.
        Operation::Graph(graph) => unsafe { write(out, handle(&graph)) },
        _ => Err(HipError::InvalidValue),
    })
}

/// Whether `node` belongs to `graph`.
pub(super) fn is_in(node: &Node, graph: &Arc<Graph>) -> bool {
    Weak::as_ptr(&node.graph) == Arc::as_ptr(graph)
}
