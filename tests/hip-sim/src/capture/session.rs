//! What a capture is: its session, a stream's state in it, and the captured work of one point.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use crate::error::HipError;
use crate::graph::{Graph, Node};
use crate::runtime::table;

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
    pub(super) fn from_code(code: u32) -> Result<Self, HipError> {
        match code {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(HipError::InvalidValue),
        }
    }
}

/// One capture, from begin to end.
pub(crate) struct Session {
    pub(super) id: u64,
    pub(super) mode: Mode,
    pub(super) thread: ThreadId,
    pub(super) graph: Arc<Graph>,
    pub(super) is_invalid: AtomicBool,
    /// `hipStreamEndCapture` has refused to make a graph of it. Its streams take no work until one begins another, and it
    /// forbids nothing any more.
    pub(super) is_broken: AtomicBool,
    pub(super) is_over: AtomicBool,
    /// Nodes, by address, that the capture added.
    pub(super) added: Mutex<HashSet<usize>>,
    /// Nodes, by address, that the application removed from a stream's dependencies. They need not be joined.
    pub(super) dropped: Mutex<HashSet<usize>>,
}

impl Session {
    /// Whether it adds no nodes any more: an event of it stands for no captured work.
    pub(crate) fn is_over(&self) -> bool {
        self.is_broken() || self.has_no_streams()
    }

    pub(super) fn has_no_streams(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.is_invalid.load(Ordering::Acquire)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    pub(super) fn invalidate(&self) {
        self.is_invalid.store(true, Ordering::Release);
    }

    /// Whether every branch leads to a node in `tail`.
    pub(super) fn is_joined(&self, tail: &[Arc<Node>]) -> bool {
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
    pub(super) session: Arc<Session>,
    pub(super) is_origin: bool,
    /// Dependencies of the stream's next node.
    pub(super) tail: Vec<Arc<Node>>,
}

/// The captured work of a stream at one point, which an event recorded there stands for.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) session: Arc<Session>,
    pub(crate) nodes: Vec<Arc<Node>>,
}

table! {
    /// The sessions in which streams are.
    pub(super) sessions: Sessions = Sessions::default()
}

/// Sessions in which streams are.
#[derive(Default)]
pub(super) struct Sessions {
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

    pub(super) fn begin(&self, mode: Mode, graph: Arc<Graph>) -> Arc<Session> {
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

    pub(super) fn end(&self, session: &Arc<Session>) {
        session.is_over.store(true, Ordering::Release);
        let mut active = self.lock();
        active.retain(|other| !Arc::ptr_eq(other, session));
        self.count.store(active.len(), Ordering::Release);
    }

    /// Invalidates the sessions that `concerns` selects; returns whether there were any.
    pub(super) fn invalidate(&self, concerns: impl Fn(&Session) -> bool) -> bool {
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
