//! All queues of a process.

use foldhash::HashMap;
use xsched_sched::{Limit, Nanos};

use crate::command::Demand;
use crate::device::Device;
use crate::ids::{ClaimId, Position, QueueId};
use crate::planted::Bugs;
use crate::queue::{Queue, QueueParts};

pub(crate) struct QueueTable<D: Device> {
    queues: HashMap<QueueId, Queue<D>>,
    /// Those that may have anything in flight, deferred or waiting, see [`Self::busy`].
    busy: Vec<QueueId>,
    /// Those with a journal that is open, or was not collected to its end.
    journals: Vec<QueueId>,
    /// Commands in all their buffers.
    deferred: usize,
    created: u64,
    tickets: u64,
}

impl<D: Device> QueueTable<D> {
    pub(super) fn new() -> Self {
        Self {
            queues: HashMap::default(),
            busy: Vec::new(),
            journals: Vec::new(),
            deferred: 0,
            created: 0,
            tickets: 0,
        }
    }

    pub(super) fn create(&mut self, parts: &QueueParts<D>, limit: Limit) -> QueueId {
        self.created += 1;
        let id = QueueId(self.created);
        self.queues.insert(id, Queue::new(id, parts, limit));
        id
    }

    pub(super) fn remove(&mut self, id: QueueId) -> Option<Queue<D>> {
        self.queues.remove(&id)
    }

    /// Removes those without a stream, see [`Queue::is_over`].
    pub(super) fn take_over(&mut self, all: bool) -> Vec<Queue<D>> {
        self.queues.extract_if(|_, queue| queue.is_over(all)).map(|(_, queue)| queue).collect()
    }

    pub(super) fn get(&self, id: QueueId) -> Option<&Queue<D>> {
        self.queues.get(&id)
    }

    /// Whatever is done with it, it is looked at from now on.
    pub(super) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue<D>> {
        let queue = self.queues.get_mut(&id)?;
        if queue.becomes_busy() {
            self.busy.push(id);
        }
        Some(queue)
    }

    /// Those that may have anything in flight, deferred or waiting: of a program's thousands, only the ones that it uses.
    pub(super) fn busy(&self) -> impl Iterator<Item = (QueueId, &Queue<D>)> {
        self.busy.iter().filter_map(|&id| Some((id, self.queues.get(&id)?)))
    }

    /// A queue's journal is open from now on.
    pub(super) fn has_journal(&mut self, id: QueueId) {
        if self.queues.get_mut(&id).is_some_and(Queue::is_journalled_from_now) {
            self.journals.push(id);
        }
    }

    /// Queues with a journal that is open, or was not collected to its end.
    pub(super) fn journals(&self) -> &[QueueId] {
        &self.journals
    }

    pub(super) fn with_journals(&self) -> impl Iterator<Item = (QueueId, &Queue<D>)> {
        self.journals.iter().filter_map(|&id| Some((id, self.queues.get(&id)?)))
    }

    /// A queue, if its journal may have anything.
    pub(super) fn get_journalled(&mut self, id: QueueId) -> Option<&mut Queue<D>> {
        let queue = self.queues.get_mut(&id)?;
        let has_any = queue.stream().is_some() && (queue.journal().pending() > 0 || queue.pending() > 0);
        has_any.then_some(queue)
    }

    /// Looks no more at this one of the queues with journals, if that is over.
    pub(super) fn leave_out_journal(&mut self, index: usize) {
        let is_over = |queue: &Queue<D>| {
            queue.stream().is_none() || !queue.journal().is_open() && queue.journal().pending() == 0
        };
        let queue = self.queues.get_mut(&self.journals[index]);
        if queue.as_deref().is_none_or(is_over) {
            queue.into_iter().for_each(Queue::is_journalled_no_more);
            self.journals.swap_remove(index);
        }
    }

    pub(super) fn busy_of_claim(&self, claim: ClaimId) -> impl Iterator<Item = &Queue<D>> {
        self.busy().map(|(_, queue)| queue).filter(move |queue| queue.claim() == Some(claim))
    }

    /// Looks no more at those that have nothing.
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

    /// Defers a command of a queue that has a worker by now.
    pub(super) fn push(
        &mut self,
        id: QueueId,
        after: Vec<Position>,
        demand: Demand,
        command: D::Command,
        now: Nanos,
    ) -> Position {
        self.deferred += 1;
        self.tickets += 1;
        let ticket = self.tickets;
        let queue = self.get_mut(id).expect("a queue is destroyed after its last command");
        Position { queue: id, number: queue.push(ticket, after, demand, command, now) }
    }

    /// Takes a queue's next command, whose launch begins.
    pub(super) fn take(&mut self, id: QueueId, bugs: Bugs) -> Option<D::Command> {
        let command = self.get_mut(id)?.take(bugs)?;
        self.deferred -= 1;
        Some(command)
    }
}
