//! Who is woken by what.
//!
//! To wake everybody at every change is simple, and dear: with a few streams held back, each launch would wake the workers
//! of all of them, to find that it is not their turn. So one worker is woken, that of the queue whose command may go next;
//! one that is awake launches for all queues. Callers that wait for launches are woken when one of these has returned, or else a
//! caller that waits for the last of many commands would be woken by each of them, which takes longer than to launch it; callers
//! that wait for anything else are woken by every change.
//!
//! They are woken when the lock is free again: on the processor of whoever wakes them they would else begin at once, to wait for
//! the lock.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use crate::queues::state::State;
use crate::queues::{Device, Position, QueueId, WAIT_MAX, XQueues};

/// Who is to be woken.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    workers: Vec<Arc<Condvar>>,
    callers: bool,
}

impl Wakes {
    fn is_empty(&self) -> bool {
        self.workers.is_empty() && !self.callers
    }

    fn wake(self, callers: &Condvar) {
        self.workers.iter().for_each(|worker| worker.notify_one());
        if self.callers {
            callers.notify_all();
        }
    }
}

/// The state of all queues, locked. Whoever is to be woken is when it is let go.
#[must_use]
pub(super) struct Locked<'a, D: Device> {
    /// There until it is let go.
    guard: Option<MutexGuard<'a, State<D>>>,
    changed: &'a Condvar,
}

impl<'a, D: Device> Locked<'a, D> {
    pub(super) fn new(state: MutexGuard<'a, State<D>>, changed: &'a Condvar) -> Self {
        Self { guard: Some(state), changed }
    }

    /// Lets it go until this rings, for so long at most.
    fn wait(mut self, on: &Condvar, limit: Duration) -> Self {
        if let Some(mut state) = self.guard.take() {
            std::mem::take(&mut state.wakes).wake(self.changed);
            let state = on.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0;
            self.guard = Some(state);
        }
        self
    }
}

const IS_LOCKED: &str = "it is let go at its end only";

impl<D: Device> Deref for Locked<'_, D> {
    type Target = State<D>;

    fn deref(&self) -> &State<D> {
        self.guard.as_ref().expect(IS_LOCKED)
    }
}

impl<D: Device> DerefMut for Locked<'_, D> {
    fn deref_mut(&mut self) -> &mut State<D> {
        self.guard.as_mut().expect(IS_LOCKED)
    }
}

impl<D: Device> Drop for Locked<'_, D> {
    fn drop(&mut self) {
        if let Some(mut state) = self.guard.take()
            && !state.wakes.is_empty()
        {
            let wakes = std::mem::take(&mut state.wakes);
            drop(state);
            wakes.wake(self.changed);
        }
    }
}

impl<D: Device> XQueues<D> {
    /// Makes a change known to those that wait, and to the fast path.
    pub(super) fn publish(&self, state: &mut State<D>) {
        self.publish_to_callers(state);
        let Some(next) = state.next_to_go() else { return };
        // A worker may be launching for another queue, whose own can do its part then.
        let sleeping = state.queues.iter().filter(|(_, queue)| queue.worker_sleeps).map(|(&id, _)| id);
        let Some(woken) = sleeping.min_by_key(|&id| id != next) else { return };
        if let Some(queue) = state.queues.get_mut(&woken) {
            // Whoever comes next need not wake it again.
            queue.worker_sleeps = false;
            state.wakes.workers.push(Arc::clone(&queue.bell));
        }
    }

    /// The same, of a worker that goes on to look for itself what may go.
    pub(super) fn publish_to_callers(&self, state: &mut State<D>) {
        self.publish_quietly(state);
        state.wakes.callers |= state.concerns_callers();
    }

    /// Makes a change known to the fast path: nobody waits for it.
    pub(super) fn publish_quietly(&self, state: &State<D>) {
        self.shown.show(state.course());
    }

    /// A caller waits for the next change, or for as long as nobody waits without looking again.
    pub(super) fn wait<'a>(&self, mut state: Locked<'a, D>) -> Locked<'a, D> {
        state.callers += 1;
        let mut state = state.wait(&self.changed, WAIT_MAX);
        state.callers -= 1;
        state
    }

    /// A caller waits until all of these were launched.
    pub(super) fn wait_for_launches<'a>(
        &'a self,
        mut state: Locked<'a, D>,
        positions: &[Position],
    ) -> Locked<'a, D> {
        while let Some(&awaited) = positions.iter().find(|position| !state.is_launched(position)) {
            state.awaited_launches.push(awaited);
            state = self.wait(state);
            state.await_no_more(awaited);
        }
        state
    }

    /// A worker waits until it is its queue's turn, or for so long.
    pub(super) fn sleep(mut state: Locked<'_, D>, id: QueueId, limit: Duration) -> Locked<'_, D> {
        let Some(queue) = state.queues.get_mut(&id) else { return state };
        queue.worker_sleeps = true;
        let bell = Arc::clone(&queue.bell);
        let mut state = state.wait(&bell, limit);
        if let Some(queue) = state.queues.get_mut(&id) {
            queue.worker_sleeps = false;
        }
        state
    }
}
