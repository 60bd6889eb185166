//! XQueues: software queues before the hardware's, which hold commands back while they must wait.
//!
//! This module knows no HIP. It is told of queues, commands and what a command comes after; it launches commands
//! through a [`Device`], each queue in its order, on a thread per queue that lives while something is buffered (the
//! LaunchWorker).
//!
//! ```text
//!            submit                    not suspended, everything before it launched
//!   caller ----------> [c3 c2 c1] ---------------------------------------------------> Device::launch
//!            waits while full         LaunchWorker
//! ```
//!
//! A command is held back only while it must be: its queue or all queues are suspended, or something that it comes
//! after is held back. [`XQueues::must_wait`] says so; who gets `false` launches by itself, at once.
//!
//! What a command comes after is given as [`Position`]s, which are always older than the command itself. So waiting
//! never goes round in a circle, whatever is suspended: a queue that waits for a suspended one is suspended with it, no
//! more and no longer.

mod state;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::planted::{Bug, is_planted};
use state::State;

/// Commands that a queue holds before whoever submits to it has to wait.
const BUFFERED_MAX: usize = 4096;

/// Where commands go.
pub(crate) trait Device: Send + Sync + 'static {
    /// A command with everything that it needs.
    type Command: Send + 'static;

    /// Gives a command to the hardware's queue. Called on the queue's LaunchWorker, in the queue's order.
    fn launch(&self, command: Self::Command);
}

/// Names a queue. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueueId(u64);

/// A command that was held back: the how-many-th of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) queue: QueueId,
    number: u64,
}

/// All queues of a process.
pub(crate) struct XQueues<D: Device> {
    state: Mutex<State<D::Command>>,
    /// Something was launched, resumed or buffered.
    changed: Condvar,
    /// Whether anything is suspended or held back.
    engaged: AtomicBool,
    device: D,
}

/// Why a command was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no thread to launch it from: the system gives none.
    NoWorker,
    /// The process ends.
    Closed,
}

impl<D: Device> XQueues<D> {
    pub(crate) fn new(device: D) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new()),
            changed: Condvar::new(),
            engaged: AtomicBool::new(false),
            device,
        })
    }

    /// Whether any command may have to wait. One load: all that a process pays in which nothing is scheduled.
    ///
    /// Who reads `false` sees the effects of every launch before: pairs with the release in [`Self::publish`].
    pub(crate) fn is_engaged(&self) -> bool {
        self.engaged.load(Ordering::Acquire)
    }

    /// A new queue.
    pub(crate) fn create(&self) -> QueueId {
        self.lock().create()
    }

    /// Forgets a queue whose commands were all launched.
    pub(crate) fn destroy(&self, queue: QueueId) {
        let mut state = self.lock();
        state.destroy(queue);
        self.publish(&state);
    }

    /// Holds commands of all queues back from now on; false lets them go again.
    pub(crate) fn suspend_all(&self, suspended: bool) {
        let mut state = self.lock();
        state.all_suspended = suspended && !state.closed;
        self.publish(&state);
    }

    /// Holds a queue's commands back from now on; false lets them go again.
    pub(crate) fn suspend(&self, queue: QueueId, suspended: bool) {
        let mut state = self.lock();
        state.suspend(queue, suspended);
        self.publish(&state);
    }

    /// Whether a command that comes after these would have to wait now.
    pub(crate) fn must_wait(&self, queue: QueueId, after: &[Position]) -> bool {
        let state = self.lock();
        let is_first = state.is_idle(queue) || is_planted(Bug::Overtaking);
        state.is_suspended(queue) || !is_first || !state.are_launched(after)
    }

    /// The queue's last command that was held back, if it has not been launched.
    pub(crate) fn last(&self, queue: QueueId) -> Option<Position> {
        self.lock().last(queue)
    }

    /// Whether all of these were launched.
    pub(crate) fn are_launched(&self, positions: &[Position]) -> bool {
        self.lock().are_launched(positions)
    }

    /// Waits while the queue is full. Several callers may then exceed the limit together, by one command each.
    pub(crate) fn wait_for_room(&self, queue: QueueId) {
        let mut state = self.lock();
        while state.buffered(queue) >= BUFFERED_MAX && !state.closed {
            state = self.wait(state);
        }
    }

    /// Holds a command back until it may go. Never waits.
    ///
    /// # Errors
    /// The command itself, with the reason.
    pub(crate) fn submit(
        self: &Arc<Self>,
        queue: QueueId,
        after: Vec<Position>,
        command: D::Command,
    ) -> Result<Position, (Refused, D::Command)> {
        let mut state = self.lock();
        if state.closed {
            return Err((Refused::Closed, command));
        }
        if !state.has_worker(queue) && worker::start(self, queue).is_err() {
            return Err((Refused::NoWorker, command));
        }
        let position = state.push(queue, after, command);
        self.publish(&state);
        Ok(position)
    }

    /// Waits until all of these were launched.
    pub(crate) fn wait_launched(&self, positions: &[Position]) {
        let mut state = self.lock();
        while !state.are_launched(positions) {
            state = self.wait(state);
        }
    }

    /// Waits until everything that is held back now was launched.
    pub(crate) fn wait_all_launched(&self) {
        let positions = self.lock().all_last();
        self.wait_launched(&positions);
    }

    /// Waits as a command would that comes after these: until the queue is not suspended and they were launched.
    pub(crate) fn wait_turn(&self, queue: Option<QueueId>, after: &[Position]) {
        let mut state = self.lock();
        let after: Vec<_> = after.iter().copied().chain(queue.and_then(|queue| state.last(queue))).collect();
        let is_suspended = |state: &State<_>| match queue {
            Some(queue) => state.is_suspended(queue),
            None => state.all_suspended,
        };
        while is_suspended(&state) || !state.are_launched(&after) {
            state = self.wait(state);
        }
    }

    /// Waits as a command would that comes after everything.
    pub(crate) fn wait_turn_of_all(&self) {
        let mut state = self.lock();
        let after = state.all_last();
        while state.is_any_suspended() || !state.are_launched(&after) {
            state = self.wait(state);
        }
    }

    /// Lets everything go and takes nothing more, for a process that ends. Gives up at `deadline`.
    pub(crate) fn close(&self, deadline: Instant) {
        let mut state = self.lock();
        state.close();
        self.publish(&state);
        let positions = state.all_last();
        while !state.are_launched(&positions) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A panic while the lock was held is the shim's own; the state is only changed by whole steps.
    fn lock(&self) -> MutexGuard<'_, State<D::Command>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<D::Command>>) -> MutexGuard<'a, State<D::Command>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change known to those that wait, and to the fast path.
    fn publish(&self, state: &State<D::Command>) {
        self.engaged.store(state.is_engaged(), Ordering::Release);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
