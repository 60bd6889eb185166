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
use std::sync::{Arc, MutexGuard};
use std::thread;

use crate::error::HipError;
use crate::graph::Node;
use crate::operation::Operation;
use crate::stream::Stream;

mod functions;
mod session;

pub(crate) use functions::{
    begin, begin_spt, begin_to_graph, end, end_spt, exchange_mode, info, info_spt, info_v2, info_v2_spt,
    is_capturing, is_capturing_spt, update_dependencies,
};
pub(crate) use session::{Capture, Moment};
use session::{Mode, Session, sessions};

thread_local! {
    /// How far this thread respects other threads' captures: `hipThreadExchangeStreamCaptureMode`.
    static INTERACTION: Cell<Mode> = const { Cell::new(Mode::Global) };
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
