//! A command's completion: unfinished, or finished with its times on the timeline.

use std::sync::{Condvar, Mutex, MutexGuard};

/// When a command ran, in `CLOCK_MONOTONIC` nanoseconds of the simulated timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// One command's completion, shared by the queue, events and waiters.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    span: Option<Span>,
    /// Threads that sleep in `wait`. Most completions have none, and this count saves them the system call
    /// that wakes.
    sleepers: usize,
}

impl Completion {
    /// The completion of a command that took no time.
    pub(crate) fn finished_at(time_ns: u64) -> Self {
        let completion = Self::default();
        completion.finish(Span { start_ns: time_ns, end_ns: time_ns });
        completion
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// The span, if the command is finished.
    pub(crate) fn poll(&self) -> Option<Span> {
        self.lock().span
    }

    /// Blocks until the command is finished.
    pub(crate) fn wait(&self) -> Span {
        let mut state = self.lock();
        loop {
            if let Some(span) = state.span {
                return span;
            }
            state.sleepers += 1;
            state = self.done.wait(state).expect("no holder panics");
            state.sleepers -= 1;
        }
    }

    pub(super) fn finish(&self, span: Span) {
        let mut state = self.lock();
        state.span = Some(span);
        let sleepers = state.sleepers;
        drop(state);
        if sleepers > 0 {
            self.done.notify_all();
        }
    }
}
