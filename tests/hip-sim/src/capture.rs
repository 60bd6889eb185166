//! Stream capture: while a stream is captured, what it is asked for becomes nodes of a graph and is not done.
//!
//! A session begins on one stream and ends there. Another stream joins it by waiting for an event that was recorded in
//! the session, and belongs to it until the end. Calls that would have to wait for captured work invalidate sessions;
//! which calls, and whose sessions, are the rules of the genuine runtime (6.3).

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use crate::error::HipError;
use crate::graph::{Graph, Node};
use crate::operation::Operation;
use crate::runtime;
use crate::stream::Stream;

mod functions;

pub(crate) use functions::{
    begin, begin_spt, begin_to_graph, end, end_spt, exchange_mode, info, info_spt, info_v2, info_v2_spt,
    is_capturing, is_capturing_spt, update_dependencies,
};

/// `hipStreamCaptureMode`: which calls are forbidden meanwhile, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To every thread.
    Global,
    /// To the thread that began.
    ThreadLocal,
    /// To nobody.
    Relaxed,
}

impl Mode {
    fn from_code(code: u32) -> Result<Self, HipError> {
        match code {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(HipError::InvalidValue),
        }
    }
}

thread_local! {
    /// How far this thread respects others' captures: `hipThreadExchangeStreamCaptureMode`.
    static INTERACTION: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// One capture, from begin to end.
pub(crate) struct Session {
    id: u64,
    mode: Mode,
    thread: ThreadId,
    graph: Arc<Graph>,
    is_invalid: AtomicBool,
    is_over: AtomicBool,
    /// Nodes, by address, that the capture added.
    added: Mutex<HashSet<usize>>,
    /// Nodes, by address, that the application took out of a stream's dependencies and need not be joined.
    dropped: Mutex<HashSet<usize>>,
}

impl Session {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn is_invalid(&self) -> bool {
        self.is_invalid.load(Ordering::Acquire)
    }

    fn invalidate(&self) {
        self.is_invalid.store(true, Ordering::Release);
    }

    /// Whether every branch leads to one of `tail`.
    fn is_joined(&self, tail: &[Arc<Node>]) -> bool {
        let added = self.added.lock().expect("no holder panics");
        let dropped = self.dropped.lock().expect("no holder panics");
        let is_joined = |leaf: &Arc<Node>| {
            let address = Arc::as_ptr(leaf).addr();
            !added.contains(&address)
                || dropped.contains(&address)
                || tail.iter().any(|t| Arc::ptr_eq(t, leaf))
        };
        self.graph.leaves().iter().all(is_joined)
    }
}

/// A stream's part in a session.
pub(crate) struct Capture {
    session: Arc<Session>,
    is_origin: bool,
    /// What the stream's next node depends on.
    tail: Vec<Arc<Node>>,
}

/// A captured moment of a stream, for an event to stand for.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) session: Arc<Session>,
    pub(crate) nodes: Vec<Arc<Node>>,
}

/// The sessions of a runtime that have not ended.
#[derive(Default)]
pub(crate) struct Sessions {
    active: Mutex<Vec<Arc<Session>>>,
    /// Their number, so that calls outside of any capture need not lock.
    count: AtomicUsize,
    last_id: AtomicU64,
}

impl Sessions {
    /// Whether no capture is under way, which is nearly always.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.active.lock().expect("no holder panics")
    }

    fn begin(&self, mode: Mode, graph: Arc<Graph>) -> Arc<Session> {
        let session = Arc::new(Session {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            mode,
            thread: thread::current().id(),
            graph,
            is_invalid: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            added: Mutex::default(),
            dropped: Mutex::default(),
        });
        let mut active = self.lock();
        active.push(Arc::clone(&session));
        self.count.store(active.len(), Ordering::Release);
        session
    }

    fn end(&self, session: &Arc<Session>) {
        session.is_over.store(true, Ordering::Release);
        let mut active = self.lock();
        active.retain(|other| !Arc::ptr_eq(other, session));
        self.count.store(active.len(), Ordering::Release);
    }

    /// Invalidates the sessions that `concerns` picks; whether there were any.
    fn invalidate(&self, concerns: impl Fn(&Session) -> bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut any = false;
        for session in self.lock().iter().filter(|s| concerns(s)) {
            session.invalidate();
            any = true;
        }
        any
    }
}

fn sessions() -> &'static Sessions {
    &runtime::get().captures
}

/// Whether a session forbids unsafe calls to this thread.
fn concerns_this_thread(session: &Session) -> bool {
    let is_own = session.thread == thread::current().id();
    match INTERACTION.get() {
        Mode::Relaxed => false,
        Mode::ThreadLocal => is_own && session.mode != Mode::Relaxed,
        Mode::Global => session.mode == Mode::Global || (is_own && session.mode != Mode::Relaxed),
    }
}

/// For calls that may have to wait for the device, such as allocations: invalidates what forbids them to this thread.
pub(crate) fn check_unsafe() -> Result<(), HipError> {
    if sessions().invalidate(concerns_this_thread) {
        return Err(HipError::StreamCaptureUnsupported);
    }
    Ok(())
}

/// For synchronous copies and fills, which no mode permits.
pub(crate) fn check_synchronous() -> Result<(), HipError> {
    if sessions().invalidate(|_| true) { Err(HipError::StreamCaptureImplicit) } else { Ok(()) }
}

/// For calls that wait for the whole device, which no mode permits.
pub(crate) fn check_device_wide() -> Result<(), HipError> {
    if sessions().invalidate(|_| true) { Err(HipError::StreamCaptureUnsupported) } else { Ok(()) }
}

/// For calls that wait for one stream or ask how far it is.
pub(crate) fn check_waiting_for(stream: &Stream) -> Result<(), HipError> {
    if sessions().is_empty() {
        return Ok(());
    }
    match stream.capture() {
        Some(session) => {
            session.invalidate();
            Err(HipError::StreamCaptureUnsupported)
        }
        None => check_unsafe(),
    }
}

/// For calls that ask about an event: one that was recorded in a capture stands for nothing that could be awaited.
pub(crate) fn check_event(moment: &Moment) -> Result<(), HipError> {
    if moment.session.is_over() {
        return Ok(());
    }
    moment.session.invalidate();
    Err(HipError::CapturedEvent)
}

impl Stream {
    fn own_capture(&self) -> MutexGuard<'_, Option<Capture>> {
        let mut capture = self.capture.lock().expect("no holder panics");
        if capture.as_ref().is_some_and(|c| c.session.is_over()) {
            *capture = None;
        }
        capture
    }

    /// The session that it is captured in.
    pub(crate) fn capture(&self) -> Option<Arc<Session>> {
        self.own_capture().as_ref().map(|c| Arc::clone(&c.session))
    }

    /// Whether work becomes nodes; an error if the session is no longer valid.
    pub(crate) fn is_captured(&self) -> Result<bool, HipError> {
        if sessions().is_empty() {
            return Ok(false);
        }
        match self.capture() {
            None => Ok(false),
            Some(session) if session.is_invalid() => Err(HipError::StreamCaptureInvalidated),
            Some(_) => Ok(true),
        }
    }

    /// What an event recorded now would stand for; none if the stream is not validly captured.
    pub(crate) fn captured_moment(&self) -> Option<Moment> {
        if sessions().is_empty() {
            return None;
        }
        let capture = self.own_capture();
        let capture = capture.as_ref().filter(|c| !c.session.is_invalid())?;
        Some(Moment { session: Arc::clone(&capture.session), nodes: capture.tail.clone() })
    }

    /// Takes part in the session of an event that it waits for.
    pub(crate) fn join(&self, moment: &Moment) -> Result<(), HipError> {
        let mut own = self.own_capture();
        if let Some(capture) = own.as_mut() {
            if !Arc::ptr_eq(&capture.session, &moment.session) {
                capture.session.invalidate();
                moment.session.invalidate();
                return Err(HipError::StreamCaptureMerge);
            }
            extend(&mut capture.tail, &moment.nodes);
            return Ok(());
        }
        let tail = moment.nodes.clone();
        *own = Some(Capture { session: Arc::clone(&moment.session), is_origin: false, tail });
        Ok(())
    }

    /// Ends the session that began on this stream, without a graph: the stream is being destroyed.
    pub(crate) fn abandon_capture(&self) {
        if let Some(capture) = self.own_capture().take().filter(|c| c.is_origin) {
            sessions().end(&capture.session);
        }
    }
}

fn extend(tail: &mut Vec<Arc<Node>>, nodes: &[Arc<Node>]) {
    for node in nodes {
        if !tail.iter().any(|known| Arc::ptr_eq(known, node)) {
            tail.push(Arc::clone(node));
        }
    }
}

/// Makes an operation the next node of a captured stream.
pub(crate) fn add(stream: &Stream, operation: Operation) -> Result<(), HipError> {
    let mut own = stream.own_capture();
    // Another thread may have ended the session since the caller asked.
    let capture = own.as_mut().ok_or(HipError::StreamCaptureInvalidated)?;
    let node = capture.session.graph.add(operation, &capture.tail);
    capture.session.added.lock().expect("no holder panics").insert(Arc::as_ptr(&node).addr());
    capture.tail = vec![node];
    Ok(())
}

#[cfg(test)]
mod tests;
