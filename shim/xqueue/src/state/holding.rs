//! *Held* queues: those that the program itself suspends.
//!
//! Streams of a program wait for each other, by events and by the rules of null streams. A thread that waits for a held queue
//! could wait for ever, if the thread that would resume the queue waits for it. So these promises hold:
//!
//! * A call for a held queue's own stream waits until the queue is resumed. So does a thread that waits for what it put there
//!   itself. Suspending is meant to do that.
//! * The thread that suspended a queue does not wait for it, since it may be the one to resume it. What the thread waits for is
//!   *released*, even in a call for the queue's own stream. If the queue is full, its oldest command is released.
//! * What any other thread waits for is released, too: it is launched as if the queue were not held.
//! * A command whose call the program has not made yet ([`CallState::ToBeMade`](crate::CallState::ToBeMade)) keeps no other
//!   thread waiting. It is released only if a call that was made comes after it.

use xsched_sched::Limit;

use crate::clock::now;
use crate::device::Device;
use crate::ids::{ClaimId, Position, QueueId, Source};
use crate::launching::launching_queue;
use crate::queue::Queue;
use crate::state::State;

impl<D: Device> State<D> {
    /// The calling thread suspends the queue on the program's behalf; false resumes it.
    pub(crate) fn hold(&mut self, id: QueueId, held: bool) {
        let held = held && !self.mode.closed;
        self.queues.keep(id, |queue| queue.hold(held));
        if !held {
            self.report_use(id);
        }
    }

    pub(super) fn is_any_held(&self) -> bool {
        self.queues.kept().any(Queue::is_held)
    }

    /// Whether a queue is held, and a call for the stream of `own` need not wait until it is resumed.
    fn is_held_from(&self, id: QueueId, own: Option<QueueId>) -> bool {
        own != Some(id) && self.queues.get(id).is_some_and(Queue::is_held_by_others)
    }

    /// Whether the calling thread itself suspended a queue.
    pub(crate) fn is_held_by_caller(&self, id: QueueId) -> bool {
        self.queues.get(id).is_some_and(Queue::is_held_by_caller)
    }

    /// Releases the oldest command of a full queue that the calling thread itself suspended. Returns whether it was not released
    /// before.
    pub(crate) fn release_oldest(&mut self, id: QueueId) -> bool {
        let oldest =
            self.queues.get(id).filter(|queue| queue.is_held_by_caller()).map(|queue| queue.taken() + 1);
        oldest.is_some_and(|number| self.release(Position { queue: id, number }, Some(id)))
    }

    /// The first of these launches that the calling thread must wait for, in a call for the stream of `own`.
    pub(crate) fn awaited(&self, positions: &[Position], own: Option<QueueId>) -> Option<Position> {
        let is_awaited = |position: &Position| {
            let is_made =
                || self.queues.get(position.queue).is_some_and(|queue| queue.is_made(position.number));
            !self.is_launched(position)
                && !self.waits_for_caller(*position)
                && (!self.is_held_from(position.queue, own) || is_made())
        };
        positions.iter().find(|position| is_awaited(position)).copied()
    }

    /// Whether a launch comes after the one that the calling thread is making: a callback's thread would wait for itself.
    fn waits_for_caller(&self, position: Position) -> bool {
        launching_queue().is_some_and(|own| self.with_all_before(position).any(|before| before.queue == own))
    }

    /// Releases, for a thread that waits for this launch in a call for the stream of `own`: the launch and all that it comes
    /// after. Returns whether any of that was not released before.
    pub(crate) fn release(&mut self, awaited: Position, own: Option<QueueId>) -> bool {
        if !self.is_any_held() {
            return false;
        }
        let mut is_new = false;
        let needed: Vec<_> = self.with_all_before(awaited).collect();
        for position in needed {
            let is_held_from =
                self.is_held_from(position.queue, own) || self.is_held_by_caller(position.queue);
            let Some(queue) = self.queues.get_mut(position.queue) else { continue };
            if is_held_from && queue.release(position.number) {
                is_new = true;
                self.report_use(position.queue);
            }
        }
        is_new
    }

    /// A command and all commands that it comes after, directly or not.
    fn with_all_before(&self, position: Position) -> impl Iterator<Item = Position> {
        let mut seen: Vec<Position> = Vec::new();
        let mut left = vec![position];
        std::iter::from_fn(move || {
            loop {
                let next = left.pop()?;
                if seen.iter().any(|seen| seen.queue == next.queue && seen.number >= next.number) {
                    continue;
                }
                seen.push(next);
                if let Some(queue) = self.queues.get(next.queue) {
                    left.extend(queue.before(next.number));
                }
                return Some(next);
            }
        })
    }

    /// The stream of a queue. None if either is gone.
    pub(crate) fn stream_of(&self, queue: QueueId) -> Option<D::Stream> {
        self.queues.get(queue)?.stream()
    }

    /// The same as [`Self::last`], as other threads see it.
    pub(crate) fn last_for_others(&self, queue: QueueId) -> Option<Position> {
        self.queues.get(queue)?.last_for_others(queue)
    }

    /// The command of a queue whose launch has begun and has not returned.
    pub(crate) fn last_taken(&self, queue: QueueId) -> Option<Position> {
        self.queues.get(queue)?.last_taken(queue)
    }

    /// Moves a queue to another claim, with the callers that wait for its admission. What it has in flight is pinned: the gates before it
    /// belong to the former claim.
    pub(crate) fn move_to_claim(&mut self, id: QueueId, claim: ClaimId) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        let (former, runtime) = (queue.claim(), queue.runtime());
        if former == Some(claim) || queue.stream().is_none() {
            return;
        }
        if !queue.flight().is_empty() {
            queue.flight_mut().pin();
            self.may_be_pinned = true;
        }
        queue.journal().close();
        let (pending, waiting) = (queue.journal().counted(), queue.waiting_callers());
        self.add_gate(claim, runtime);
        if let Some(queue) = self.queues.get_mut(id) {
            queue.set_claim(claim);
            queue.flight_mut().share(self.claims.get(claim).unqueued().durations());
        }
        if let Some(former) = former {
            self.claims.get_mut(former).queue_gone(now());
            self.claims.get_mut(former).launch_at_once(pending, 0);
            self.claims.get_mut(former).callers_wait_no_more(waiting);
        }
        self.claims.get_mut(claim).queue_created(now());
        self.claims.get_mut(claim).launch_at_once(0, pending);
        self.callers_wait(claim, waiting);
        self.apply_limit(id);
        self.report_use(id);
        if self.is_any_launched(claim) {
            self.report_work(claim);
        }
    }

    /// Limits what a queue may have launched ahead even without other processes: the program may suspend the queue at any time.
    /// None removes that limit.
    pub(crate) fn set_queue_limit(&mut self, id: QueueId, limit: Option<Limit>) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.set_own_limit(limit);
        }
        self.apply_limit(id);
        self.count_own_limits();
    }

    /// Counts the queues with limits of their own again.
    pub(super) fn count_own_limits(&mut self) {
        self.own_limits = self.queues.values().filter(|queue| queue.own_limit().is_some()).count();
    }

    /// Whether a source has a limit even without other processes.
    pub(super) fn limits_itself(&self, source: Source) -> bool {
        match source {
            Source::Queue(queue) if self.own_limits > 0 => {
                self.queues.get(queue).is_some_and(|queue| queue.own_limit().is_some())
            }
            Source::Queue(_) | Source::Unqueued(_) => false,
        }
    }

    pub(super) fn does_any_limit_itself(&self) -> bool {
        self.own_limits > 0
    }

    /// Whether gates may stop a queue's commands on the device.
    pub(crate) fn use_queue_gates(&mut self, id: QueueId, uses_gates: bool) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.use_gates(uses_gates);
        }
        self.apply_limit(id);
    }

    /// The limit of a queue, from the program, the environment and the controller.
    pub(super) fn limit_of_queue(&self, queue: &Queue<D>) -> Limit {
        let gated = queue.claim().filter(|_| queue.uses_gates());
        let limit = self.limit_of(gated, queue.runtime());
        // The controller limits by time, a program or the environment by number.
        let is_controllers =
            matches!(self.limits.limit, Limit::Time { .. }) && self.limits.limit != Limit::default();
        queue.own_limit().filter(|_| !is_controllers).unwrap_or(limit)
    }

    /// Sets the limit of a queue again. A journal that is open for what the former limit left, or for a gate that may be gone, is closed.
    pub(super) fn apply_limit(&mut self, id: QueueId) {
        let limit = self.queues.get(id).map(|queue| self.limit_of_queue(queue));
        if let Some((queue, limit)) = self.queues.get_mut(id).zip(limit) {
            queue.flight_mut().set_limit(limit);
            if queue.journal().is_below() {
                queue.journal().close();
            }
        }
    }

    /// Whether gates may stop the commands of a source. A program can forbid that for queues only.
    pub(super) fn allows_gates(&self, source: Source) -> bool {
        match source {
            Source::Queue(queue) => self.queues.get(queue).is_some_and(Queue::uses_gates),
            Source::Unqueued(_) => true,
        }
    }
}
