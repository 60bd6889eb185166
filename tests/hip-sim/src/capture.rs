//! Stream capture: while a stream is captured, the work submitted to it becomes nodes of a graph and does not
//! run.
//!
//! A session begins and ends on one stream. Another stream joins by waiting for an event that was recorded in
//! the session, and belongs to it until the end. Calls that would have to wait for captured work invalidate
//! sessions. The end of an invalid session leaves its streams as they are: work on them is refused until its origin
//! begins another or is destroyed, and a second end comes from the wrong thread (seen on 6.4.3). The rules for these
//! calls and the affected sessions are those of the genuine runtime (6.3,
//! [hip_graph.cpp](https://github.com/ROCm/clr/blob/fe70c0d6b08e/hipamd/src/hip_graph.cpp)).

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

/// `hipStreamCaptureMode`: the threads for which a capture forbids unsafe calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Every thread.
    Global,
    /// The thread that began the capture.
    ThreadLocal,
    /// No thread.
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
    /// How far this thread respects other threads' captures: `hipThreadExchangeStreamCaptureMode`.
    static INTERACTION: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// One capture, from begin to end.
pub(crate) struct Session {
    id: u64,
    mode: Mode,
    thread: ThreadId,
    graph: Arc<Graph>,
    is_invalid: AtomicBool,
    /// `hipStreamEndCapture` has refused to make a graph of it. Its streams take no work until one begins another, and it
    /// forbids nothing any more.
    is_broken: AtomicBool,
    is_over: AtomicBool,
    /// Nodes, by address, that the capture added.
    added: Mutex<HashSet<usize>>,
    /// Nodes, by address, that the application removed from a stream's dependencies. They need not be joined.
    dropped: Mutex<HashSet<usize>>,
}

impl Session {
    /// Whether it adds no nodes any more: an event of it stands for no captured work.
    pub(crate) fn is_over(&self) -> bool {
        self.is_broken() || self.has_no_streams()
    }

    fn has_no_streams(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn is_invalid(&self) -> bool {
        self.is_invalid.load(Ordering::Acquire)
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    fn invalidate(&self) {
        self.is_invalid.store(true, Ordering::Release);
    }

    /// Whether every branch leads to a node in `tail`.
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

/// A stream's state in a session.
pub(crate) struct Capture {
    session: Arc<Session>,
    is_origin: bool,
    /// Dependencies of the stream's next node.
    tail: Vec<Arc<Node>>,
}

/// The captured work of a stream at one point, which an event recorded there stands for.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) session: Arc<Session>,
    pub(crate) nodes: Vec<Arc<Node>>,
}

/// The sessions of a runtime in which streams are.
#[derive(Default)]
pub(crate) struct Sessions {
    active: Mutex<Vec<Arc<Session>>>,
    /// The number of sessions, so that calls outside of any capture need not lock.
    count: AtomicUsize,
    last_id: AtomicU64,
}

impl Sessions {
    /// Whether no capture is in progress, the common case.
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
            is_broken: AtomicBool::new(false),
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

    /// Invalidates the sessions that `concerns` selects; returns whether there were any.
    fn invalidate(&self, concerns: impl Fn(&Session) -> bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut any = false;
        for session in self.lock().iter().filter(|s| !s.is_broken() && concerns(s)) {
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

/// For calls that may have to wait for the device, such as allocations: invalidates the sessions that forbid
/// them to this thread.
pub(crate) fn check_unsafe() -> Result<(), HipError> {
    if sessions().invalidate(concerns_this_thread) {
        return Err(HipError::StreamCaptureUnsupported);
    }
    Ok(())
}

/// For synchronous copies and fills, which no mode allows.
pub(crate) fn check_synchronous() -> Result<(), HipError> {
    if sessions().invalidate(|_| true) { Err(HipError::StreamCaptureImplicit) } else { Ok(()) }
}

/// For calls that wait for the whole device, which no mode allows.
pub(crate) fn check_device_wide() -> Result<(), HipError> {
    if sessions().invalidate(|_| true) { Err(HipError::StreamCaptureUnsupported) } else { Ok(()) }
}

/// For calls that wait for one stream or query it.
pub(crate) fn check_waiting_for(stream: &Stream) -> Result<(), HipError> {
    if sessions().is_empty() {
        return Ok(());
    }
    match stream.capture().filter(|session| !session.is_broken()) {
        Some(session) => {
            session.invalidate();
            Err(HipError::StreamCaptureUnsupported)
        }
        None => check_unsafe(),
    }
}

/// For calls that query an event: an event recorded in a capture has no work that a call could wait for.
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
        if capture.as_ref().is_some_and(|c| c.session.has_no_streams()) {
            *capture = None;
        }
        capture
    }

    /// The session in which this stream is captured.
    pub(crate) fn capture(&self) -> Option<Arc<Session>> {
        self.own_capture().as_ref().map(|c| Arc::clone(&c.session))
    }

    /// Whether submitted work becomes nodes; an error if the session is no longer valid.
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

    /// The captured work that an event recorded now stands for; none if the stream is not validly captured.
    pub(crate) fn captured_moment(&self) -> Option<Moment> {
        if sessions().is_empty() {
            return None;
        }
        let capture = self.own_capture();
        let capture = capture.as_ref().filter(|c| !c.session.is_invalid())?;
        Some(Moment { session: Arc::clone(&capture.session), nodes: capture.tail.clone() })
    }

    /// Joins the session of an event that the stream waits for.
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

    /// Ends the session that began on this stream, without a graph, because the stream is being destroyed.
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
    // Another thread may have ended the session since the caller checked.
    let capture = own.as_mut().ok_or(HipError::StreamCaptureInvalidated)?;
    let node = capture.session.graph.add(operation, &capture.tail);
    capture.session.added.lock().expect("no holder panics").insert(Arc::as_ptr(&node).addr());
    capture.tail = vec![node];
    Ok(())
}

#[cfg(test)]
mod tests;
