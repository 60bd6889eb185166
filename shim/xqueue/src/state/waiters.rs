//! Which callers wait, and which threads are to be woken.
//!
//! Waking every thread at every change would be simple and expensive. With a few streams deferred, each launch would wake the
//! workers of all of them, most of which would find nothing to do. So one worker is woken, that of the queue whose command may
//! be launched next; a worker that is awake launches for all queues. Callers that wait for launches are woken when one of these
//! launches has returned. Otherwise a caller that waits for the last of many commands would be woken by each of them, which
//! takes longer than to launch it. Callers that wait for anything else are woken by every change.

use std::sync::{Arc, Condvar};

use crate::device::Device;
use crate::ids::Position;
use crate::state::State;

/// Threads that are to be woken.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    workers: Vec<Arc<Condvar>>,
    callers: bool,
}

impl Wakes {
    pub(crate) fn is_empty(&self) -> bool {
        self.workers.is_empty() && !self.callers
    }

    /// Wakes them; `callers` wakes all callers that wait.
    pub(crate) fn wake(self, callers: &Condvar) {
        self.workers.iter().for_each(|worker| worker.notify_one());
        if self.callers {
            callers.notify_all();
        }
    }
}

/// Callers that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Callers that wait for a change.
    pub(crate) callers: usize,
    /// Of those that wait for launches, what each waits for next.
    launches: Vec<Position>,
    /// Callers that wait in place until something may be launched, also while they look whether it may.
    pub(crate) in_place: usize,
    /// Threads that are woken when the lock is released.
    pub(crate) wakes: Wakes,
}

impl Waiters {
    /// A caller waits for this launch.
    pub(crate) fn await_launch(&mut self, launch: Position) {
        self.launches.push(launch);
    }

    /// It does so no more.
    pub(crate) fn await_launch_no_more(&mut self, launch: Position) {
        let known = self.launches.iter().position(|position| *position == launch);
        known.map(|known| self.launches.swap_remove(known));
    }
}

impl<D: Device> State<D> {
    /// Something has changed: callers that it may concern are woken when the lock is released.
    pub(crate) fn wake_concerned_callers(&mut self) {
        let is_concerned = self.waiters.callers > self.waiters.launches.len()
            || self.waiters.launches.iter().any(|position| self.is_launched(position));
        self.waiters.wakes.callers |= is_concerned;
    }

    /// The same for a worker, if a command may be launched now.
    pub(crate) fn wake_concerned_worker(&mut self) {
        let Some(next) = self.next_to_launch() else { return };
        // The worker of that queue may be launching for another queue, whose own worker can do its part then.
        let sleeping = self.queues.busy().filter(|(_, queue)| queue.is_worker_asleep()).map(|(id, _)| id);
        let Some(woken) = sleeping.min_by_key(|&id| id != next) else { return };
        if let Some(queue) = self.queues.get_mut(woken) {
            self.waiters.wakes.workers.push(queue.wake_worker());
        }
    }
}
