//! Functions that add nodes. Parameters are checked as in the corresponding stream-ordered call.

use core::ffi::c_void;
use std::sync::Arc;

use super::object::{Graph, GraphMemory, Node, node_handle, owns_memory, resolve, resolve_nodes};
use super::parameters::{
    batch, box_copy, driver_copy, fill, kernel, linear_copy, symbol_source, symbol_target,
};
use crate::abi::{
    HIP_MEMCPY3D, hipBatchMemOpNodeParams, hipDeviceptr_t, hipError_t, hipEvent_t, hipGraph_t,
    hipGraphNode_t, hipGraphNodeParams, hipHostNodeParams, hipKernelNodeParams, hipMemAllocNodeParams,
    hipMemcpy3DParms, hipMemcpyKind, hipMemcpyNodeParams, hipMemsetParams, node_type,
};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::event;
use crate::operation::{HostCall, Operation};

/// The leading parameters of every function in this file: the graph and dependencies of a new node.
struct NewNode {
    out: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
}

impl NewNode {
    /// Adds the node. `operation` is called only after the other parameters were checked.
    ///
    /// # Safety
    ///
    /// `out` is null or an out-parameter, `dependencies` null or an array of `count` elements.
    unsafe fn add(
        self,
        operation: impl FnOnce(&Arc<Graph>) -> Result<Operation, HipError>,
    ) -> Result<Arc<Node>, HipError> {
        if self.out.is_null() {
            return Err(HipError::InvalidValue);
        }
        let graph = resolve(self.graph)?;
        // SAFETY: the caller upholds this function's contract.
        let dependencies = unsafe { resolve_nodes(&graph, self.dependencies, self.count) }?;
        let node = graph.add(operation(&graph)?, &dependencies);
        // SAFETY: the caller upholds this function's contract.
        unsafe { write(self.out, node_handle(&node))? };
        Ok(node)
    }
}

/// Defines functions that add a node: HIP's four leading parameters, then the node's own.
macro_rules! adders {
    ($($(#[$doc:meta])* $name:ident($($parameter:ident: $type:ty),*) => $operation:expr;)*) => {
        $($(#[$doc])*
        pub(crate) unsafe extern "C" fn $name(
            out: *mut hipGraphNode_t,
            graph: hipGraph_t,
            dependencies: *const hipGraphNode_t,
            count: usize,
            $($parameter: $type,)*
        ) -> hipError_t {
            boundary::call(|| {
                let new_node = NewNode { out, graph, dependencies, count };
                let operation = $operation;
                // SAFETY: the caller upholds this function's contract, which is HIP's.
                unsafe { new_node.add(operation) }.map(drop)
            })
        })*
    };
}

adders! {
    /// `hipGraphAddEmptyNode`
    add_empty() => |_: &Arc<Graph>| Ok(Operation::Empty);

    /// `hipGraphAddKernelNode`
    add_kernel(params: *const hipKernelNodeParams) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        unsafe { kernel(params) }
    };

    /// `hipGraphAddMemcpyNode`
    add_memcpy(params: *const hipMemcpy3DParms) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        unsafe { box_copy(params) }
    };

    /// `hipDrvGraphAddMemcpyNode`
    add_memcpy_driver(params: *const HIP_MEMCPY3D, _context: *mut c_void) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        unsafe { driver_copy(params) }
    };

    /// `hipGraphAddMemcpyNode1D`
    add_memcpy_1d(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind) => |_: &Arc<Graph>| {
        linear_copy(to, from, size, kind)
    };

    /// `hipGraphAddMemcpyNodeToSymbol`
    add_memcpy_to_symbol(
        symbol: *const c_void, from: *const c_void, size: usize, offset: usize, kind: hipMemcpyKind
    ) => |_: &Arc<Graph>| symbol_target(symbol, from, size, offset, kind);

    /// `hipGraphAddMemcpyNodeFromSymbol`
    add_memcpy_from_symbol(
        to: *mut c_void, symbol: *const c_void, size: usize, offset: usize, kind: hipMemcpyKind
    ) => |_: &Arc<Graph>| symbol_source(to, symbol, size, offset, kind);

    /// `hipGraphAddMemsetNode`
    add_memset(params: *const hipMemsetParams) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        unsafe { fill(params) }
    };

    /// `hipDrvGraphAddMemsetNode`
    add_memset_driver(params: *const hipMemsetParams, _context: *mut c_void) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        unsafe { fill(params) }
    };

    /// `hipGraphAddHostNode`
    add_host(params: *const hipHostNodeParams) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        let params = unsafe { params.as_ref() }.ok_or(HipError::InvalidValue)?;
        host(*params)
    };

    /// `hipGraphAddEventRecordNode`
    add_event_record(event: hipEvent_t) => |_: &Arc<Graph>| {
        event::resolve_optional(event)?.map(Operation::Record).ok_or(HipError::InvalidValue)
    };

    /// `hipGraphAddEventWaitNode`
    add_event_wait(event: hipEvent_t) => |_: &Arc<Graph>| {
        event::resolve_optional(event)?.map(Operation::Wait).ok_or(HipError::InvalidValue)
    };

    /// `hipGraphAddChildGraphNode`: copies the child graph.
    add_child(child: hipGraph_t) => |graph: &Arc<Graph>| child_of(graph, child);

    /// `hipGraphAddMemAllocNode`
    add_mem_alloc(params: *mut hipMemAllocNodeParams) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters, which receive the address.
        let params = unsafe { params.as_mut() }.ok_or(HipError::InvalidValue)?;
        let memory = GraphMemory::new(params.bytesize)?;
        params.dptr = core::ptr::with_exposed_provenance_mut(memory.base);
        Ok(Operation::Allocate(memory))
    };

    /// `hipGraphAddMemFreeNode`
    add_mem_free(address: *mut c_void) => |_: &Arc<Graph>| free(address);

    /// `hipDrvGraphAddMemFreeNode`
    add_mem_free_driver(address: hipDeviceptr_t) => |_: &Arc<Graph>| free(address);

    /// `hipGraphAddBatchMemOpNode`
    add_batch(params: *const hipBatchMemOpNodeParams) => |_: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        unsafe { batch(params) }
    };

    /// `hipGraphAddNode`: any of the above, by type.
    add_node(params: *mut hipGraphNodeParams) => |graph: &Arc<Graph>| {
        // SAFETY: the caller passes null or valid parameters.
        let params = unsafe { params.as_mut() }.ok_or(HipError::InvalidValue)?;
        // SAFETY: the type determines the payload.
        unsafe { of_any_type(graph, params) }
    };
}

fn host(params: hipHostNodeParams) -> Result<Operation, HipError> {
    if params.r#fn.is_none() {
        return Err(HipError::InvalidValue);
    }
    Ok(Operation::Host(HostCall { function: params.r#fn, user: params.userData }))
}

fn child_of(graph: &Arc<Graph>, child: hipGraph_t) -> Result<Operation, HipError> {
    let child = resolve(child)?;
    if Arc::ptr_eq(graph, &child) {
        return Err(HipError::InvalidValue);
    }
    Ok(Operation::Graph(child.copy(true)))
}

fn free(address: *mut c_void) -> Result<Operation, HipError> {
    let address = address.expose_provenance();
    if owns_memory(address) { Ok(Operation::Free(address)) } else { Err(HipError::InvalidValue) }
}

/// # Safety
///
/// The payload has the type that `params` states.
unsafe fn of_any_type(graph: &Arc<Graph>, params: &mut hipGraphNodeParams) -> Result<Operation, HipError> {
    let payload = params.payload.as_mut_ptr();
    let handle = core::ptr::with_exposed_provenance_mut::<c_void>(params.payload[0] as usize);
    // SAFETY: the caller upholds this function's contract; the payload is aligned for every type.
    unsafe {
        match params.r#type {
            node_type::KERNEL => kernel(payload.cast()),
            node_type::MEMCPY => box_copy(&raw const (*payload.cast::<hipMemcpyNodeParams>()).copyParams),
            node_type::MEMSET => fill(payload.cast()),
            node_type::HOST => host(*payload.cast()),
            node_type::GRAPH => child_of(graph, handle),
            node_type::EMPTY => Ok(Operation::Empty),
            node_type::WAIT_EVENT => {
                event::resolve_optional(handle)?.map(Operation::Wait).ok_or(HipError::InvalidValue)
            }
            node_type::EVENT_RECORD => {
                event::resolve_optional(handle)?.map(Operation::Record).ok_or(HipError::InvalidValue)
            }
            node_type::MEM_FREE => free(handle),
            node_type::MEM_ALLOC => {
                let params = &mut *payload.cast::<hipMemAllocNodeParams>();
                let memory = GraphMemory::new(params.bytesize)?;
                params.dptr = core::ptr::with_exposed_provenance_mut(memory.base);
                Ok(Operation::Allocate(memory))
            }
            _ => Err(HipError::NotSupported),
        }
    }
}

/// The event for a handle.
pub(super) fn event_of(handle: hipEvent_t) -> Result<Arc<event::Event>, HipError> {
    event::listed().get(handle).ok_or(HipError::InvalidValue)
}
