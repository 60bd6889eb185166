//! Who is woken by what.
//!
//! To wake everybody at every change is simple, and dear: with a few streams held back, each launch would wake the workers
//! of all of them, to find that it is not their turn. So one worker is woken, that of the queue whose command may go next;
//! one that is awake launches for all queues. Callers that wait for launches are woken when one of these has returned, or else a
//! caller that waits for the last of many commands would be woken by each of them, which takes longer than to launch it; callers
//! that wait for anything else are woken by every change.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use crate::xqueue::state::State;
use crate::xqueue::{Device, Position, QueueId, WAIT_MAX, XQueues};

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
            queue.bell.notify_one();
        }
    }

    /// The same, of a worker that goes on to look for itself what may go.
    pub(super) fn publish_to_callers(&self, state: &State<D>) {
        self.publish_quietly(state);
        if state.concerns_callers() {
            self.changed.notify_all();
        }
    }

    /// Makes a change known to the fast path: nobody waits for it.
    pub(super) fn publish_quietly(&self, state: &State<D>) {
        self.shown.show(state.course());
    }

    /// A caller waits for the next change, or for as long as nobody waits without looking again.
    pub(super) fn wait<'a>(&self, mut state: MutexGuard<'a, State<D>>) -> MutexGuard<'a, State<D>> {
        state.callers += 1;
        let mut state = self.changed.wait_timeout(state, WAIT_MAX).unwrap_or_else(PoisonError::into_inner).0;
        state.callers -= 1;
        state
    }

    /// A caller waits until all of these were launched.
    pub(super) fn wait_for_launches<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<D>>,
        positions: &[Position],
    ) -> MutexGuard<'a, State<D>> {
        while let Some(&awaited) = positions.iter().find(|position| !state.is_launched(position)) {
            state.awaited_launches.push(awaited);
            state = self.wait(state);
            state.await_no_more(awaited);
        }
        state
    }

    /// A worker waits until it is its queue's turn, or for so long.
    pub(super) fn sleep(
        mut state: MutexGuard<'_, State<D>>,
        id: QueueId,
        limit: Duration,
    ) -> MutexGuard<'_, State<D>> {
        let Some(queue) = state.queues.get_mut(&id) else { return state };
        queue.worker_sleeps = true;
        let bell = Arc::clone(&queue.bell);
        let mut state = bell.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0;
        if let Some(queue) = state.queues.get_mut(&id) {
            queue.worker_sleeps = false;
        }
        state
    }
}
