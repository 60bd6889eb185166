//! A queue of the program's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_preload::hints;
use xsched_sched::Limit;
use xsched_xqueue::{Position, QueueHints};

use crate::defer::Submitted;
use crate::explicit::callback::Callback;
use crate::explicit::code::XResult;
use crate::explicit::handle::Handle;
use crate::explicit::hw_queue::HwQueue;

/// Commands of a queue that can be waited for one by one: as many as it keeps, so older ones were launched.
const KNOWN_MAX: usize = 4096;

/// What a queue may have launched ahead, unless program or environment say something else: XSched's numbers.
const THRESHOLD: u32 = 16;
const BATCH: u32 = 8;

/// A queue of the program's.
#[derive(Debug)]
pub(super) struct XQueue {
    handle: Handle,
    hw_queue: Arc<HwQueue>,
    /// How many calls the stream had before the queue was made.
    calls_before: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// The queue takes no more commands.
    pub(super) is_closed: bool,
    pub(super) is_suspended: bool,
    /// `PRIORITY_NO_EXECUTE`
    is_excluded: bool,
    hints: QueueHints,
    pub(super) threshold: Option<i64>,
    pub(super) batch: Option<i64>,
    /// Commands ever given to it, and the latest of them.
    pub(super) submitted: u64,
    known: VecDeque<(Handle, Position)>,
}

impl XQueue {
    pub(super) fn new(handle: Handle, hw_queue: Arc<HwQueue>) -> Self {
        let calls_before = hw_queue.queue().calls();
        let state = State {
            is_closed: false,
            is_suspended: false,
            is_excluded: false,
            hints: QueueHints::NONE,
            threshold: None,
            batch: None,
            submitted: 0,
            known: VecDeque::new(),
        };
        Self { handle, hw_queue, calls_before, state: Mutex::new(state) }
    }

    pub(super) fn hw_queue(&self) -> &HwQueue {
        &self.hw_queue
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits what is launched ahead from now on, even while nothing else uses the device: the program may suspend the queue at
    /// any time.
    pub(super) fn begin(&self) {
        let usual = Limit::Commands { threshold: THRESHOLD, batch: BATCH };
        let limit = hints::limit().unwrap_or(usual);
        let state = self.state();
        if !state.is_closed {
            self.hw_queue.queue().set_limit(Some(limit));
        }
    }

    /// Changes what keeps the queue's commands.
    fn keep(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let is_held = !state.is_closed && (state.is_suspended || state.is_excluded);
        self.hw_queue.queue().hold(is_held);
    }

    /// Suspends or resumes it.
    pub(super) fn suspend(&self, is_suspended: bool) {
        self.keep(|state| state.is_suspended = is_suspended);
    }

    /// Commands given to it, and the program's other calls on its stream since it was made.
    pub(super) fn count(&self) -> u64 {
        self.state().submitted + self.hw_queue.queue().calls().saturating_sub(self.calls_before)
    }

    /// The queue takes no more commands, and what it keeps is launched.
    pub(super) fn close(&self) {
        self.keep(|state| state.is_closed = true);
    }

    /// Whether it is excluded from launching, by its priority.
    pub(super) fn exclude(&self, is_excluded: bool) {
        self.keep(|state| state.is_excluded = is_excluded);
    }

    /// Changes the program's hints for the queue. False if the program has too many combinations of hints.
    pub(super) fn ask(&self, change: impl FnOnce(&mut QueueHints)) -> bool {
        let mut state = self.state();
        let mut hints = state.hints;
        change(&mut hints);
        // Of a queue that is being destroyed nothing is asked any more.
        if hints == state.hints || state.is_closed {
            return true;
        }
        let is_taken = self.hw_queue.queue().ask(hints);
        if is_taken {
            state.hints = hints;
        }
        is_taken
    }

    /// Forgets a command that was given to it. False if it does not know it.
    pub(super) fn forget_command(&self, command: Handle) -> bool {
        let mut state = self.state();
        let known = state.known.iter().position(|(known, _)| *known == command);
        known.is_some_and(|known| state.known.remove(known).is_some())
    }

    pub(super) fn position_of(&self, command: Handle) -> Option<Position> {
        let state = self.state();
        state.known.iter().find(|(known, _)| *known == command).map(|(_, position)| *position)
    }

    /// Gives it a command, unless it is closed.
    pub(super) fn try_submit(&self, handle: Handle, command: Callback) -> Result<Submitted, XResult> {
        let mut state = self.state();
        if state.is_closed {
            return Err(XResult::NOT_FOUND);
        }
        let submitted = self.hw_queue.queue().submit(command.on(&self.hw_queue));
        if let Submitted::At(position) = submitted {
            state.submitted += 1;
            state.known.push_back((handle, position));
            if state.known.len() > KNOWN_MAX {
                state.known.pop_front();
            }
        }
        Ok(submitted)
    }

    pub(super) fn wait_all(&self) -> Result<(), XResult> {
        self.hw_queue.waited(self.hw_queue.queue().wait_all())
    }
}
