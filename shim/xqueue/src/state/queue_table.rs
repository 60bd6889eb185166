//! All queues of a process.

use std::collections::BTreeSet;

use foldhash::HashMap;
use xsched_sched::Nanos;

use crate::command::Demand;
use crate::device::Device;
use crate::flight::Flight;
use crate::ids::{ClaimId, Position, QueueId, RuntimeId};
use crate::journal::Journal;
use crate::planted::Bugs;
use crate::queue::{Queue, QueueParts};
use crate::state::launch_order::LaunchOrder;

pub(crate) struct QueueTable<D: Device> {
    queues: HashMap<QueueId, Queue<D>>,
    /// The queues that may have anything in flight, deferred or waiting: see [`Self::busy`].
    busy: Vec<QueueId>,
    /// The journals that are open, or have launches that were not collected. Each is its queue's, which has a stream.
    journals: Vec<(QueueId, &'static Journal)>,
    /// How many streams of a runtime are ordered by its null streams, these included.
    ordered: HashMap<RuntimeId, usize>,
    /// How many commands all queues have deferred and not begun to launch.
    deferred: usize,
    /// How many of these come after commands of other queues.
    behind_others: usize,
    order: LaunchOrder,
    /// The queues that are suspended or held.
    kept: BTreeSet<QueueId>,
    created: u64,
    tickets: u64,
}

impl<D: Device> QueueTable<D> {
    pub(super) fn new() -> Self {
        Self {
            queues: HashMap::default(),
            busy: Vec::new(),
            journals: Vec::new(),
            ordered: HashMap::default(),
            deferred: 0,
            behind_others: 0,
            order: LaunchOrder::default(),
            kept: BTreeSet::new(),
            created: 0,
            tickets: 0,
        }
    }

    pub(super) fn create(&mut self, parts: &QueueParts<D>, flight: Flight<D::Marker>) -> QueueId {
        self.created += 1;
        let id = QueueId(self.created);
        if parts.is_ordered {
            *self.ordered.entry(parts.runtime).or_default() += 1;
        }
        self.queues.insert(id, Queue::new(id, parts, flight));
        id
    }

    pub(super) fn remove(&mut self, id: QueueId) -> Option<Queue<D>> {
        self.kept.remove(&id);
        self.stream_goes(id);
        self.queues.remove(&id)
    }

    /// A queue's stream is gone.
    pub(super) fn detach_stream(&mut self, id: QueueId) {
        self.stream_goes(id);
        self.keep(id, Queue::detach_stream);
    }

    fn stream_goes(&mut self, id: QueueId) {
        let is_ordered = |queue: &&Queue<D>| queue.stream().is_some() && queue.is_ordered();
        let Some(runtime) = self.get(id).filter(is_ordered).map(Queue::runtime) else { return };
        if let Some(count) = self.ordered.get_mut(&runtime) {
            *count -= 1;
            if *count == 0 {
                self.ordered.remove(&runtime);
            }
        }
    }

    /// How many streams of a runtime are ordered by its null streams, these included.
    pub(super) fn ordered(&self, runtime: RuntimeId) -> usize {
        self.ordered.get(&runtime).copied().unwrap_or(0)
    }

    /// Removes and returns the queues that are over, see [`Queue::is_over`].
    pub(super) fn take_over(&mut self, all: bool) -> Vec<Queue<D>> {
        self.queues.extract_if(|_, queue| queue.is_over(all)).map(|(_, queue)| queue).collect()
    }

    pub(super) fn get(&self, id: QueueId) -> Option<&Queue<D>> {
        self.queues.get(&id)
    }

    /// A queue to change. It counts as busy from now on, whatever the caller does with it.
    pub(super) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue<D>> {
        let queue = self.queues.get_mut(&id)?;
        if queue.becomes_busy() {
            self.busy.push(id);
        }
        Some(queue)
    }

    /// The queues that may have anything in flight, deferred or waiting. A program may have thousands of queues and use few.
    pub(super) fn busy(&self) -> impl Iterator<Item = (QueueId, &Queue<D>)> {
        self.busy.iter().filter_map(|&id| Some((id, self.queues.get(&id)?)))
    }

    /// How many queues may have anything in flight, deferred or waiting.
    pub(super) fn busy_count(&self) -> usize {
        self.busy.len()
    }

    /// Puts a queue, whose journal is now open, on the list of queues with journals.
    pub(super) fn has_journal(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if queue.is_journalled_from_now() {
            self.journals.push((id, queue.journal()));
        }
    }

    /// The journals that are open, or have launches that were not collected, with their queues.
    pub(super) fn journals(&self) -> &[(QueueId, &'static Journal)] {
        &self.journals
    }

    pub(super) fn with_journals(&self) -> impl Iterator<Item = (QueueId, &Queue<D>)> {
        self.journals.iter().filter_map(|&(id, _)| Some((id, self.queues.get(&id)?)))
    }

    /// A queue that has a stream, so that its journal is its own.
    pub(super) fn get_journalled(&mut self, id: QueueId) -> Option<&mut Queue<D>> {
        self.queues.get_mut(&id).filter(|queue| queue.stream().is_some())
    }

    /// Takes a queue off the list of queues with journals.
    pub(super) fn leave_out_journal(&mut self, id: QueueId) {
        if !self.queues.get_mut(&id).is_some_and(Queue::is_journalled_no_more) {
            return;
        }
        self.journals.retain(|(other, _)| *other != id);
    }

    /// Takes those queues off the list whose journal is closed and empty.
    pub(super) fn leave_out_empty_journals(&mut self) {
        let Self { queues, journals, .. } = self;
        journals.retain(|(id, journal)| {
            let stays = journal.is_open() || journal.has_news();
            if !stays && let Some(queue) = queues.get_mut(id) {
                queue.is_journalled_no_more();
            }
            stays
        });
    }

    pub(super) fn busy_of_claim(&self, claim: ClaimId) -> impl Iterator<Item = &Queue<D>> {
        self.busy().map(|(_, queue)| queue).filter(move |queue| queue.claim() == Some(claim))
    }

    /// Takes queues that have nothing in flight, deferred or waiting off the busy list.
    pub(super) fn leave_out_quiet(&mut self) {
        let Self { queues, busy, .. } = self;
        busy.retain(|id| queues.get_mut(id).is_some_and(Queue::stays_busy));
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = QueueId> {
        self.queues.keys().copied()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Queue<D>> {
        self.queues.values()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Queue<D>> {
        self.queues.values_mut()
    }

    pub(super) fn ids_of_claim(&self, claim: ClaimId) -> Vec<QueueId> {
        let of_claim = self.queues.iter().filter(|(_, queue)| queue.claim() == Some(claim));
        of_claim.map(|(&id, _)| id).collect()
    }

    pub(super) fn of_claim_mut(&mut self, claim: ClaimId) -> impl Iterator<Item = &mut Queue<D>> {
        self.queues.values_mut().filter(move |queue| queue.claim() == Some(claim))
    }

    /// Whether any command is in a buffer.
    pub(super) fn is_any_buffered(&self) -> bool {
        self.deferred > 0
    }

    /// Defers a command of a queue that has a worker.
    pub(super) fn push(
        &mut self,
        id: QueueId,
        after: Vec<Position>,
        demand: Demand,
        command: D::Command,
        now: Nanos,
    ) -> Position {
        self.deferred += 1;
        self.behind_others += usize::from(!after.is_empty());
        self.tickets += 1;
        let ticket = self.tickets;
        let queue = self.get_mut(id).expect("a queue is destroyed after its last command");
        let is_next = queue.first().is_none() && !queue.is_launching();
        let number = queue.push(ticket, after, demand, command, now);
        if is_next {
            self.order.has_next(ticket, id);
        }
        Position { queue: id, number }
    }

    /// Takes a queue's next command, whose launch begins.
    pub(super) fn take(&mut self, id: QueueId, bugs: Bugs) -> Option<D::Command> {
        let queue = self.get_mut(id)?;
        let next = queue.first()?.ticket;
        let taken = queue.take(bugs)?;
        self.order.begins(next, taken.ticket, id);
        self.deferred -= 1;
        self.behind_others -= usize::from(!taken.after.is_empty());
        Some(taken.command)
    }

    /// The launch of the command that was taken last from this queue has returned.
    pub(super) fn launch_returned(&mut self, id: QueueId) {
        let Some(queue) = self.get_mut(id) else { return };
        let returned = queue.launch_returned();
        let next = queue.first().map(|first| first.ticket);
        if let Some(returned) = returned {
            self.order.returned(returned);
        }
        if let Some(next) = next {
            self.order.has_next(next, id);
        }
    }

    /// The queues that have a next command and are not launching: first the one whose command is the oldest. With each, the
    /// command's ticket.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = (u64, QueueId, &Queue<D>)> {
        self.order.oldest_first().filter_map(|(ticket, id)| Some((ticket, id, self.queues.get(&id)?)))
    }

    /// Whether an older command than this one is being launched.
    pub(super) fn is_older_launching(&self, ticket: u64) -> bool {
        self.order.is_older_launching(ticket)
    }

    /// The queues with a deferred command whose launch has not returned.
    pub(super) fn deferring(&self) -> impl Iterator<Item = (QueueId, &Queue<D>)> {
        self.order.queues().filter_map(|id| Some((id, self.queues.get(&id)?)))
    }

    /// Whether any deferred command comes after commands of other queues.
    pub(super) fn is_any_behind_others(&self) -> bool {
        self.behind_others > 0
    }

    /// Whether any queue has a deferred command whose launch has not returned.
    pub(super) fn is_any_deferring(&self) -> bool {
        !self.order.is_empty()
    }

    /// Changes what keeps a queue's commands: whether it is suspended or held.
    pub(super) fn keep(&mut self, id: QueueId, change: impl FnOnce(&mut Queue<D>)) {
        let Some(queue) = self.get_mut(id) else { return };
        change(queue);
        if queue.is_suspended() || queue.is_held() {
            self.kept.insert(id);
        } else {
            self.kept.remove(&id);
        }
    }

    /// Nothing keeps any queue's commands from now on.
    pub(super) fn keep_none(&mut self) {
        for id in std::mem::take(&mut self.kept) {
            if let Some(queue) = self.queues.get_mut(&id) {
                queue.suspend(false);
                queue.hold(false);
            }
        }
    }

    /// The queues that are suspended or held.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Queue<D>> {
        self.kept.iter().filter_map(|id| self.queues.get(id))
    }
}
