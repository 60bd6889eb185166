//! What becomes of a command: not yet finished, or finished with its place on the timeline.

use std::sync::{Condvar, Mutex};

/// When a command ran, `CLOCK_MONOTONIC` nanoseconds of the simulated timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// One command's completion, shared by the queue, events and waiters.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    span: Mutex<Option<Span>>,
    done: Condvar,
}

impl Completion {
    /// Of a command that took no time.
    pub(crate) fn finished_at(time_ns: u64) -> Self {
        Self { span: Mutex::new(Some(Span { start_ns: time_ns, end_ns: time_ns })), done: Condvar::new() }
    }

    /// The span once finished.
    pub(crate) fn poll(&self) -> Option<Span> {
        *self.span.lock().expect("no holder panics")
    }

    /// Blocks until finished.
    pub(crate) fn wait(&self) -> Span {
        let mut span = self.span.lock().expect("no holder panics");
        loop {
            match *span {
                Some(span) => return span,
                None => span = self.done.wait(span).expect("no holder panics"),
            }
        }
    }

    pub(super) fn finish(&self, span: Span) {
        *self.span.lock().expect("no holder panics") = Some(span);
        self.done.notify_all();
    }
}
