//! Queues that the program itself suspends, one by one: they are *held*.
//!
//! Streams of a program wait for each other, by events and by the rules of null streams. A thread that waits for a held queue
//! could wait for ever: the thread that would resume the queue may wait for it. So this much is promised:
//!
//! * A call for a held queue's own stream waits until the queue is resumed, and so does a thread that waits for what it has itself
//!   put there. That is what suspending is for.
//! * The thread that has suspended a queue does not wait for it: it may be the one that would resume it. What it waits for is
//!   released, also in a call for the queue's own stream. If it finds the queue full, the oldest command is.
//! * For any other thread that waits, what it waits for is *released*: it is launched as if the queue were not held.
//! * A command whose call the program has not made yet ([`CallState::ToBeMade`](crate::CallState::ToBeMade)) is nothing that
//!   another thread has to wait for. It is released only if a call that was made comes after it.

use xsched_sched::Limit;

use crate::clock::now;
use crate::device::Device;
use crate::ids::{ClaimId, Position, QueueId, Source};
use crate::launching::launching_queue;
use crate::queue::Queue;
use crate::state::State;

impl<D: Device> State<D> {
    /// The program suspends a queue from now on; false resumes it.
    pub(crate) fn hold(&mut self, id: QueueId, held: bool) {
        let held = held && !self.mode.closed;
        if let Some(queue) = self.queues.get_mut(id) {
            queue.hold(held);
        }
        if !held {
            self.report_use(id);
        }
    }

    pub(super) fn is_any_held(&self) -> bool {
        self.queues.busy().any(|(_, queue)| queue.is_held())
    }

    /// Whether a queue is one that a call for `own` does not wait for.
    fn is_held_from(&self, id: QueueId, own: Option<QueueId>) -> bool {
        own != Some(id) && self.queues.get(id).is_some_and(Queue::is_held_by_others)
    }

    /// Whether the calling thread has itself suspended a queue.
    pub(crate) fn is_held_by_caller(&self, id: QueueId) -> bool {
        self.queues.get(id).is_some_and(Queue::is_held_by_caller)
    }

    /// A full queue that the calling thread has itself suspended lets its oldest command go. Whether that is new.
    pub(crate) fn release_oldest(&mut self, id: QueueId) -> bool {
        let oldest =
            self.queues.get(id).filter(|queue| queue.is_held_by_caller()).map(|queue| queue.taken() + 1);
        oldest.is_some_and(|number| self.release(Position { queue: id, number }, Some(id)))
    }

    /// The first of these launches that the calling thread has to wait for, in a call for the stream of `own`.
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

    /// Whether a launch waits for the one that the calling thread is making, as a callback's thread does.
    fn waits_for_caller(&self, position: Position) -> bool {
        launching_queue().is_some_and(|own| self.with_all_before(position).any(|before| before.queue == own))
    }

    /// The calling thread waits for this launch, in a call for the stream of `own`: what held queues keep of it, and of what it
    /// comes after, is released. Whether that is new.
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

    /// A command and all that it comes after, directly or not.
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

    /// A queue's stream, if both are there.
    pub(crate) fn stream_of(&self, queue: QueueId) -> Option<D::Stream> {
        self.queues.get(queue)?.stream()
    }

    /// The same as [`Self::last`] as other threads know it.
    pub(crate) fn last_for_others(&self, queue: QueueId) -> Option<Position> {
        self.queues.get(queue)?.last_for_others(queue)
    }

    /// The command of a queue whose launch has begun and has not returned.
    pub(crate) fn last_taken(&self, queue: QueueId) -> Option<Position> {
        self.queues.get(queue)?.last_taken(queue)
    }

    /// A queue belongs to another claim from now on. What it has in flight is not stopped any more: the gate before it is the
    /// former claim's.
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
        let pending = queue.pending();
        self.add_gate(claim, runtime);
        if let Some(queue) = self.queues.get_mut(id) {
            queue.set_claim(claim);
        }
        if let Some(former) = former {
            self.claims.get_mut(former).queue_gone(now());
            self.claims.get_mut(former).launch_at_once(pending, 0);
        }
        self.claims.get_mut(claim).queue_created(now());
        self.claims.get_mut(claim).launch_at_once(0, pending);
        self.apply_limit(id);
        self.report_use(id);
    }

    /// How much a queue may have launched ahead, whether there are others or not: the program may suspend it at any time. None: only
    /// what is due to others counts.
    pub(crate) fn set_queue_limit(&mut self, id: QueueId, limit: Option<Limit>) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.set_own_limit(limit);
        }
        self.apply_limit(id);
        self.count_own_limits();
    }

    /// Counts queues with limits of their own again.
    pub(super) fn count_own_limits(&mut self) {
        self.own_limits = self.queues.values().filter(|queue| queue.own_limit().is_some()).count();
    }

    /// Whether a source is limited also while it has no neighbours.
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

    /// The limit of a queue, by what the program, the environment and the controller say.
    pub(super) fn limit_of_queue(&self, queue: &Queue<D>) -> Limit {
        let gated = queue.claim().filter(|_| queue.uses_gates());
        let limit = self.limit_of(gated, queue.runtime());
        // The controller says how long; a program, by its functions or the environment, how many.
        let is_controllers =
            matches!(self.limits.limit, Limit::Time { .. }) && self.limits.limit != Limit::default();
        queue.own_limit().filter(|_| !is_controllers).unwrap_or(limit)
    }

    fn apply_limit(&mut self, id: QueueId) {
        let limit = self.queues.get(id).map(|queue| self.limit_of_queue(queue));
        if let Some((queue, limit)) = self.queues.get_mut(id).zip(limit) {
            queue.flight_mut().set_limit(limit);
        }
    }

    /// Whether gates may stop the commands of a source. The program says so of queues only.
    pub(super) fn allows_gates(&self, source: Source) -> bool {
        match source {
            Source::Queue(queue) => self.queues.get(queue).is_some_and(Queue::uses_gates),
            Source::Unqueued(_) => true,
        }
    }
}
