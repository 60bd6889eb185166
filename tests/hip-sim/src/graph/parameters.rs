//! Nodes' parameters: read from the caller's descriptions, returned, and replaced in graphs and executables.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use super::executable::{resolve_exec_node, take_child};
use super::nodes::event_of;
use super::object::{Node, resolve, resolve_node};
use super::topology;
use crate::abi::{
    HIP_MEMCPY3D, hipBatchMemOpNodeParams, hipError_t, hipEvent_t, hipGraph_t, hipGraphExec_t,
    hipGraphNode_t, hipGraphNodeParams, hipHostNodeParams, hipKernelNodeAttrID, hipKernelNodeAttrValue,
    hipKernelNodeParams, hipMemAllocNodeParams, hipMemcpy3DParms, hipMemcpyKind, hipMemcpyNodeParams,
    hipMemsetParams, node_type,
};
use crate::boundary::{self, write};
use crate::copy::Copy;
use crate::error::HipError;
use crate::launch::Launch;
use crate::operation::{HostCall, Operation};
use crate::set::Fill;
use crate::stream_value::Batch;
use crate::{copy, symbol};

/// # Safety
///
/// Null, or parameters as `hipLaunchKernel` or `hipModuleLaunchKernel` require them.
pub(super) unsafe fn kernel(params: *const hipKernelNodeParams) -> Result<Operation, HipError> {
    // SAFETY: the caller upholds this function's contract.
    let params = unsafe { params.as_ref() }.ok_or(HipError::InvalidValue)?;
    // SAFETY: as above.
    unsafe { Launch::of_node(params) }.map(|launch| Operation::Kernel(Arc::new(launch)))
}

fn checked(copy: Copy) -> Result<Operation, HipError> {
    if copy.is_empty() {
        return Err(HipError::InvalidValue);
    }
    copy.memory_types()?;
    Ok(Operation::Copy(copy))
}

/// # Safety
///
/// Null or valid parameters.
pub(super) unsafe fn box_copy(params: *const hipMemcpy3DParms) -> Result<Operation, HipError> {
    // SAFETY: the caller upholds this function's contract.
    checked(copy::of_box(unsafe { params.as_ref() }.ok_or(HipError::InvalidValue)?)?)
}

/// # Safety
///
/// Null or valid parameters.
pub(super) unsafe fn driver_copy(params: *const HIP_MEMCPY3D) -> Result<Operation, HipError> {
    // SAFETY: the caller upholds this function's contract.
    checked(copy::of_driver_box(unsafe { params.as_ref() }.ok_or(HipError::InvalidValue)?)?)
}

pub(super) fn linear_copy(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    kind: hipMemcpyKind,
) -> Result<Operation, HipError> {
    checked(Copy::linear(to, from, size, kind))
}

pub(super) fn symbol_target(
    symbol: *const c_void,
    from: *const c_void,
    size: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Operation, HipError> {
    linear_copy(symbol::part(symbol, size, offset)?, from, size, kind)
}

pub(super) fn symbol_source(
    to: *mut c_void,
    symbol: *const c_void,
    size: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Operation, HipError> {
    linear_copy(to, symbol::part(symbol, size, offset)?, size, kind)
}

/// # Safety
///
/// Null or valid parameters.
pub(super) unsafe fn fill(params: *const hipMemsetParams) -> Result<Operation, HipError> {
    // SAFETY: the caller upholds this function's contract.
    let fill = Fill::of_node(unsafe { params.as_ref() }.ok_or(HipError::InvalidValue)?)?;
    Ok(Operation::Fill(fill))
}

/// # Safety
///
/// Null or valid parameters.
pub(super) unsafe fn batch(params: *const hipBatchMemOpNodeParams) -> Result<Operation, HipError> {
    // SAFETY: the caller upholds this function's contract.
    let params = unsafe { params.as_ref() }.ok_or(HipError::InvalidValue)?;
    // SAFETY: as above.
    unsafe { Batch::new(params.count, params.paramArray) }.map(Operation::Values)
}

/// # Safety
///
/// Null or valid parameters.
unsafe fn host(params: *const hipHostNodeParams) -> Result<Operation, HipError> {
    // SAFETY: the caller upholds this function's contract.
    let params = unsafe { params.as_ref() }.ok_or(HipError::InvalidValue)?;
    if params.r#fn.is_none() {
        return Err(HipError::InvalidValue);
    }
    Ok(Operation::Host(HostCall { function: params.r#fn, user: params.userData }))
}

/// Replaces a node's operation by another of the same type.
fn replace(node: &Node, new: Operation) -> Result<(), HipError> {
    if node.operation().node_type() != new.node_type() {
        return Err(HipError::InvalidValue);
    }
    node.set_operation(new);
    Ok(())
}

/// Defines two functions for one kind of node: one replaces parameters in a graph, the other in an
/// executable.
macro_rules! setters {
    ($($(#[$doc:meta])* $in_graph:ident, $in_exec:ident($($parameter:ident: $type:ty),*) => $operation:expr;)*) => {
        $($(#[$doc])*
        pub(crate) unsafe extern "C" fn $in_graph(node: hipGraphNode_t, $($parameter: $type,)*) -> hipError_t {
            boundary::call(|| {
                let node = resolve_node(node)?;
                // SAFETY: the caller upholds this function's contract.
                let operation = unsafe { $operation }?;
                replace(&node, operation)
            })
        }

        /// The same in an executable; the node is given by its original.
        pub(crate) unsafe extern "C" fn $in_exec(
            exec: hipGraphExec_t,
            node: hipGraphNode_t,
            $($parameter: $type,)*
        ) -> hipError_t {
            boundary::call(|| {
                let node = resolve_exec_node(exec, node)?;
                // SAFETY: the caller upholds this function's contract.
                let operation = unsafe { $operation }?;
                replace(&node, operation)
            })
        })*
    };
}

/// Lets the macro above call a safe function in its unsafe block.
unsafe fn safely(made: Result<Operation, HipError>) -> Result<Operation, HipError> {
    made
}

setters! {
    /// `hipGraphKernelNodeSetParams`
    set_kernel, set_exec_kernel(params: *const hipKernelNodeParams) => kernel(params);
    /// `hipGraphMemcpyNodeSetParams`
    set_memcpy, set_exec_memcpy_const(params: *const hipMemcpy3DParms) => box_copy(params);
    /// `hipGraphMemcpyNodeSetParams1D`
    set_memcpy_1d, set_exec_memcpy_1d(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind)
        => safely(linear_copy(to, from, size, kind));
    /// `hipGraphMemcpyNodeSetParamsToSymbol`
    set_memcpy_to_symbol, set_exec_memcpy_to_symbol(
        symbol: *const c_void, from: *const c_void, size: usize, offset: usize, kind: hipMemcpyKind
    ) => safely(symbol_target(symbol, from, size, offset, kind));
    /// `hipGraphMemcpyNodeSetParamsFromSymbol`
    set_memcpy_from_symbol, set_exec_memcpy_from_symbol(
        to: *mut c_void, symbol: *const c_void, size: usize, offset: usize, kind: hipMemcpyKind
    ) => safely(symbol_source(to, symbol, size, offset, kind));
    /// `hipGraphMemsetNodeSetParams`
    set_memset, set_exec_memset(params: *const hipMemsetParams) => fill(params);
    /// `hipGraphHostNodeSetParams`
    set_host, set_exec_host(params: *const hipHostNodeParams) => host(params);
    /// `hipGraphEventRecordNodeSetEvent`
    set_event_record, set_exec_event_record(event: hipEvent_t)
        => safely(event_of(event).map(Operation::Record));
    /// `hipGraphEventWaitNodeSetEvent`
    set_event_wait, set_exec_event_wait(event: hipEvent_t) => safely(event_of(event).map(Operation::Wait));
    /// `hipGraphNodeSetParams`
    set_any, set_exec_any(params: *mut hipGraphNodeParams) => of_any_type(params);
    /// `hipDrvGraphMemcpyNodeSetParams`
    set_driver_memcpy, set_exec_driver_memcpy_without_context(params: *const HIP_MEMCPY3D) => driver_copy(params);
}

/// `hipGraphExecMemcpyNodeSetParams`
pub(crate) unsafe extern "C" fn set_exec_memcpy(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *mut hipMemcpy3DParms,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { set_exec_memcpy_const(exec, node, params) }
}

/// `hipDrvGraphExecMemcpyNodeSetParams`
pub(crate) unsafe extern "C" fn set_exec_driver_memcpy(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *const HIP_MEMCPY3D,
    _context: *mut c_void,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { set_exec_driver_memcpy_without_context(exec, node, params) }
}

/// `hipDrvGraphExecMemsetNodeSetParams`
pub(crate) unsafe extern "C" fn set_exec_driver_memset(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *const hipMemsetParams,
    _context: *mut c_void,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { set_exec_memset(exec, node, params) }
}

/// `hipGraphExecChildGraphNodeSetParams`: the new graph must have the same shape as the old one.
pub(crate) unsafe extern "C" fn set_exec_child(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    child: hipGraph_t,
) -> hipError_t {
    boundary::call(|| {
        let child = resolve(child)?;
        if topology::is_in(&*resolve_node(node)?, &child) {
            return Err(HipError::Unknown);
        }
        match resolve_exec_node(exec, node)?.operation() {
            Operation::Graph(own) => take_child(&own, &child),
            _ => Err(HipError::InvalidValue),
        }
    })
}

/// # Safety
///
/// Null, or parameters whose payload has the type that they state.
unsafe fn of_any_type(params: *mut hipGraphNodeParams) -> Result<Operation, HipError> {
    // SAFETY: the caller upholds this function's contract.
    let params = unsafe { params.as_mut() }.ok_or(HipError::InvalidValue)?;
    let payload = params.payload.as_ptr();
    let handle = ptr::with_exposed_provenance_mut(params.payload[0] as usize);
    // SAFETY: the caller upholds this function's contract; the payload is aligned for every type.
    unsafe {
        match params.r#type {
            node_type::KERNEL => kernel(payload.cast()),
            node_type::MEMCPY => box_copy(&raw const (*payload.cast::<hipMemcpyNodeParams>()).copyParams),
            node_type::MEMSET => fill(payload.cast()),
            node_type::HOST => host(payload.cast()),
            node_type::WAIT_EVENT => event_of(handle).map(Operation::Wait),
            node_type::EVENT_RECORD => event_of(handle).map(Operation::Record),
            _ => Err(HipError::NotSupported),
        }
    }
}

/// Returns a value that `of` extracts from a node's operation.
fn get<T>(
    node: hipGraphNode_t,
    out: *mut T,
    of: impl FnOnce(&Operation) -> Option<T>,
) -> Result<(), HipError> {
    let node = resolve_node(node)?;
    let value = of(&node.operation()).ok_or(HipError::InvalidValue)?;
    // SAFETY: the caller passes null or a writable out-parameter.
    unsafe { write(out, value) }
}

/// `hipGraphKernelNodeGetParams`: the arguments' addresses are valid until the node's parameters are
/// replaced.
pub(crate) unsafe extern "C" fn get_kernel(
    node: hipGraphNode_t,
    out: *mut hipKernelNodeParams,
) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Kernel(launch) => Some(launch.node_params()),
            _ => None,
        })
    })
}

/// `hipGraphMemcpyNodeGetParams`
pub(crate) unsafe extern "C" fn get_memcpy(node: hipGraphNode_t, out: *mut hipMemcpy3DParms) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Copy(copy) => Some(copy::to_box(copy)),
            _ => None,
        })
    })
}

/// `hipDrvGraphMemcpyNodeGetParams`
pub(crate) unsafe extern "C" fn get_driver_memcpy(
    node: hipGraphNode_t,
    out: *mut HIP_MEMCPY3D,
) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Copy(copy) => Some(copy::to_driver_box(copy)),
            _ => None,
        })
    })
}

/// `hipGraphMemsetNodeGetParams`
pub(crate) unsafe extern "C" fn get_memset(node: hipGraphNode_t, out: *mut hipMemsetParams) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Fill(fill) => Some(fill.node_params()),
            _ => None,
        })
    })
}

/// `hipGraphHostNodeGetParams`
pub(crate) unsafe extern "C" fn get_host(node: hipGraphNode_t, out: *mut hipHostNodeParams) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Host(call) => Some(hipHostNodeParams { r#fn: call.function, userData: call.user }),
            _ => None,
        })
    })
}

/// `hipGraphEventRecordNodeGetEvent`
pub(crate) unsafe extern "C" fn get_event_record(node: hipGraphNode_t, out: *mut hipEvent_t) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Record(event) => Some(Arc::as_ptr(event).cast::<c_void>().cast_mut()),
            _ => None,
        })
    })
}

/// `hipGraphEventWaitNodeGetEvent`
pub(crate) unsafe extern "C" fn get_event_wait(node: hipGraphNode_t, out: *mut hipEvent_t) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Wait(event) => Some(Arc::as_ptr(event).cast::<c_void>().cast_mut()),
            _ => None,
        })
    })
}

/// `hipGraphMemAllocNodeGetParams`: pools and access are not modelled, so these fields are empty.
pub(crate) unsafe extern "C" fn get_mem_alloc(
    node: hipGraphNode_t,
    out: *mut hipMemAllocNodeParams,
) -> hipError_t {
    boundary::call(|| {
        get(node, out, |operation| match operation {
            Operation::Allocate(memory) => Some(hipMemAllocNodeParams {
                poolProps: [0; 11],
                accessDescs: ptr::null(),
                accessDescCount: 0,
                bytesize: memory.size,
                dptr: ptr::with_exposed_provenance_mut(memory.base),
            }),
            _ => None,
        })
    })
}

/// `hipGraphMemFreeNodeGetParams`
pub(crate) unsafe extern "C" fn get_mem_free(node: hipGraphNode_t, out: *mut c_void) -> hipError_t {
    boundary::call(|| {
        get(node, out.cast::<usize>(), |operation| match operation {
            Operation::Free(address) => Some(*address),
            _ => None,
        })
    })
}

fn kernel_node(node: hipGraphNode_t) -> Result<Arc<Node>, HipError> {
    resolve_node(node)
        .ok()
        .filter(|n| matches!(n.operation(), Operation::Kernel(_)))
        .ok_or(HipError::InvalidValue)
}

/// `hipGraphKernelNodeSetAttribute`: stored for the application to read back.
pub(crate) unsafe extern "C" fn set_attribute(
    node: hipGraphNode_t,
    attribute: hipKernelNodeAttrID,
    value: *const hipKernelNodeAttrValue,
) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or a valid value.
        let value = unsafe { value.as_ref() }.ok_or(HipError::InvalidValue)?;
        kernel_node(node)?.attributes.lock().expect("no holder panics").insert(attribute, *value);
        Ok(())
    })
}

/// `hipGraphKernelNodeGetAttribute`: zero if none was set.
pub(crate) unsafe extern "C" fn get_attribute(
    node: hipGraphNode_t,
    attribute: hipKernelNodeAttrID,
    out: *mut hipKernelNodeAttrValue,
) -> hipError_t {
    boundary::call(|| {
        let node = kernel_node(node)?;
        let value = node.attributes.lock().expect("no holder panics").get(&attribute).copied();
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, value.unwrap_or_default()) }
    })
}

/// `hipGraphKernelNodeCopyAttributes`
pub(crate) unsafe extern "C" fn copy_attributes(from: hipGraphNode_t, to: hipGraphNode_t) -> hipError_t {
    boundary::call(|| {
        let (from, to) = (kernel_node(from)?, kernel_node(to)?);
        let attributes = from.attributes.lock().expect("no holder panics").clone();
        *to.attributes.lock().expect("no holder panics") = attributes;
        Ok(())
    })
}
