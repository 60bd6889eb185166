//! Which callers wait, and which threads to wake.
//!
//! To wake every thread at every change would be simple and expensive. With a few streams deferred, each launch would wake all
//! their workers, and most would find nothing to do. So one worker is woken, that of the queue whose command may be launched
//! next. A worker that is awake launches for all queues.
//!
//! A caller that waits for launches is woken when one of those launches has returned. Otherwise each launch would wake a caller
//! that waits for the last of many, which takes longer than the launch. Callers that wait for anything else are woken by every
//! change.

use std::sync::{Arc, Condvar};

use crate::device::Device;
use crate::ids::Position;
use crate::queue::Queue;
use crate::state::State;

/// Threads to wake.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    workers: Vec<Arc<Condvar>>,
    callers: bool,
}

impl Wakes {
    pub(crate) fn is_empty(&self) -> bool {
        self.workers.is_empty() && !self.callers
    }

    /// Wakes the threads. `callers` wakes all waiting callers.
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
    /// How many callers wait for a change.
    pub(crate) callers: usize,
    /// For each caller that waits for launches, the next of them.
    launches: Vec<Position>,
    /// How many callers wait in place for admission. One that is about to look again counts, too.
    pub(crate) in_place: usize,
    /// Threads to wake when the lock is released.
    pub(crate) wakes: Wakes,
}

impl Waiters {
    /// A caller begins to wait for this launch.
    pub(crate) fn await_launch(&mut self, launch: Position) {
        self.launches.push(launch);
    }

    /// A caller no longer waits for this launch.
    pub(crate) fn await_launch_no_more(&mut self, launch: Position) {
        let known = self.launches.iter().position(|position| *position == launch);
        known.map(|known| self.launches.swap_remove(known));
    }
}

impl<D: Device> State<D> {
    /// Notes a change: callers that it may concern are woken when the lock is released.
    pub(crate) fn wake_concerned_callers(&mut self) {
        let is_concerned = self.waiters.callers > self.waiters.launches.len()
            || self.waiters.launches.iter().any(|position| self.is_launched(position));
        self.waiters.wakes.callers |= is_concerned;
    }

    /// The same for a worker, if a command may be launched now.
    pub(crate) fn wake_concerned_worker(&mut self) {
        let Some(next) = self.next_to_launch() else { return };
        // The worker of that queue may be busy with another queue's launch. The worker of that other queue can then take over.
        let is_asleep = |id| self.queues.get(id).is_some_and(Queue::is_worker_asleep);
        let any_asleep = || self.queues.busy().find(|(_, queue)| queue.is_worker_asleep()).map(|(id, _)| id);
        let Some(woken) = Some(next).filter(|&id| is_asleep(id)).or_else(any_asleep) else { return };
        if let Some(queue) = self.queues.get_mut(woken) {
            self.waiters.wakes.workers.push(queue.wake_worker());
        }
    }
}
