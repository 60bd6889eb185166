//! What the queues hold, and the rules of who may go. Everything here happens under one lock.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use xsched_sched::{Limit, Nanos};

use crate::journal::Journal;
use crate::planted::{Bug, Bugs};
use crate::queues::claim::{Claim, ClaimId, Standing};
use crate::queues::contention::Place;
use crate::queues::face::Face;
use crate::queues::flight::Flight;
use crate::queues::recording::Held;
use crate::queues::treatment::{Demand, Treatment};
use crate::queues::waking::Wakes;
use crate::queues::{BUFFERED_MAX, Begun, Device, Position, QueueId, Refused};

/// How long a launch that does not return keeps younger commands of other queues waiting: it may itself wait for what
/// they do.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// A command that waits.
pub(super) struct Buffered<C> {
    /// Its number among all commands of all queues.
    ticket: u64,
    /// What must be launched before it, besides its predecessors in the queue.
    pub(super) after: Vec<Position>,
    pub(super) demand: Demand,
    /// Since when, and the how-many-th of its queue.
    held: (Nanos, u64),
    command: C,
}

pub(super) struct Queue<D: Device> {
    pub(super) suspended: bool,
    pub(super) buffer: VecDeque<Buffered<D::Command>>,
    /// Commands ever buffered, and those of them whose launch has returned.
    pub(super) submitted: u64,
    pub(super) launched: u64,
    /// Ticket of the command that is being launched, and since when.
    pub(super) launching: Option<(u64, Instant)>,
    pub(super) has_worker: bool,
    /// Wakes the worker, if that sleeps.
    pub(super) bell: Arc<Condvar>,
    pub(super) worker_sleeps: bool,
    /// None: it is gone, and what it had on the device is followed to its end.
    pub(super) stream: Option<D::Stream>,
    /// A marker in its stream comes after what other streams have by then, and they wait for it.
    pub(super) orders_others: bool,
    pub(super) claim: Option<ClaimId>,
    pub(super) flight: Flight<D::Marker>,
    /// Callers that wait for what is on the device.
    pub(super) awaited: usize,
    /// The number of the last command that nothing but order keeps.
    pub(super) forced: u64,
    /// What shows of it, as long as it has a stream: then it may be another queue's.
    face: &'static Face,
}

impl<D: Device> Queue<D> {
    /// How many commands were taken out of the buffer so far, to be launched.
    pub(super) fn taken(&self) -> u64 {
        self.submitted - self.buffer.len() as u64
    }

    /// Whether whoever waits for its stream sees its end, given whose ends are seen.
    pub(super) fn is_end_awaited(&self, awaited: Option<ClaimId>) -> bool {
        self.awaited > 0 && self.claim.is_some() && self.claim == awaited
    }

    /// Whether it has neither a stream nor anything on the device any more; with `all`, whatever it has there.
    pub(super) fn is_over(&self, all: bool) -> bool {
        self.stream.is_none() && self.buffer.is_empty() && (all || self.flight.is_empty())
    }

    /// Shows what has changed.
    fn show(&self) {
        if self.stream.is_some() {
            self.face.show(!self.suspended && self.submitted == self.launched);
        }
    }
}

/// What became of a command that was appended.
pub(super) struct Pushed {
    pub(super) position: Position,
    /// Nothing was before it in its queue's buffer.
    pub(super) is_first: bool,
}

pub(super) struct State<D: Device> {
    pub(super) all_suspended: bool,
    pub(super) closed: bool,
    /// Until the first use of a device was noted, every call is looked at.
    pub(super) awaits_first_use: bool,
    /// Every call is looked at, for somebody wants to be told.
    pub(super) looks_at_all: bool,
    /// No command is held back, though it may have to wait.
    pub(super) holds_nothing: bool,
    /// Nothing is known of completions at present, so that nothing can be limited by them.
    pub(super) unlimited: bool,
    /// Launches on their way that must not be stopped.
    pub(super) pinned_launches: usize,
    /// Callers that wait for a change.
    pub(super) callers: usize,
    /// Who is woken when the lock is let go.
    pub(super) wakes: Wakes,
    /// Of those that wait for launches, what each waits for next.
    pub(super) awaited_launches: Vec<Position>,
    /// Callers that wait in place until something may go, also while they look whether it may.
    pub(super) in_place: usize,
    /// When the watcher will look again by itself.
    pub(super) watch_at: Option<Nanos>,
    /// It does not hear until then what the arbiter tells everybody: nothing was there that this could concern.
    pub(super) is_watcher_deaf: bool,
    /// Whether gates may be used.
    pub(super) uses_gates: bool,
    /// Whose commands are shorter than this polls when it had to give way of late.
    pub(super) poll_below: Nanos,
    /// How much may be launched ahead beside more urgent neighbours.
    pub(super) limit: Limit,
    /// As they were when they were last looked at together.
    pub(super) standings: Vec<Standing>,
    /// They were others when the watcher last did what was due.
    pub(super) has_new_standing: bool,
    pub(super) claims: Vec<Claim<D>>,
    pub(super) queues: HashMap<QueueId, Queue<D>>,
    /// Commands in all their buffers.
    buffered: usize,
    /// Where what happens is written, while somebody records.
    pub(super) journal: Option<Journal>,
    created: u64,
    tickets: u64,
}

impl<D: Device> State<D> {
    pub(super) fn new() -> Self {
        Self {
            all_suspended: false,
            closed: false,
            awaits_first_use: false,
            looks_at_all: false,
            holds_nothing: false,
            unlimited: false,
            pinned_launches: 0,
            callers: 0,
            wakes: Wakes::default(),
            awaited_launches: Vec::new(),
            in_place: 0,
            watch_at: None,
            is_watcher_deaf: false,
            uses_gates: true,
            poll_below: Nanos::ZERO,
            limit: Limit::default(),
            standings: Vec::new(),
            has_new_standing: false,
            claims: Vec::new(),
            queues: HashMap::default(),
            buffered: 0,
            journal: None,
            created: 0,
            tickets: 0,
        }
    }

    pub(super) fn create(
        &mut self,
        stream: D::Stream,
        orders_others: bool,
        claim: Option<ClaimId>,
        face: &'static Face,
    ) -> QueueId {
        self.created += 1;
        let id = QueueId(self.created);
        let queue = Queue {
            suspended: false,
            buffer: VecDeque::new(),
            submitted: 0,
            launched: 0,
            launching: None,
            has_worker: false,
            bell: Arc::default(),
            worker_sleeps: false,
            stream: Some(stream),
            orders_others,
            claim,
            flight: Flight::new(self.limit_of(claim)),
            awaited: 0,
            forced: 0,
            face,
        };
        face.belongs_to(id);
        self.queues.insert(id, queue);
        id
    }

    /// Forgets a queue, and what it has on the device. Returns markers that are not needed any more; None if not all of its
    /// commands were launched.
    pub(super) fn destroy(&mut self, queue: QueueId) -> Option<Vec<D::Marker>> {
        if !self.is_idle(queue) {
            return None;
        }
        Some(self.queues.remove(&queue).map(|mut queue| queue.flight.abandon()).unwrap_or_default())
    }

    /// A queue's stream, if that may have anything on the device which others are to know of, and how much was launched.
    pub(super) fn stream_in_use(&self, queue: QueueId) -> Option<(D::Stream, u64)> {
        let queue = self.queues.get(&queue)?;
        let is_alone = self.claims[queue.claim?.0].is_alone();
        let is_in_use = !queue.flight.is_empty() || queue.flight.is_any_unseen() && !is_alone;
        queue.stream.filter(|_| is_in_use).map(|stream| (stream, queue.flight.launched_so_far()))
    }

    /// A queue's stream goes, and what it has on the device stays until it is done. False if not all of its commands were
    /// launched: then it stays.
    pub(super) fn lose_stream(&mut self, queue: QueueId) -> bool {
        if !self.is_idle(queue) {
            return false;
        }
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.stream = None;
            queue.suspended = false;
        }
        true
    }

    /// Forgets queues without a stream: those that have nothing on the device any more or, with `all`, the others as well. Returns
    /// markers that are not needed any more.
    pub(super) fn forget_without_stream(&mut self, all: bool) -> Vec<D::Marker> {
        let over = self.queues.extract_if(|_, queue| queue.is_over(all));
        over.flat_map(|(_, mut queue)| queue.flight.abandon()).collect()
    }

    pub(super) fn suspend(&mut self, queue: QueueId, suspended: bool) {
        let suspended = suspended && !self.closed;
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.suspended = suspended;
            queue.show();
        }
    }

    pub(super) fn is_suspended(&self, queue: QueueId) -> bool {
        let Some(queue) = self.queues.get(&queue) else { return self.all_suspended };
        self.all_suspended || queue.suspended || queue.claim.is_some_and(|claim| self.is_held(claim))
    }

    /// Whether nothing of the queue is held back, not even half-launched.
    pub(super) fn is_idle(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_none_or(|queue| queue.submitted == queue.launched)
    }

    pub(super) fn is_full(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_some_and(|queue| queue.buffer.len() >= BUFFERED_MAX)
    }

    /// Why a command of a queue cannot be held back now, if so.
    pub(super) fn refuses(&self, queue: QueueId) -> Option<Refused> {
        match () {
            () if self.closed => Some(Refused::Closed),
            () if self.holds_nothing => Some(Refused::HoldsNothing),
            () if self.is_full(queue) => Some(Refused::Full),
            () => None,
        }
    }

    pub(super) fn has_worker(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_some_and(|queue| queue.has_worker)
    }

    /// Appends a command to a queue that has a worker by now.
    pub(super) fn push(
        &mut self,
        id: QueueId,
        after: Vec<Position>,
        demand: Demand,
        command: D::Command,
        now: Nanos,
    ) -> Pushed {
        let queue = self.queues.get_mut(&id).expect("a queue is destroyed after its last command");
        let is_first = queue.buffer.is_empty();
        queue.has_worker = true;
        queue.submitted += 1;
        self.buffered += 1;
        self.tickets += 1;
        let number = queue.submitted;
        queue.buffer.push_back(Buffered {
            ticket: self.tickets,
            after,
            demand,
            held: (now, number),
            command,
        });
        queue.show();
        self.tell_of_use(id);
        self.note_wait(id, number, demand, now);
        let position = Position { queue: id, number };
        if demand.treatment.is_forced() {
            self.force(&[position]);
        }
        Pushed { position, is_first }
    }

    /// Whether the watcher has to know what waits in a queue.
    pub(super) fn is_watched(&self, queue: QueueId) -> bool {
        let Some(claim) = self.claim_of(queue) else { return false };
        self.is_recorded() || self.claims[claim.0].standing() != Standing::Alone
    }

    pub(super) fn last(&self, id: QueueId) -> Option<Position> {
        let queue = self.queues.get(&id)?;
        (queue.submitted > queue.launched).then_some(Position { queue: id, number: queue.submitted })
    }

    pub(super) fn all_last(&self) -> Vec<Position> {
        self.queues.keys().filter_map(|&queue| self.last(queue)).collect()
    }

    pub(super) fn are_launched(&self, positions: &[Position]) -> bool {
        positions.iter().all(|position| self.is_launched(position))
    }

    pub(super) fn is_launched(&self, position: &Position) -> bool {
        self.queues.get(&position.queue).is_none_or(|queue| queue.launched >= position.number)
    }

    /// Whether any caller that waits may be able to go on.
    pub(super) fn concerns_callers(&self) -> bool {
        self.callers > self.awaited_launches.len()
            || self.awaited_launches.iter().any(|position| self.is_launched(position))
    }

    /// A caller has waited for this.
    pub(super) fn await_no_more(&mut self, awaited: Position) {
        let known = self.awaited_launches.iter().position(|position| *position == awaited);
        known.map(|known| self.awaited_launches.swap_remove(known));
    }

    pub(super) fn is_any_suspended(&self) -> bool {
        self.all_suspended
            || self.queues.values().any(|queue| queue.suspended)
            || (0..self.claims.len()).any(|index| self.is_held(ClaimId(index)))
    }

    /// Whether any command was held back that has not been launched.
    pub(super) fn has_any_buffered(&self) -> bool {
        self.queues.values().any(|queue| queue.submitted > queue.launched)
    }

    /// Whether anything may have to wait.
    pub(super) fn is_engaged(&self) -> bool {
        self.awaits_first_use || self.looks_at_all || self.has_reason()
    }

    /// Whether anything but the first use of a device is a reason to look at calls.
    pub(super) fn has_reason(&self) -> bool {
        self.all_suspended
            || self.queues.values().any(|queue| queue.suspended)
            || self.has_any_buffered()
            || self.is_contended()
            || self.is_recorded()
    }

    /// The queue whose next command goes next, if any may go now.
    ///
    /// Of the commands of several queues that may go, the oldest goes first. HIP promises no order between them, but
    /// streams share hardware queues, and a wait that comes before what it waits for would hold up both.
    pub(super) fn next_to_go(&self) -> Option<QueueId> {
        // While a queue launches, its next command is no candidate: there is no end to wait for.
        let candidates = self.queues.iter().filter(|(_, queue)| queue.launching.is_none());
        let may_go = |id: QueueId, first: &Buffered<_>| {
            let may_go = || !self.is_suspended(id) && self.has_room(Place::Queue(id), first.demand.load);
            (self.is_next_forced(id) || may_go()) && self.are_launched(&first.after)
        };
        let candidates = candidates.filter_map(|(&id, queue)| {
            let first = queue.buffer.front()?;
            may_go(id, first).then_some((first.ticket, id))
        });
        let (ticket, id) = candidates.min()?;
        let mut launching = self.queues.values().filter_map(|queue| queue.launching);
        let is_older_launching = launching.any(|(other, since)| other < ticket && since.elapsed() < PATIENCE);
        (!is_older_launching).then_some(id)
    }

    /// The command that goes next, if any may, with its queue.
    pub(super) fn take(&mut self, bugs: Bugs) -> Option<(QueueId, D::Command, Option<Begun<D>>)> {
        let id = self.next_to_go()?;
        let first = self.queues.get(&id)?.buffer.front()?;
        let (mut demand, (since, number)) = (first.demand, first.held);
        if self.is_next_forced(id) && demand.treatment == Treatment::Schedule {
            // Somebody comes after it who must not wait for it.
            demand.treatment = Treatment::Pinned;
        }
        let begun = self.begin(id, demand, Held::Buffered(number, since));
        let queue = self.queues.get_mut(&id)?;
        let buffered =
            if bugs.has(Bug::LastFirst) { queue.buffer.pop_back()? } else { queue.buffer.pop_front()? };
        queue.launching = Some((buffered.ticket, Instant::now()));
        self.buffered -= 1;
        Some((id, buffered.command, begun))
    }

    /// The launch of the command that was taken last has returned.
    pub(super) fn launched(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.launched += 1;
            queue.launching = None;
            queue.show();
        }
        self.tell_of_uses();
    }

    pub(super) fn is_anything_buffered(&self) -> bool {
        self.buffered > 0
    }

    /// Lets the queue's worker go if it has nothing to do. False if something is buffered.
    pub(super) fn dismiss(&mut self, id: QueueId) -> bool {
        match self.queues.get_mut(&id) {
            // There are as many workers as queues with something to launch, or being launched by whomever.
            Some(queue) if queue.buffer.is_empty() && queue.launching.is_none() => {
                queue.has_worker = false;
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.all_suspended = false;
        for queue in self.queues.values_mut() {
            queue.suspended = false;
            queue.show();
        }
    }
}
