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
    /// The queues that may have anything in flight, deferred or waiting: see [`Self::busy`].
    busy: Vec<QueueId>,
    /// The queues whose journal is open, or has launches that were not collected.
    journals: Vec<QueueId>,
    /// How many commands all queues have deferred and not begun to launch.
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

    /// Puts a queue, whose journal is now open, on the list of queues with journals.
    pub(super) fn has_journal(&mut self, id: QueueId) {
        if self.queues.get_mut(&id).is_some_and(Queue::is_journalled_from_now) {
            self.journals.push(id);
        }
    }

    /// The queues whose journal is open, or has launches that were not collected.
    pub(super) fn journals(&self) -> &[QueueId] {
        &self.journals
    }

    pub(super) fn with_journals(&self) -> impl Iterator<Item = (QueueId, &Queue<D>)> {
        self.journals.iter().filter_map(|&id| Some((id, self.queues.get(&id)?)))
    }

    /// A queue, if its journal has launches or had some at the last count.
    pub(super) fn get_journalled(&mut self, id: QueueId) -> Option<&mut Queue<D>> {
        let queue = self.queues.get_mut(&id)?;
        let has_any = queue.stream().is_some() && (queue.journal().pending() > 0 || queue.pending() > 0);
        has_any.then_some(queue)
    }

    /// Takes a queue off the list of queues with journals, if its journal is closed and empty.
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
