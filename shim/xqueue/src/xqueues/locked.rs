//! The state under its lock. Threads that a change concerns are woken only after the lock is released. If they were woken before,
//! they would run at once, on the same processor, only to wait for the lock.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use crate::device::Device;
use crate::ids::{Position, QueueId};
use crate::state::State;
use crate::status::AdmissionMode;
use crate::xqueues::{WAIT_MAX, XQueues};

/// The state of all queues, locked.
#[must_use]
pub(super) struct Locked<'a, D: Device> {
    /// Some until the lock is released.
    guard: Option<MutexGuard<'a, State<D>>>,
    changed: &'a Condvar,
}

impl<'a, D: Device> Locked<'a, D> {
    pub(super) fn new(state: MutexGuard<'a, State<D>>, changed: &'a Condvar) -> Self {
        Self { guard: Some(state), changed }
    }

    /// Releases the lock until this rings, or until `limit` is over.
    fn wait(mut self, on: &Condvar, limit: Duration) -> Self {
        if let Some(mut state) = self.guard.take() {
            mem::take(&mut state.waiters.wakes).wake(self.changed);
            let state = on.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0;
            self.guard = Some(state);
        }
        self
    }
}

const IS_LOCKED: &str = "it is released at its end only";

impl<D: Device> Deref for Locked<'_, D> {
    type Target = State<D>;

    #[inline]
    fn deref(&self) -> &State<D> {
        self.guard.as_ref().expect(IS_LOCKED)
    }
}

impl<D: Device> DerefMut for Locked<'_, D> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State<D> {
        self.guard.as_mut().expect(IS_LOCKED)
    }
}

impl<D: Device> Drop for Locked<'_, D> {
    fn drop(&mut self) {
        if let Some(mut state) = self.guard.take()
            && !state.waiters.wakes.is_empty()
        {
            let wakes = mem::take(&mut state.waiters.wakes);
            drop(state);
            wakes.wake(self.changed);
        }
    }
}

impl<D: Device> XQueues<D> {
    /// Tells a change to waiting threads and to those that read the admission mode.
    pub(super) fn publish(&self, state: &mut State<D>) {
        self.publish_to_callers(state);
        state.wake_concerned_worker();
    }

    /// Tells a change to all but workers. The calling worker itself looks next at what may be launched.
    pub(super) fn publish_to_callers(&self, state: &mut State<D>) {
        self.publish_quietly(state);
        state.wake_concerned_callers();
    }

    /// Tells a change to threads that read the admission mode. No waiting thread is concerned.
    pub(super) fn publish_quietly(&self, state: &mut State<D>) {
        let mode = state.admission_mode();
        if mode != AdmissionMode::Beside {
            state.close_journals();
        }
        self.mode.set(mode);
    }

    /// A caller waits for the next change, or until it must look again anyway.
    pub(super) fn wait<'a>(&self, mut state: Locked<'a, D>) -> Locked<'a, D> {
        state.waiters.callers += 1;
        let mut state = state.wait(&self.changed, WAIT_MAX);
        state.waiters.callers -= 1;
        state
    }

    /// A caller waits until all of these were launched. It is in a call for the stream of `own`.
    pub(super) fn wait_for_launches<'a>(
        &'a self,
        mut state: Locked<'a, D>,
        own: Option<QueueId>,
        positions: &[Position],
    ) -> Locked<'a, D> {
        while let Some(awaited) = state.awaited(positions, own) {
            // A queue may be suspended while this waits.
            if state.release(awaited, own) {
                self.publish(&mut state);
            }
            state.waiters.await_launch(awaited);
            state = self.wait(state);
            state.waiters.await_launch_no_more(awaited);
        }
        state
    }

    /// A worker waits until its queue may launch, or until `limit` is over.
    pub(super) fn sleep(mut state: Locked<'_, D>, id: QueueId, limit: Duration) -> Locked<'_, D> {
        let Some(queue) = state.queue_mut(id) else { return state };
        let wakeup = queue.worker_sleeps();
        let mut state = state.wait(&wakeup, limit);
        if let Some(queue) = state.queue_mut(id) {
            queue.worker_woke();
        }
        state
    }
}
