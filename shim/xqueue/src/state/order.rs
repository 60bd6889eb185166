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

/// Why a command is not deferred.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue holds as many commands as it can.
    Full,
    /// Nothing is deferred at present.
    DefersNothing,
    /// The system gives no thread to launch it from.
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
    /// None if its end is not followed.
    pub(crate) launch: Option<PendingLaunch<D>>,
}

/// A command that was deferred just now.
pub(crate) struct Pushed {
    pub(crate) position: Position,
    /// Nothing was before it in its queue's buffer.
    pub(crate) is_first: bool,
}

impl<D: Device> State<D> {
    pub(crate) fn suspend(&mut self, queue: QueueId, suspended: bool) {
        let suspended = suspended && !self.mode.closed;
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.suspend(suspended);
        }
    }

    /// Whether a queue may not launch its next command.
    pub(crate) fn is_suspended(&self, queue: QueueId) -> bool {
        self.is_kept(queue, Queue::is_next_held)
    }

    /// Whether the calling thread may not launch a command itself behind all that a queue has: it does not wait for what it has
    /// itself suspended.
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
        self.queues.busy().any(|(_, queue)| queue.is_suspended())
    }

    /// Whether anything is suspended by anything but the program itself.
    pub(crate) fn is_any_suspended(&self) -> bool {
        self.mode.all_suspended
            || self.is_any_queue_suspended()
            || self.claims.ids().any(|claim| self.is_preempted(claim))
    }

    /// Whether any queue is suspended, by whatever.
    pub(crate) fn is_any_queue_kept(&self) -> bool {
        self.is_any_queue_suspended() || self.is_any_held()
    }

    /// Whether all of the queue's deferred commands were launched, and their launches have returned.
    pub(crate) fn is_drained(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_none_or(Queue::is_drained)
    }

    /// Whether any command was deferred that has not been launched.
    pub(crate) fn is_any_deferred(&self) -> bool {
        self.queues.busy().any(|(_, queue)| !queue.is_drained())
    }

    /// Whether any command is in a buffer: its launch has not begun.
    pub(crate) fn is_any_buffered(&self) -> bool {
        self.queues.is_any_buffered()
    }

    pub(crate) fn is_full(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_some_and(Queue::is_full)
    }

    /// Why a command of a queue cannot be deferred now, if so.
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

    /// Lets the queue's worker end if there is nothing to do for it. False if there is.
    pub(crate) fn dismiss_worker(&mut self, queue: QueueId) -> bool {
        self.queues.get_mut(queue).is_none_or(Queue::dismiss_worker)
    }

    /// A queue, of which a worker sleeps.
    pub(crate) fn queue_mut(&mut self, queue: QueueId) -> Option<&mut Queue<D>> {
        self.queues.get_mut(queue)
    }

    /// Defers a command of a queue that has a worker by now.
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

    /// Whether the watcher must know what waits in a queue.
    pub(crate) fn is_watched(&self, queue: QueueId) -> bool {
        let Some(claim) = self.claim_of(queue) else { return false };
        self.is_recorded()
            || self.limits_itself(Source::Queue(queue))
            || self.claims.get(claim).admission_state() != AdmissionState::Alone
    }

    /// The queue's last deferred command, if it has not been launched.
    pub(crate) fn last(&self, queue: QueueId) -> Option<Position> {
        self.queues.get(queue)?.last(queue)
    }

    /// The same of all queues, as other threads know it.
    pub(crate) fn all_last(&self) -> Vec<Position> {
        self.queues.busy().filter_map(|(id, queue)| queue.last_for_others(id)).collect()
    }

    pub(crate) fn are_launched(&self, positions: &[Position]) -> bool {
        positions.iter().all(|position| self.is_launched(position))
    }

    pub(crate) fn is_launched(&self, position: &Position) -> bool {
        // A command that the calling thread is launching cannot wait for itself, nor for what is behind it.
        launching_queue() == Some(position.queue)
            || self.queues.get(position.queue).is_none_or(|queue| queue.is_launched(position.number))
    }

    /// The queue whose next command is launched next, if any may be launched now.
    ///
    /// Of the commands of several queues that may be launched, the oldest is first. HIP promises no order between them, but
    /// streams share hardware queues, and a wait that comes before what it waits for would hold up both.
    pub(super) fn next_to_launch(&self) -> Option<QueueId> {
        // While a queue launches, its next command is no candidate: that launch may never return.
        let candidates = self.queues.busy().filter(|(_, queue)| !queue.is_launching());
        let may_launch = |id: QueueId, first: &DeferredCommand<_>| {
            let may_launch =
                || !self.is_suspended(id) && self.may_launch_ahead(Source::Queue(id), first.demand.load);
            (self.is_next_forced(id) || may_launch()) && self.are_launched(&first.after)
        };
        let candidates = candidates.filter_map(|(id, queue)| {
            let first = queue.first()?;
            may_launch(id, first).then_some((first.ticket, id))
        });
        let (ticket, id) = candidates.min()?;
        let is_older_launching = self.queues.busy().any(|(_, queue)| queue.is_launching_before(ticket));
        (!is_older_launching).then_some(id)
    }

    /// The command that is launched next, if any may.
    pub(crate) fn take(&mut self, bugs: Bugs) -> Option<TakenCommand<D>> {
        let id = self.next_to_launch()?;
        let first = self.queues.get(id)?.first()?;
        let (mut demand, delay) = (first.demand, Delay::Deferred(first.number, first.since));
        if self.is_next_forced(id) && demand.treatment == Treatment::Schedule {
            // A command comes after it that must not wait for it.
            demand.treatment = Treatment::Pinned;
        }
        let launch = self.begin(id, demand, delay);
        let command = self.queues.take(id, bugs)?;
        Some(TakenCommand { queue: id, command, launch })
    }

    /// The launch of the command that was taken last from this queue has returned.
    pub(crate) fn deferred_launch_returned(&mut self, queue: QueueId) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.launch_returned();
        }
        self.report_uses();
    }
}
