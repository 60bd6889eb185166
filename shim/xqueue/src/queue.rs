//! A queue: deferred commands in front of one stream, and what it has in flight.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar};

use xsched_sched::{Limit, Nanos};

use crate::command::{CallState, Demand};
use crate::device::Device;
use crate::flight::Flight;
use crate::ids::{ClaimId, Position, QueueId, RuntimeId};
use crate::journal::Journal;
use crate::origins::Origin;
use crate::planted::{Bug, Bugs};
use crate::status::QueueStatus;
use crate::threads::ThreadNumber;

/// How many commands a queue defers. Beyond that, callers wait in place.
pub(crate) const DEFERRED_MAX: usize = 4096;

/// A deferred command.
pub(crate) struct DeferredCommand<C> {
    /// The command's number among all commands of all queues.
    pub(crate) ticket: u64,
    /// What must be launched before it, besides its predecessors in the queue.
    pub(crate) after: Vec<Position>,
    pub(crate) demand: Demand,
    pub(crate) since: Nanos,
    /// The command's number in its queue.
    pub(crate) number: u64,
    pub(crate) command: C,
}

/// What a queue is made of.
pub(crate) struct QueueParts<D: Device> {
    pub(crate) stream: D::Stream,
    pub(crate) runtime: RuntimeId,
    /// Whether the stream orders others: a marker there completes after all work that other streams have by then, and they wait
    /// for it.
    pub(crate) orders_others: bool,
    /// Whether such a stream of its runtime orders it.
    pub(crate) is_ordered: bool,
    pub(crate) claim: Option<ClaimId>,
    pub(crate) status: &'static QueueStatus,
}

/// The program itself has suspended a queue.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The thread that suspended the queue.
    by: ThreadNumber,
    /// The number of the last released command: it is launched although the queue is held, since another stream's work waits for
    /// it.
    released: u64,
}

pub(crate) struct Queue<D: Device> {
    suspended: bool,
    held: Option<Held>,
    /// The thread that deferred the last command, and the number of the last one whose call was made.
    user: ThreadNumber,
    last_made: u64,
    /// Whether gates may stop its commands on the device, and how much the program wants to have launched ahead.
    uses_gates: bool,
    own_limit: Option<Limit>,
    deferred: VecDeque<DeferredCommand<D::Command>>,
    /// Commands that were ever deferred, and how many of their launches have returned.
    submitted: u64,
    launched: u64,
    /// Ticket of the command whose launch has begun and has not returned.
    launching: Option<u64>,
    has_worker: bool,
    /// Wakes the worker while `is_worker_asleep`.
    wakeup: Arc<Condvar>,
    is_worker_asleep: bool,
    /// None: the stream is gone, and the queue stays until what it has in flight completes.
    stream: Option<D::Stream>,
    runtime: RuntimeId,
    orders_others: bool,
    is_ordered: bool,
    claim: Option<ClaimId>,
    flight: Flight<D::Marker>,
    /// Callers that wait in place for admission.
    waiting: usize,
    /// Callers that wait for what is on the device.
    host_waits: usize,
    /// The number of the last forced command: forced commands wait only for what they come after.
    forced: u64,
    /// The status that other processes read. Once the stream is gone, it may belong to another queue.
    status: &'static QueueStatus,
    /// Whether the queue is in the list of queues with journals.
    is_journalled: bool,
    /// Whether the queue is in the list of busy queues.
    is_busy: bool,
}

impl<D: Device> Queue<D> {
    pub(crate) fn new(id: QueueId, parts: &QueueParts<D>, flight: Flight<D::Marker>) -> Self {
        let &QueueParts { stream, runtime, orders_others, is_ordered, claim, status } = parts;
        status.assign(id);
        Self {
            suspended: false,
            held: None,
            user: ThreadNumber::NONE,
            last_made: 0,
            uses_gates: true,
            own_limit: None,
            deferred: VecDeque::new(),
            submitted: 0,
            launched: 0,
            launching: None,
            has_worker: false,
            wakeup: Arc::default(),
            is_worker_asleep: false,
            stream: Some(stream),
            runtime,
            orders_others,
            is_ordered,
            claim,
            flight,
            waiting: 0,
            host_waits: 0,
            forced: 0,
            status,
            is_journalled: false,
            is_busy: false,
        }
    }

    /// Marks the queue as busy, since it may soon have work. Returns whether it was not busy before.
    pub(crate) fn becomes_busy(&mut self) -> bool {
        !mem::replace(&mut self.is_busy, true)
    }

    /// Updates and returns whether the queue is busy: it has commands, a launch, a worker or a waiting caller, or it is suspended
    /// or without a stream.
    pub(crate) fn stays_busy(&mut self) -> bool {
        self.is_busy = !self.flight.is_empty()
            || !self.is_drained()
            || self.has_worker
            || self.host_waits > 0
            || self.suspended
            || self.is_held()
            || self.stream.is_none()
            || self.journal().is_open()
            || self.journal().counted() > 0;
        self.is_busy
    }

    pub(crate) fn stream(&self) -> Option<D::Stream> {
        self.stream
    }

    /// The runtime of its stream.
    pub(crate) fn runtime(&self) -> RuntimeId {
        self.runtime
    }

    pub(crate) fn claim(&self) -> Option<ClaimId> {
        self.claim
    }

    pub(crate) fn flight(&self) -> &Flight<D::Marker> {
        &self.flight
    }

    pub(crate) fn flight_mut(&mut self) -> &mut Flight<D::Marker> {
        &mut self.flight
    }

    /// Whether its stream orders others, see [`QueueParts::orders_others`].
    pub(crate) fn orders_others(&self) -> bool {
        self.orders_others
    }

    /// Whether such a stream of its runtime orders its stream.
    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    pub(crate) fn suspend(&mut self, suspended: bool) {
        self.suspended = suspended;
        self.update_status();
    }

    /// The calling thread suspends the queue on the program's behalf; false resumes the queue.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held.then(|| self.held.unwrap_or(Held { by: ThreadNumber::own(), released: 0 }));
        self.update_status();
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Whether the queue is held and its next command is not released.
    pub(crate) fn is_next_held(&self) -> bool {
        self.held.is_some_and(|held| self.taken() >= held.released)
    }

    /// Whether the queue is held, as seen by other threads: the calling thread suspended it itself, or is not the thread that
    /// last used it.
    pub(crate) fn is_held_by_others(&self) -> bool {
        let own = ThreadNumber::own();
        self.held.is_some_and(|held| held.by == own || self.user != own)
    }

    /// Whether the calling thread itself suspended the queue, by [`Self::hold`].
    pub(crate) fn is_held_by_caller(&self) -> bool {
        self.held.is_some_and(|held| held.by == ThreadNumber::own())
    }

    /// Releases the commands up to this number: they are launched although the queue is held. Returns whether any was not
    /// released before.
    pub(crate) fn release(&mut self, number: u64) -> bool {
        let Some(held) = &mut self.held else { return false };
        let is_new = number > held.released;
        held.released = held.released.max(number);
        is_new
    }

    /// The stream is gone. The queue stays until what it has in flight completes.
    pub(crate) fn detach_stream(&mut self) {
        self.stream = None;
        self.suspended = false;
        self.held = None;
        self.own_limit = None;
    }

    /// Its claim is another one from now on.
    pub(crate) fn set_claim(&mut self, claim: ClaimId) {
        self.claim = Some(claim);
    }

    /// Whether gates may stop its commands on the device.
    pub(crate) fn uses_gates(&self) -> bool {
        self.uses_gates
    }

    pub(crate) fn use_gates(&mut self, uses_gates: bool) {
        self.uses_gates = uses_gates;
    }

    /// The program's own limit on what is launched ahead. It holds with and without other processes.
    pub(crate) fn own_limit(&self) -> Option<Limit> {
        self.own_limit
    }

    pub(crate) fn set_own_limit(&mut self, limit: Option<Limit>) {
        self.own_limit = limit;
    }

    /// Whether the queue has no stream and nothing in flight. With `all`, what is in flight does not count.
    pub(crate) fn is_over(&self, all: bool) -> bool {
        self.stream.is_none() && self.deferred.is_empty() && (all || self.flight.is_empty())
    }

    /// The launches that took no lock. Once the stream is gone, the journal may belong to another queue.
    pub(crate) fn journal(&self) -> &'static Journal {
        self.status.journal()
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> &'static QueueStatus {
        self.status
    }

    /// Whether the queue is neither held nor suspended, and has nothing deferred or being launched.
    pub(crate) fn is_clear(&self) -> bool {
        self.status.is_clear()
    }

    /// Puts the queue on the list of queues with journals. Returns whether it was not there before.
    pub(crate) fn is_journalled_from_now(&mut self) -> bool {
        !mem::replace(&mut self.is_journalled, true)
    }

    /// Takes the queue off that list. Returns whether it was there.
    pub(crate) fn is_journalled_no_more(&mut self) -> bool {
        mem::replace(&mut self.is_journalled, false)
    }

    fn update_status(&self) {
        if self.stream.is_some() {
            self.status.set_clear(!self.suspended && !self.is_held() && self.submitted == self.launched);
        }
    }

    /// Whether nothing is deferred, and every launch of a deferred command has returned.
    pub(crate) fn is_drained(&self) -> bool {
        self.submitted == self.launched
    }

    pub(crate) fn is_full(&self) -> bool {
        self.deferred.len() >= DEFERRED_MAX
    }

    pub(crate) fn deferred_count(&self) -> usize {
        self.deferred.len()
    }

    /// The deferred command that is launched next.
    pub(crate) fn first(&self) -> Option<&DeferredCommand<D::Command>> {
        self.deferred.front()
    }

    /// How many deferred commands were ever taken to be launched.
    pub(crate) fn taken(&self) -> u64 {
        self.submitted - self.deferred.len() as u64
    }

    /// Defers a command. Returns its number.
    pub(crate) fn push(
        &mut self,
        ticket: u64,
        after: Vec<Position>,
        demand: Demand,
        command: D::Command,
        since: Nanos,
    ) -> u64 {
        self.has_worker = true;
        self.submitted += 1;
        let number = self.submitted;
        self.user = ThreadNumber::own();
        if demand.call == CallState::Made {
            self.last_made = number;
        }
        self.deferred.push_back(DeferredCommand { ticket, after, demand, since, number, command });
        self.update_status();
        number
    }

    /// Takes the next command, whose launch begins.
    pub(crate) fn take(&mut self, bugs: Bugs) -> Option<DeferredCommand<D::Command>> {
        let taken =
            if bugs.has(Bug::LastFirst) { self.deferred.pop_back() } else { self.deferred.pop_front() };
        let taken = taken?;
        self.launching = Some(taken.ticket);
        Some(taken)
    }

    /// The launch of the last taken command has returned. Returns the command's ticket.
    pub(crate) fn launch_returned(&mut self) -> Option<u64> {
        self.launched += 1;
        self.update_status();
        self.launching.take()
    }

    pub(crate) fn is_launching(&self) -> bool {
        self.launching.is_some()
    }

    /// The queue's last command, if its launch has not returned.
    pub(crate) fn last(&self, id: QueueId) -> Option<Position> {
        (!self.is_drained()).then_some(Position { queue: id, number: self.submitted })
    }

    /// The same as other threads see it: a command that the program keeps back and whose call it has not made does not count.
    pub(crate) fn last_for_others(&self, id: QueueId) -> Option<Position> {
        if !self.is_held() {
            return self.last(id);
        }
        (self.launched < self.last_made).then_some(Position { queue: id, number: self.last_made })
    }

    /// The command whose launch has begun and has not returned.
    pub(crate) fn last_taken(&self, id: QueueId) -> Option<Position> {
        self.is_launching().then(|| Position { queue: id, number: self.taken() })
    }

    /// Whether the program has made the call of this command, or of a later one in the queue.
    pub(crate) fn is_made(&self, number: u64) -> bool {
        number <= self.last_made
    }

    /// The commands of other queues that must be launched before the deferred commands up to this one.
    pub(crate) fn before(&self, number: u64) -> impl Iterator<Item = Position> {
        let count = number.saturating_sub(self.taken()).min(self.deferred.len() as u64) as usize;
        self.deferred.range(..count).flat_map(|deferred| &deferred.after).copied()
    }

    pub(crate) fn is_launched(&self, number: u64) -> bool {
        self.launched >= number
    }

    /// Forces the commands up to this one. Returns what the newly forced ones come after.
    pub(crate) fn force(&mut self, number: u64) -> impl Iterator<Item = Position> {
        let taken = self.taken();
        let known = self.forced.max(taken);
        let newly = if number > known {
            self.forced = number;
            (known - taken) as usize..(number - taken) as usize
        } else {
            0..0
        };
        self.deferred.range(newly).flat_map(|deferred| &deferred.after).copied()
    }

    /// Whether the next command is forced.
    pub(crate) fn is_next_forced(&self) -> bool {
        self.taken() < self.forced
    }

    /// Origin numbers are void from now on: commands that have one become unknown.
    pub(crate) fn forget_origins(&mut self) {
        self.flight.forget_origins();
        self.deferred.iter_mut().for_each(|deferred| deferred.demand.origin = Origin::UNKNOWN);
    }

    /// A caller begins to wait in place for admission.
    pub(crate) fn caller_waits(&mut self) {
        self.waiting += 1;
    }

    /// A caller's wait for admission is over.
    pub(crate) fn caller_waits_no_more(&mut self) {
        self.waiting -= 1;
    }

    /// How many callers wait in place for admission.
    pub(crate) fn waiting_callers(&self) -> usize {
        self.waiting
    }

    /// A caller begins to wait for what the queue has in flight. Returns how many commands were launched by then.
    pub(crate) fn host_wait_begins(&mut self) -> u64 {
        self.host_waits += 1;
        self.flight.launched_so_far()
    }

    /// A caller's wait for what is in flight is over.
    pub(crate) fn host_wait_ends(&mut self) {
        self.host_waits -= 1;
    }

    /// Whether a caller waits for what the queue has in flight.
    pub(crate) fn is_host_waiting(&self) -> bool {
        self.host_waits > 0
    }

    pub(crate) fn has_worker(&self) -> bool {
        self.has_worker
    }

    /// Lets the worker end if the queue has nothing for it. Returns false if it has.
    pub(crate) fn dismiss_worker(&mut self) -> bool {
        // A queue keeps its worker while any worker launches for it: there are as many workers as queues with something to
        // launch.
        let is_dismissed = self.deferred.is_empty() && self.launching.is_none();
        if is_dismissed {
            self.has_worker = false;
        }
        is_dismissed
    }

    /// Whether its worker sleeps.
    pub(crate) fn is_worker_asleep(&self) -> bool {
        self.is_worker_asleep
    }

    /// The worker goes to sleep. Returns what wakes it.
    pub(crate) fn worker_sleeps(&mut self) -> Arc<Condvar> {
        self.is_worker_asleep = true;
        Arc::clone(&self.wakeup)
    }

    /// The worker is awake again.
    pub(crate) fn worker_woke(&mut self) {
        self.is_worker_asleep = false;
    }

    /// The caller is about to wake the worker with this. Other threads then need not wake it.
    pub(crate) fn wake_worker(&mut self) -> Arc<Condvar> {
        self.is_worker_asleep = false;
        Arc::clone(&self.wakeup)
    }
}
