//! A queue: deferred commands in front of one stream, and what it has in flight.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

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

/// Commands that a queue defers before callers have to wait in place.
pub(crate) const DEFERRED_MAX: usize = 4096;

/// How long a launch that does not return keeps younger commands of other queues waiting: it may itself wait for what
/// they do.
const PATIENCE: Duration = Duration::from_millis(10);

/// A deferred command.
pub(crate) struct DeferredCommand<C> {
    /// Its number among all commands of all queues.
    pub(crate) ticket: u64,
    /// What must be launched before it, besides its predecessors in the queue.
    pub(crate) after: Vec<Position>,
    pub(crate) demand: Demand,
    pub(crate) since: Nanos,
    /// Its number in its queue.
    pub(crate) number: u64,
    pub(crate) command: C,
}

/// What a queue is made of.
pub(crate) struct QueueParts<D: Device> {
    pub(crate) stream: D::Stream,
    pub(crate) runtime: RuntimeId,
    /// A marker in its stream comes after what other streams have by then, and they wait for it.
    pub(crate) orders_others: bool,
    pub(crate) claim: Option<ClaimId>,
    pub(crate) status: &'static QueueStatus,
}

/// The program itself has suspended a queue.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The thread that did.
    by: ThreadNumber,
    /// The number of the last command that goes all the same, since another stream's work waits for it.
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
    /// Commands ever deferred, and those of them whose launch has returned.
    submitted: u64,
    launched: u64,
    /// Ticket of the command that is being launched, and since when.
    launching: Option<(u64, Instant)>,
    has_worker: bool,
    /// Wakes the worker, if that sleeps.
    wakeup: Arc<Condvar>,
    is_worker_asleep: bool,
    /// None: it is gone, and what it had on the device is followed to its end.
    stream: Option<D::Stream>,
    runtime: RuntimeId,
    orders_others: bool,
    claim: Option<ClaimId>,
    flight: Flight<D::Marker>,
    /// Callers that wait for what is on the device.
    host_waits: usize,
    /// The number of the last command that nothing but order keeps.
    forced: u64,
    /// Its status for others, as long as it has a stream: then it may be another queue's.
    status: &'static QueueStatus,
    /// Launches that have entered its journal and had not returned when these were last collected.
    pending: u64,
    /// It is among those whose journals are collected.
    is_journalled: bool,
    /// It is among those that are looked at.
    is_busy: bool,
}

impl<D: Device> Queue<D> {
    pub(crate) fn new(id: QueueId, parts: &QueueParts<D>, limit: Limit) -> Self {
        let &QueueParts { stream, runtime, orders_others, claim, status } = parts;
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
            claim,
            flight: Flight::new(limit),
            host_waits: 0,
            forced: 0,
            status,
            pending: 0,
            is_journalled: false,
            is_busy: false,
        }
    }

    /// It may have something to look at from now on; whether it had none before.
    pub(crate) fn becomes_busy(&mut self) -> bool {
        !mem::replace(&mut self.is_busy, true)
    }

    /// Whether it has anything to look at: in flight, deferred or being launched, a worker, a caller that waits, or a stream that is
    /// gone.
    pub(crate) fn stays_busy(&mut self) -> bool {
        self.is_busy = !self.flight.is_empty()
            || !self.is_drained()
            || self.has_worker
            || self.host_waits > 0
            || self.suspended
            || self.is_held()
            || self.stream.is_none()
            || self.journal().is_open()
            || self.pending > 0;
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

    /// Whether its stream orders others: a marker there comes after what these have by then.
    pub(crate) fn orders_others(&self) -> bool {
        self.orders_others
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    pub(crate) fn suspend(&mut self, suspended: bool) {
        self.suspended = suspended;
        self.update_status();
    }

    /// The program suspends it from now on, by the calling thread; false resumes it.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held.then(|| self.held.unwrap_or(Held { by: ThreadNumber::own(), released: 0 }));
        self.update_status();
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Whether the program keeps its next command.
    pub(crate) fn is_next_held(&self) -> bool {
        self.held.is_some_and(|held| self.taken() >= held.released)
    }

    /// Whether the program keeps it from others: the calling thread is not the one that uses it, or has itself suspended it.
    pub(crate) fn is_held_by_others(&self) -> bool {
        let own = ThreadNumber::own();
        self.held.is_some_and(|held| held.by == own || self.user != own)
    }

    /// Whether the calling thread has itself suspended it.
    pub(crate) fn is_held_by_caller(&self) -> bool {
        self.held.is_some_and(|held| held.by == ThreadNumber::own())
    }

    /// Commands up to this one go although the program suspends it. Whether that is new.
    pub(crate) fn release(&mut self, number: u64) -> bool {
        let Some(held) = &mut self.held else { return false };
        let is_new = number > held.released;
        held.released = held.released.max(number);
        is_new
    }

    /// Its stream goes; what it has on the device is followed to its end.
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

    /// How much the program wants to have launched ahead, whether there are others or not.
    pub(crate) fn own_limit(&self) -> Option<Limit> {
        self.own_limit
    }

    pub(crate) fn set_own_limit(&mut self, limit: Option<Limit>) {
        self.own_limit = limit;
    }

    /// Whether it has neither a stream nor anything in flight any more; with `all`, whatever it has in flight.
    pub(crate) fn is_over(&self, all: bool) -> bool {
        self.stream.is_none() && self.deferred.is_empty() && (all || self.flight.is_empty())
    }

    /// Its launches that went without the lock. Another queue's once its stream is gone.
    pub(crate) fn journal(&self) -> &'static Journal {
        self.status.journal()
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> &'static QueueStatus {
        self.status
    }

    /// Whether nothing of its own keeps its next command.
    pub(crate) fn is_clear(&self) -> bool {
        self.status.is_clear()
    }

    /// Its journal is collected from now on; whether it was not before.
    pub(crate) fn is_journalled_from_now(&mut self) -> bool {
        !mem::replace(&mut self.is_journalled, true)
    }

    /// Its journal has nothing to collect any more.
    pub(crate) fn is_journalled_no_more(&mut self) {
        self.is_journalled = false;
    }

    /// Counts the launches in its journal that have not returned. How many there were before, and are.
    pub(crate) fn note_pending(&mut self) -> (u64, u64) {
        let pending = self.journal().pending();
        (mem::replace(&mut self.pending, pending), pending)
    }

    /// So many as it had when they were last counted.
    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    /// They do not count any more. How many there were.
    pub(crate) fn forget_pending(&mut self) -> u64 {
        mem::take(&mut self.pending)
    }

    fn update_status(&self) {
        if self.stream.is_some() {
            self.status.set_clear(!self.suspended && !self.is_held() && self.submitted == self.launched);
        }
    }

    /// Whether all of its deferred commands were launched, and their launches have returned.
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

    /// How many commands were taken so far, to be launched.
    pub(crate) fn taken(&self) -> u64 {
        self.submitted - self.deferred.len() as u64
    }

    /// Defers a command; its number.
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
    pub(crate) fn take(&mut self, bugs: Bugs) -> Option<D::Command> {
        let taken =
            if bugs.has(Bug::LastFirst) { self.deferred.pop_back() } else { self.deferred.pop_front() };
        let taken = taken?;
        self.launching = Some((taken.ticket, Instant::now()));
        Some(taken.command)
    }

    /// The launch of the command that was taken last has returned.
    pub(crate) fn launch_returned(&mut self) {
        self.launched += 1;
        self.launching = None;
        self.update_status();
    }

    pub(crate) fn is_launching(&self) -> bool {
        self.launching.is_some()
    }

    /// Whether a command older than this ticket is being launched, not for long yet.
    pub(crate) fn is_launching_before(&self, ticket: u64) -> bool {
        self.launching.is_some_and(|(other, since)| other < ticket && since.elapsed() < PATIENCE)
    }

    /// Its last deferred command, if that has not been launched.
    pub(crate) fn last(&self, id: QueueId) -> Option<Position> {
        (!self.is_drained()).then_some(Position { queue: id, number: self.submitted })
    }

    /// The same as other threads know it: what the program itself keeps before it has made the call does not count.
    pub(crate) fn last_for_others(&self, id: QueueId) -> Option<Position> {
        if !self.is_held() {
            return self.last(id);
        }
        (self.launched < self.last_made).then_some(Position { queue: id, number: self.last_made })
    }

    /// The last command whose launch has begun, if it has not returned.
    pub(crate) fn last_taken(&self, id: QueueId) -> Option<Position> {
        self.is_launching().then(|| Position { queue: id, number: self.taken() })
    }

    /// Whether its call was made, or something behind it in the queue was.
    pub(crate) fn is_made(&self, number: u64) -> bool {
        number <= self.last_made
    }

    /// What deferred commands up to this one come after in other queues.
    pub(crate) fn before(&self, number: u64) -> impl Iterator<Item = Position> {
        let count = number.saturating_sub(self.taken()).min(self.deferred.len() as u64) as usize;
        self.deferred.range(..count).flat_map(|deferred| &deferred.after).copied()
    }

    pub(crate) fn is_launched(&self, number: u64) -> bool {
        self.launched >= number
    }

    /// Nothing but order keeps its commands up to this one from now on. What those of them come after for which that is new.
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

    /// Whether nothing but order keeps its next command.
    pub(crate) fn is_next_forced(&self) -> bool {
        self.taken() < self.forced
    }

    /// Origins' numbers have lost their meaning.
    pub(crate) fn forget_origins(&mut self) {
        self.flight.forget_origins();
        self.deferred.iter_mut().for_each(|deferred| deferred.demand.origin = Origin::UNKNOWN);
    }

    /// A caller waits for what it has in flight from now on: how much was launched by now.
    pub(crate) fn host_wait_begins(&mut self) -> u64 {
        self.host_waits += 1;
        self.flight.launched_so_far()
    }

    /// That wait is over.
    pub(crate) fn host_wait_ends(&mut self) {
        self.host_waits -= 1;
    }

    /// Whether a caller waits for what it has in flight.
    pub(crate) fn is_host_waiting(&self) -> bool {
        self.host_waits > 0
    }

    pub(crate) fn has_worker(&self) -> bool {
        self.has_worker
    }

    /// Its worker may end if there is nothing to do for it. False if there is.
    pub(crate) fn dismiss_worker(&mut self) -> bool {
        // There are as many workers as queues with something to launch, or being launched by any worker.
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

    /// Its worker sleeps from now on, until this rings.
    pub(crate) fn worker_sleeps(&mut self) -> Arc<Condvar> {
        self.is_worker_asleep = true;
        Arc::clone(&self.wakeup)
    }

    /// It sleeps no more.
    pub(crate) fn worker_woke(&mut self) {
        self.is_worker_asleep = false;
    }

    /// Its worker is about to be woken, by this. No other thread need wake it again.
    pub(crate) fn wake_worker(&mut self) -> Arc<Condvar> {
        self.is_worker_asleep = false;
        Arc::clone(&self.wakeup)
    }
}
