//! The functions that begin, end and query captures.

use core::ptr;
use core::sync::atomic::Ordering::Release;
use std::cell::RefCell;
use std::sync::Arc;

use super::session::{Capture, Mode, sessions};
use super::{INTERACTION, extend};
use crate::abi::{
    hipError_t, hipGraph_t, hipGraphEdgeData, hipGraphNode_t, hipStream_t, hipStreamCaptureMode,
    hipStreamCaptureStatus,
};
use crate::boundary::{self, write};
use crate::error::HipError;
use crate::graph::{self, Graph, Node};
use crate::stream::{self, Ordering, Stream};

const STATUS_NONE: u32 = 0;
const STATUS_ACTIVE: u32 = 1;
const STATUS_INVALIDATED: u32 = 2;

const ADD_DEPENDENCIES: u32 = 0;
const SET_DEPENDENCIES: u32 = 1;

fn begin_capture(handle: hipStream_t, mode: u32, graph: Option<Arc<Graph>>) -> Result<Arc<Stream>, HipError> {
    let stream = stream::resolve(handle).ok_or(HipError::ContextIsDestroyed)?;
    if stream.ordering() == Ordering::Legacy {
        return Err(HipError::StreamCaptureUnsupported);
    }
    let mode = Mode::from_code(mode)?;
    let mut own = stream.own_capture();
    match own.take() {
        Some(valid) if !valid.session.is_invalid() => {
            *own = Some(valid);
            return Err(HipError::IllegalState);
        }
        Some(broken) if broken.is_origin => sessions().end(&broken.session),
        _ => {}
    }
    let graph = graph.unwrap_or_else(graph::create_registered);
    *own = Some(Capture { session: sessions().begin(mode, graph), is_origin: true, tail: Vec::new() });
    drop(own);
    Ok(stream)
}

/// `hipStreamBeginCapture`
pub(crate) unsafe extern "C" fn begin(stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t {
    boundary::call(|| begin_capture(stream, mode, None).map(drop))
}

/// `hipStreamBeginCapture_spt`
pub(crate) unsafe extern "C" fn begin_spt(stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t {
    boundary::call(|| begin_capture(stream::or_per_thread(stream), mode, None).map(drop))
}

/// `hipStreamBeginCaptureToGraph`
pub(crate) unsafe extern "C" fn begin_to_graph(
    stream: hipStream_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    edges: *const hipGraphEdgeData,
    count: usize,
    mode: hipStreamCaptureMode,
) -> hipError_t {
    boundary::call(|| {
        if !edges.is_null() {
            return Err(HipError::NotSupported);
        }
        if graph.is_null() || dependencies.is_null() != (count == 0) {
            return Err(HipError::InvalidValue);
        }
        let graph = graph::resolve(graph)?;
        // SAFETY: the caller passes an array of `count` handles.
        let tail = unsafe { graph::resolve_nodes(&graph, dependencies, count) }?;
        let stream = begin_capture(stream, mode, Some(graph))?;
        if let Some(capture) = stream.own_capture().as_mut() {
            capture.tail = tail;
        }
        Ok(())
    })
}

fn end_capture(handle: hipStream_t, out: *mut hipGraph_t) -> Result<(), HipError> {
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let stream = stream::resolve(handle).ok_or(HipError::ContextIsDestroyed)?;
    let mut own = stream.own_capture();
    let capture = own.as_ref().ok_or(HipError::IllegalState)?;
    if !capture.is_origin {
        return Err(HipError::StreamCaptureUnmatched);
    }
    let session = &capture.session;
    let is_here = session.thread == std::thread::current().id() && !session.is_broken();
    if session.mode != Mode::Relaxed && !is_here {
        return Err(HipError::StreamCaptureWrongThread);
    }
    if session.is_invalid() {
        if !session.is_broken.swap(true, Release) {
            graph::destroy_registered(&session.graph);
        }
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, ptr::null_mut())? };
        return Err(HipError::StreamCaptureInvalidated);
    }
    let Some(Capture { session, tail, .. }) = own.take() else { return Err(HipError::IllegalState) };
    sessions().end(&session);
    if !session.is_joined(&tail) {
        graph::destroy_registered(&session.graph);
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, ptr::null_mut())? };
        return Err(HipError::StreamCaptureUnjoined);
    }
    // SAFETY: the caller passes null or a writable out-parameter.
    unsafe { write(out, graph::handle(&session.graph)) }
}

/// `hipStreamEndCapture`
pub(crate) unsafe extern "C" fn end(stream: hipStream_t, graph: *mut hipGraph_t) -> hipError_t {
    boundary::call(|| {
        if matches!(stream as usize, 0 | 1) {
            return Err(HipError::IllegalState);
        }
        end_capture(stream, graph)
    })
}

/// `hipStreamEndCapture_spt`
pub(crate) unsafe extern "C" fn end_spt(stream: hipStream_t, graph: *mut hipGraph_t) -> hipError_t {
    boundary::call(|| end_capture(stream::or_per_thread(stream), graph))
}

/// The capture status of a stream. Querying the null stream fails while a stream that it would wait for is
/// captured.
fn status(stream: &Stream) -> Result<u32, HipError> {
    if stream.ordering() == Ordering::Legacy {
        let is_blocked = !sessions().is_empty()
            && stream::listed().all().iter().any(|other| {
                other.ordering() == Ordering::Blocking && other.capture().is_some_and(|s| !s.is_invalid())
            });
        return if is_blocked { Err(HipError::StreamCaptureImplicit) } else { Ok(STATUS_NONE) };
    }
    Ok(match stream.capture() {
        None => STATUS_NONE,
        Some(session) if session.is_invalid() => STATUS_INVALIDATED,
        Some(_) => STATUS_ACTIVE,
    })
}

/// `hipStreamIsCapturing`
pub(crate) unsafe extern "C" fn is_capturing(
    stream: hipStream_t,
    out: *mut hipStreamCaptureStatus,
) -> hipError_t {
    boundary::call(|| {
        let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, status(&stream)?) }
    })
}

/// `hipStreamIsCapturing_spt`
pub(crate) unsafe extern "C" fn is_capturing_spt(
    stream: hipStream_t,
    out: *mut hipStreamCaptureStatus,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { is_capturing(stream::or_per_thread(stream), out) }
}

/// `hipStreamGetCaptureInfo`
pub(crate) unsafe extern "C" fn info(
    stream: hipStream_t,
    out: *mut hipStreamCaptureStatus,
    id: *mut u64,
) -> hipError_t {
    let (graph, nodes, count) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: the caller upholds this function's contract; null skips that value.
    unsafe { info_v2(stream, out, id, graph, nodes, count) }
}

/// `hipStreamGetCaptureInfo_spt`
pub(crate) unsafe extern "C" fn info_spt(
    stream: hipStream_t,
    out: *mut hipStreamCaptureStatus,
    id: *mut u64,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { info(stream::or_per_thread(stream), out, id) }
}

thread_local! {
    /// The last result of `hipStreamGetCaptureInfo_v2`, which the caller may read until its next call.
    static TAIL: RefCell<Vec<hipGraphNode_t>> = const { RefCell::new(Vec::new()) };
}

/// `hipStreamGetCaptureInfo_v2`: only the status is mandatory.
pub(crate) unsafe extern "C" fn info_v2(
    stream: hipStream_t,
    out: *mut hipStreamCaptureStatus,
    id: *mut u64,
    graph: *mut hipGraph_t,
    nodes: *mut *const hipGraphNode_t,
    count: *mut usize,
) -> hipError_t {
    boundary::call(|| {
        if out.is_null() {
            return Err(HipError::InvalidValue);
        }
        let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        let status = status(&stream)?;
        // SAFETY: the caller passes null or a writable out-parameter.
        unsafe { write(out, status)? };
        let own = stream.own_capture();
        let Some(capture) = own.as_ref().filter(|_| status == STATUS_ACTIVE) else { return Ok(()) };
        let tail: Vec<_> = capture.tail.iter().map(graph::node_handle).collect();
        let length = tail.len();
        let address = TAIL.try_with(|kept| {
            *kept.borrow_mut() = tail;
            kept.borrow().as_ptr()
        });
        // SAFETY: the caller passes writable out-parameters, or null for values that it does not want.
        unsafe {
            write_if_asked(id, capture.session.id);
            write_if_asked(graph, graph::handle(&capture.session.graph));
            write_if_asked(nodes, address.unwrap_or(ptr::null()));
            write_if_asked(count, length);
        }
        Ok(())
    })
}

/// `hipStreamGetCaptureInfo_v2_spt`
pub(crate) unsafe extern "C" fn info_v2_spt(
    stream: hipStream_t,
    out: *mut hipStreamCaptureStatus,
    id: *mut u64,
    graph: *mut hipGraph_t,
    nodes: *mut *const hipGraphNode_t,
    count: *mut usize,
) -> hipError_t {
    // SAFETY: the caller upholds this function's contract.
    unsafe { info_v2(stream::or_per_thread(stream), out, id, graph, nodes, count) }
}

/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn write_if_asked<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: the caller upholds this function's contract.
        unsafe { out.write(value) };
    }
}

/// `hipStreamUpdateCaptureDependencies`
pub(crate) unsafe extern "C" fn update_dependencies(
    stream: hipStream_t,
    nodes: *mut hipGraphNode_t,
    count: usize,
    flags: u32,
) -> hipError_t {
    boundary::call(|| {
        let stream = stream::resolve(stream).ok_or(HipError::ContextIsDestroyed)?;
        let mut own = stream.own_capture();
        let capture = own.as_mut().ok_or(HipError::IllegalState)?;
        if count > 0 && nodes.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes an array of `count` handles.
        let nodes = unsafe { graph::resolve_nodes(&capture.session.graph, nodes.cast_const(), count) }?;
        match flags {
            ADD_DEPENDENCIES => extend(&mut capture.tail, &nodes),
            SET_DEPENDENCIES => {
                let mut dropped = capture.session.dropped.lock().expect("no holder panics");
                let is_kept = |node: &Arc<Node>| nodes.iter().any(|kept| Arc::ptr_eq(kept, node));
                dropped.extend(capture.tail.iter().filter(|n| !is_kept(n)).map(|n| Arc::as_ptr(n).addr()));
                drop(dropped);
                capture.tail = nodes;
            }
            _ => return Err(HipError::InvalidValue),
        }
        Ok(())
    })
}

/// `hipThreadExchangeStreamCaptureMode`
pub(crate) unsafe extern "C" fn exchange_mode(mode: *mut hipStreamCaptureMode) -> hipError_t {
    boundary::call(|| {
        // SAFETY: the caller passes null or a valid mode.
        let asked = *unsafe { mode.as_ref() }.ok_or(HipError::InvalidValue)?;
        let old = INTERACTION.replace(Mode::from_code(asked)?);
        // SAFETY: as above.
        unsafe { write(mode, old as u32) }
    })
}
