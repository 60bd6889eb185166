//! What all queues of a process know, under one lock: parts that own their fields, and rules that concern several parts.
//!
//! | part | knows |
//! | --- | --- |
//! | `mode` | what applies to all commands of the process |
//! | `queue_table`, [`crate::queue`] | queues, and their deferred commands |
//! | `launch_order` | the queues with deferred commands, the oldest first |
//! | `claim_table`, [`crate::claim`] | claims, and their admission states |
//! | `gate_table` | gates |
//! | `waiters` | which callers wait, and which threads to wake |
//! | `watch_schedule` | when the watcher looks again |
//! | `sampling` | which commands are measured by themselves |
//! | `limits` | how much may be launched ahead |
//! | [`crate::event_writer`] | where events go |
//!
//! | rules | decide |
//! | --- | --- |
//! | `order` | which deferred command is launched next |
//! | `forcing` | which commands are launched without waiting, and which are not stopped once launched |
//! | `holding` | what held queues keep, and what the program asks of single queues |
//! | `admission` | whether a command may be launched now |
//! | `journals` | which launches take no lock, and what is known of them |
//! | `neighbours` | what follows when other processes come, go, or preempt this one |
//! | `completions` | what follows when commands were launched and when they complete |
//! | `checks` | when to look for completions |
//! | `work_reports` | when claims report that they have work, or none |
//! | `gates` | when gates are open |
//! | `trials` | how gates are made |
//! | `events` | what is written while the process is recorded |

mod admission;
mod checks;
mod claim_table;
mod completions;
mod events;
mod forcing;
mod gate_table;
mod gates;
mod holding;
mod journals;
mod launch_order;
mod limits;
mod mode;
mod neighbours;
mod order;
mod queue_table;
mod sampling;
mod trials;
mod urgency;
mod waiters;
mod watch_schedule;
mod work_reports;

use xsched_sched::Limit;

use crate::claim::{Claim, Usage};
use crate::clock::now;
use crate::device::Device;
use crate::event_writer::EventWriter;
use crate::flight::Flight;
use crate::ids::{ClaimId, ClaimKey, QueueId, Source};
use crate::origins::OriginTimes;
use crate::queue::{Queue, QueueParts};
use claim_table::ClaimTable;
use gate_table::GateTable;
use queue_table::QueueTable;
use sampling::Sampling;

pub(crate) use limits::Limits;
pub(crate) use mode::Mode;
pub use order::Refused;
pub(crate) use order::TakenCommand;
pub(crate) use sampling::Sample;
pub(crate) use waiters::Waiters;
pub(crate) use watch_schedule::WatchSchedule;

/// A claim, as the arbiter should know it.
#[derive(Clone, Copy)]
pub(crate) struct ClaimState {
    pub(crate) id: ClaimId,
    pub(crate) key: ClaimKey,
    /// Whether the claim should be registered.
    pub(crate) is_used: bool,
}

pub(crate) struct State<D: Device> {
    /// What applies to all commands.
    pub(crate) mode: Mode,
    /// Which callers wait, and which threads to wake.
    pub(crate) waiters: Waiters,
    /// When the watcher looks again.
    pub(crate) watch: WatchSchedule,
    pub(crate) limits: Limits,
    claims: ClaimTable<D>,
    queues: QueueTable<D>,
    gates: GateTable<D>,
    sampling: Sampling<D::Marker>,
    /// Launches of pinned commands that have not returned, and whether pinned commands may be in flight.
    pinned_launches: usize,
    may_be_pinned: bool,
    /// Queues with a limit of their own.
    own_limits: usize,
    /// Where events go, while the process is recorded.
    events: Option<EventWriter>,
}

impl<D: Device> State<D> {
    pub(crate) fn new() -> Self {
        Self {
            mode: Mode::default(),
            waiters: Waiters::default(),
            watch: WatchSchedule::default(),
            limits: Limits::default(),
            claims: ClaimTable::new(),
            queues: QueueTable::new(),
            gates: GateTable::new(),
            sampling: Sampling::new(),
            pinned_launches: 0,
            may_be_pinned: false,
            own_limits: 0,
            events: None,
        }
    }

    /// A new queue.
    pub(crate) fn create_queue(&mut self, parts: &QueueParts<D>) -> QueueId {
        if let Some(claim) = parts.claim {
            self.add_gate(claim, parts.runtime);
            self.claims.get_mut(claim).queue_created(now());
        }
        let limit = self.limit_of(parts.claim, parts.runtime);
        if parts.is_ordered {
            self.close_journals_of_ordering_streams(parts.runtime);
        }
        let known = parts.claim.map(|claim| self.claims.get(claim).unqueued().durations());
        self.queues.create(parts, Flight::sharing(limit, known.unwrap_or_default()))
    }

    /// Forgets a queue and what it has in flight. Returns markers to retire. None if some deferred commands were not launched:
    /// the queue then stays.
    pub(crate) fn destroy_queue(&mut self, queue: QueueId) -> Option<Vec<D::Marker>> {
        if !self.is_drained(queue) {
            return None;
        }
        self.leave_journal(queue);
        let destroyed = self.queues.remove(queue);
        let mut markers = destroyed.map(|queue| self.queue_gone(queue)).unwrap_or_default();
        markers.extend(self.forget_orphaned_samples());
        Some(markers)
    }

    /// Marks a queue's stream as gone. What the queue has in flight stays until it completes. Returns false, and keeps the
    /// stream, if some deferred commands were not launched.
    pub(crate) fn detach_stream(&mut self, queue: QueueId) -> bool {
        if !self.is_drained(queue) {
            return false;
        }
        self.leave_journal(queue);
        self.queues.detach_stream(queue);
        self.count_own_limits();
        true
    }

    /// Whether any queue has no stream and nothing in flight.
    pub(crate) fn is_any_over(&self) -> bool {
        self.queues.busy().any(|(_, queue)| queue.is_over(false))
    }

    /// Forgets queues that have no stream and nothing in flight. With `all`, forgets those with commands in flight, too. Returns
    /// markers to retire.
    pub(crate) fn forget_detached(&mut self, all: bool) -> Vec<D::Marker> {
        let over = self.queues.take_over(all);
        let mut markers: Vec<_> = over.into_iter().flat_map(|queue| self.queue_gone(queue)).collect();
        markers.extend(self.forget_orphaned_samples());
        markers
    }

    /// Cleans up after a queue that was removed. Returns markers to retire.
    fn queue_gone(&mut self, mut queue: Queue<D>) -> Vec<D::Marker> {
        if let Some(claim) = queue.claim() {
            self.claims.get_mut(claim).queue_gone(now());
            self.claims.get_mut(claim).callers_wait_no_more(queue.waiting_callers());
        }
        if queue.own_limit().is_some() {
            self.count_own_limits();
        }
        queue.flight_mut().abandon()
    }

    /// Stops looking at queues that have nothing in flight, deferred or waiting.
    pub(crate) fn leave_out_quiet_queues(&mut self) {
        self.close_unused_journals(now());
        self.lock_for_sample(now());
        self.queues.leave_out_quiet();
    }

    /// All queues.
    pub(crate) fn queue_ids(&self) -> Vec<QueueId> {
        self.queues.ids().collect()
    }

    /// The claim with this key; it is made if there is none. The second value is true if the claim is new or was unused.
    pub(crate) fn claim(&mut self, key: ClaimKey) -> (ClaimId, bool) {
        let (claim, is_new) = self.claims.find_or_add(key, self.limits.limit);
        if is_new {
            self.note_claim(claim);
        }
        (claim, is_new || self.claims.get(claim).is_unused(now()))
    }

    /// All claims, in the order in which they were made.
    pub(crate) fn all_claims(&self) -> Vec<ClaimState> {
        let now = now();
        let is_used = |id, claim: &Claim<D>| !claim.is_unused(now) || self.has_work(id);
        let claims = self.claims.iter();
        claims.map(|(id, claim)| ClaimState { id, key: claim.key, is_used: is_used(id, claim) }).collect()
    }

    /// See [`Claim::wants_registration`](crate::claim::Claim::wants_registration).
    pub(crate) fn wants_registration(&self, claim: ClaimId) -> bool {
        self.claims.get(claim).wants_registration()
    }

    /// What a claim has used so far.
    pub(crate) fn usage(&self, claim: ClaimId) -> Usage {
        self.claims.get(claim).usage
    }

    /// The same, and the parts of its device time.
    pub(crate) fn usage_by_origin(&self, claim: ClaimId) -> (Usage, OriginTimes) {
        let claim = self.claims.get(claim);
        (claim.usage, claim.by_origin.clone())
    }

    /// What all claims have used so far.
    pub(crate) fn total_usage(&self) -> Usage {
        self.claims.iter().map(|(_, claim)| claim.usage).fold(Usage::default(), Usage::plus)
    }

    /// Origin numbers are void from now on: commands that have one become unknown.
    pub(crate) fn forget_origins(&mut self) {
        self.queues.values_mut().for_each(Queue::forget_origins);
        self.claims.iter_mut().for_each(|(_, claim)| claim.forget_origins());
    }

    pub(crate) fn claim_of(&self, queue: QueueId) -> Option<ClaimId> {
        self.queues.get(queue)?.claim()
    }

    fn claim_of_source(&self, source: Source) -> Option<ClaimId> {
        match source {
            Source::Queue(queue) => self.claim_of(queue),
            Source::Unqueued(claim) => Some(claim),
        }
    }

    fn flight(&self, source: Source) -> Option<&Flight<D::Marker>> {
        match source {
            Source::Queue(queue) => self.queues.get(queue).map(Queue::flight),
            Source::Unqueued(claim) => Some(self.claims.get(claim).unqueued()),
        }
    }

    fn flight_mut(&mut self, source: Source) -> Option<&mut Flight<D::Marker>> {
        match source {
            Source::Queue(queue) => self.queues.get_mut(queue).map(Queue::flight_mut),
            Source::Unqueued(claim) => Some(self.claims.get_mut(claim).unqueued_mut()),
        }
    }

    /// All sources that may have commands in flight, with those.
    fn flights(&self) -> impl Iterator<Item = (Source, &Flight<D::Marker>)> {
        let queues = self.queues.busy().map(|(id, queue)| (Source::Queue(id), queue.flight()));
        queues.chain(self.claims.iter().map(|(id, claim)| (Source::Unqueued(id), claim.unqueued())))
    }

    fn flights_mut(&mut self) -> impl Iterator<Item = &mut Flight<D::Marker>> {
        let unqueued = self.claims.iter_mut().map(|(_, claim)| claim.unqueued_mut());
        self.queues.values_mut().map(Queue::flight_mut).chain(unqueued)
    }

    /// What a claim has in flight, by source.
    fn flights_of_mut(&mut self, claim: ClaimId) -> impl Iterator<Item = &mut Flight<D::Marker>> {
        let queues = self.queues.of_claim_mut(claim).map(Queue::flight_mut);
        queues.chain([self.claims.get_mut(claim).unqueued_mut()])
    }

    /// How much may be launched ahead beside more urgent neighbours.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limits.limit = limit;
        self.apply_limits();
    }
}

#[cfg(test)]
mod tests;
