//! Which deferred command is launched next.

use xsched_sched::Nanos;

use crate::command::{Delay, Demand, PendingLaunch, Treatment};
use crate::device::Device;
use crate::ids::{Position, QueueId, Source};
use crate::launching::launching_queue;
use crate::planted::Bugs;
use crate::queue::{DeferredCommand, Queue};
use crate::registration::AdmissionState;
use crate::state::State;

/// Why a command cannot be deferred.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full.
    Full,
    /// Nothing is deferred for now.
    DefersNothing,
    /// The system gives no thread for a launch worker.
    NoWorker,
    /// The process ends.
    Closed,
    /// The queue was destroyed, or its stream is gone.
    Gone,
}

/// A command that is about to be launched, with its queue.
pub(crate) struct TakenCommand<D: Device> {
    pub(crate) queue: QueueId,
    pub(crate) command: D::Command,
    /// None if the command's completion is not followed.
    pub(crate) launch: Option<PendingLaunch<D>>,
}

/// A command that was just deferred.
pub(crate) struct Pushed {
    pub(crate) position: Position,
    /// Whether the queue had nothing deferred before it.
    pub(crate) is_first: bool,
}

impl<D: Device> State<D> {
    pub(crate) fn suspend(&mut self, queue: QueueId, suspended: bool) {
        let suspended = suspended && !self.mode.closed;
        self.queues.keep(queue, |queue| queue.suspend(suspended));
    }

    /// Whether the queue must not launch its next command.
    pub(crate) fn is_suspended(&self, queue: QueueId) -> bool {
        self.is_kept(queue, Queue::is_next_held)
    }

    /// Whether the calling thread must not launch a command itself behind everything that a queue has. It need not wait for what
    /// it suspended itself.
    pub(crate) fn is_suspended_for_caller(&self, queue: QueueId) -> bool {
        self.is_kept(queue, |queue| queue.is_next_held() && !queue.is_held_by_caller())
    }

    fn is_kept(&self, queue: QueueId, is_held: impl FnOnce(&Queue<D>) -> bool) -> bool {
        let is_all_suspended = self.mode.all_suspended;
        let Some(queue) = self.queues.get(queue) else { return is_all_suspended };
        is_all_suspended
            || queue.is_suspended()
            || is_held(queue)
            || queue.claim().is_some_and(|claim| self.is_preempted(claim))
    }

    fn is_any_queue_suspended(&self) -> bool {
        self.queues.kept().any(Queue::is_suspended)
    }

    /// Whether anything is suspended, other than by the program itself.
    pub(crate) fn is_any_suspended(&self) -> bool {
        self.mode.all_suspended
            || self.is_any_queue_suspended()
            || self.claims.ids().any(|claim| self.is_preempted(claim))
    }

    /// Whether any queue is suspended or held.
    pub(crate) fn is_any_queue_kept(&self) -> bool {
        self.queues.kept().next().is_some()
    }

    /// Whether no command is deferred in the queue, and each launch of a deferred one has returned.
    pub(crate) fn is_drained(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_none_or(Queue::is_drained)
    }

    /// Whether any deferred command's launch has not returned.
    pub(crate) fn is_any_deferred(&self) -> bool {
        self.queues.is_any_deferring()
    }

    /// Whether any deferred command's launch has not begun.
    pub(crate) fn is_any_buffered(&self) -> bool {
        self.queues.is_any_buffered()
    }

    pub(crate) fn is_full(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_some_and(Queue::is_full)
    }

    /// Why a command of the queue cannot be deferred now; None if it can.
    pub(crate) fn refusal(&self, queue: QueueId) -> Option<Refused> {
        match () {
            () if self.mode.closed => Some(Refused::Closed),
            () if self.queues.get(queue).is_none_or(|queue| queue.stream().is_none()) => Some(Refused::Gone),
            () if self.mode.defers_nothing => Some(Refused::DefersNothing),
            () if self.is_full(queue) => Some(Refused::Full),
            () => None,
        }
    }

    pub(crate) fn has_worker(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_some_and(Queue::has_worker)
    }

    /// Lets the queue's worker end if the queue has nothing for it. Returns false if it has.
    pub(crate) fn dismiss_worker(&mut self, queue: QueueId) -> bool {
        self.queues.get_mut(queue).is_none_or(Queue::dismiss_worker)
    }

    /// A queue whose worker sleeps.
    pub(crate) fn queue_mut(&mut self, queue: QueueId) -> Option<&mut Queue<D>> {
        self.queues.get_mut(queue)
    }

    /// Defers a command of a queue that has a worker.
    pub(crate) fn push(
        &mut self,
        queue: QueueId,
        after: Vec<Position>,
        demand: Demand,
        command: D::Command,
        now: Nanos,
    ) -> Pushed {
        let is_first = self.queues.get(queue).is_none_or(|queue| queue.first().is_none());
        let position = self.queues.push(queue, after, demand, command, now);
        self.report_use(queue);
        self.note_wait(queue, position.number, demand, now);
        if demand.treatment.is_forced() {
            self.force(&[position]);
        }
        Pushed { position, is_first }
    }

    /// Whether the watcher must know what is deferred in a queue.
    pub(crate) fn is_watched(&self, queue: QueueId) -> bool {
        let Some(claim) = self.claim_of(queue) else { return false };
        self.is_recorded()
            || self.limits_itself(Source::Queue(queue))
            || self.claims.get(claim).admission_state() != AdmissionState::Alone
    }

    /// The queue's last command, if its launch has not returned.
    pub(crate) fn last(&self, queue: QueueId) -> Option<Position> {
        self.queues.get(queue)?.last(queue)
    }

    /// The same for all queues, as other threads see it.
    pub(crate) fn all_last(&self) -> Vec<Position> {
        self.queues.deferring().filter_map(|(id, queue)| queue.last_for_others(id)).collect()
    }

    pub(crate) fn are_launched(&self, positions: &[Position]) -> bool {
        positions.iter().all(|position| self.is_launched(position))
    }

    pub(crate) fn is_launched(&self, position: &Position) -> bool {
        // A command that the calling thread is launching cannot wait for itself, nor for what comes after it in its queue.
        launching_queue() == Some(position.queue)
            || self.queues.get(position.queue).is_none_or(|queue| queue.is_launched(position.number))
    }

    /// The queue whose next command is to be launched, if any may be launched now.
    ///
    /// The oldest command of all queues comes first. HIP promises no order between streams, but they share hardware queues: a
    /// wait that is launched before what it waits for would hold up both.
    pub(super) fn next_to_launch(&self) -> Option<QueueId> {
        // A queue that is launching is no candidate: that launch may never return.
        let mut candidates = self.queues.oldest_first();
        let may_launch = |id: QueueId, first: &DeferredCommand<_>| {
            let may_launch =
                || !self.is_suspended(id) && self.may_launch_ahead(Source::Queue(id), first.demand.load);
            (self.is_next_forced(id) || may_launch()) && self.are_launched(&first.after)
        };
        let (ticket, id, _) =
            candidates.find(|&(_, id, queue)| queue.first().is_some_and(|first| may_launch(id, first)))?;
        (!self.queues.is_older_launching(ticket)).then_some(id)
    }

    /// Takes the command that is to be launched next, if any may be.
    pub(crate) fn take(&mut self, bugs: Bugs) -> Option<TakenCommand<D>> {
        let id = self.next_to_launch()?;
        let first = self.queues.get(id)?.first()?;
        let (mut demand, delay) = (first.demand, Delay::Deferred(first.number, first.since));
        if self.is_next_forced(id) && demand.treatment == Treatment::Schedule {
            // A command that comes after this one must not wait for it.
            demand.treatment = Treatment::Pinned;
        }
        let launch = self.begin(id, demand, delay);
        let command = self.queues.take(id, bugs)?;
        Some(TakenCommand { queue: id, command, launch })
    }

    /// The launch of the command that was taken last from this queue has returned.
    pub(crate) fn deferred_launch_returned(&mut self, queue: QueueId) {
        self.queues.launch_returned(queue);
        self.report_uses_after(queue);
    }
}
