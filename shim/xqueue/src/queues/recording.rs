//! What is written down while somebody records: what becomes of each command, and when others have to be let by.
//!
//! A process that is recorded is looked at as if it had neighbours, also while it has the device for itself: its commands
//! are followed, though nothing is limited, and the arbiter is told nothing.

use xsched_protocol::events::{Event, Observed};
use xsched_protocol::verdict::Judgement;
use xsched_sched::Nanos;

use crate::journal::Journal;
use crate::queues::claim::{ClaimId, ClaimKey, Gate};
use crate::queues::contention::Place;
use crate::queues::state::State;
use crate::queues::treatment::Demand;
use crate::queues::{Begun, Device, Load, QueueId, XQueues, now};

/// How a command came to wait before it was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It did not.
    Never,
    /// Its caller waited, since then.
    InPlace(Nanos),
    /// It was buffered: the how-many-th, since then.
    Buffered(u64, Nanos),
}

/// The number by which HIP names a thread's own stream.
const PER_THREAD: u64 = 2;

/// Set in the numbers of what stands for all streams of a claim that have no queue.
const LOOSE: u64 = 1 << 63;

impl Place {
    /// What names it in events.
    fn number(self) -> u64 {
        match self {
            Self::Queue(QueueId(number)) => number,
            Self::Loose(ClaimId(index)) => LOOSE | index as u64,
        }
    }
}

impl<D: Device> XQueues<D> {
    /// What happens is written there from now on, or nowhere.
    pub fn record(&self, journal: Option<Journal>) {
        let mut state = self.lock();
        state.journal = journal;
        // Before anybody is told: whoever reads that a process tells of its queues may rely on it from there on.
        self.publish(&mut state);
        if state.is_recorded() {
            state.introduce_all(&self.device);
        }
        drop(state);
        self.wake_watcher();
    }

    /// Whether somebody records.
    pub fn is_recorded(&self) -> bool {
        self.lock().is_recorded()
    }

    /// Looks at all markers, if somebody records: something has just been waited for, or nobody will look later.
    pub fn look_around(&self) {
        if self.is_recorded() {
            let queues: Vec<_> = self.lock().queues.keys().copied().collect();
            self.look_behind(queues.into_iter());
            // What has completed makes room, of which the watcher says nothing: it finds no marker left to look at.
            self.publish(&mut self.lock());
        }
    }

    /// Looks at markers of these queues as far as they are complete: whoever has just waited for the queues knows that they
    /// are, but not since when.
    pub(super) fn look_behind(&self, queues: impl Iterator<Item = QueueId>) {
        let paused = self.pause();
        if *paused {
            return;
        }
        queues.map(Place::Queue).for_each(|place| self.look_on(place));
    }

    /// Looks at the markers of a place up to the first that is not complete. Only while markers are held.
    pub(super) fn look_on(&self, place: Place) {
        let first = || self.lock().first_marker(place);
        while first().is_some_and(|marker| self.look_at(place, marker)) {}
    }
}

impl<D: Device> State<D> {
    pub(super) fn is_recorded(&self) -> bool {
        self.journal.is_some()
    }

    fn note(&mut self, at: Nanos, event: &Event) {
        if let Some(journal) = &mut self.journal {
            journal.write(at, event);
        }
    }

    /// Tells all that there is.
    fn introduce_all(&mut self, device: &D) {
        let claims: Vec<_> = (0..self.claims.len()).map(ClaimId).collect();
        let queues: Vec<_> = self.queues.keys().copied().collect();
        for claim in claims {
            self.introduce_claim(claim);
            self.note_standing(claim);
            self.note_gate(claim, !matches!(self.claims[claim.0].gate, Gate::There { is_open: false, .. }));
        }
        for queue in queues {
            self.introduce(queue, device);
        }
    }

    /// Tells of a claim's streams without queues.
    pub(super) fn introduce_claim(&mut self, id: ClaimId) {
        if self.journal.is_none() {
            return;
        }
        let claim = &self.claims[id.0];
        let event = Event::QueueOpened {
            queue: Place::Loose(id).number(),
            stream: PER_THREAD,
            device: claim.key.device,
            stream_priority: claim.key.stream_priority,
            held_back: 0,
            in_flight: claim.loose.in_flight() as u32,
            launched: claim.loose.launched_so_far(),
        };
        self.note(now(), &event);
    }

    /// Tells of a queue.
    pub(super) fn introduce(&mut self, id: QueueId, device: &D) {
        let Some(queue) = self.queues.get(&id).filter(|_| self.journal.is_some()) else { return };
        let Some(stream) = queue.stream else { return };
        let key = queue.claim.map(|claim| self.claims[claim.0].key);
        let event = Event::QueueOpened {
            queue: id.0,
            stream: device.stream_number(stream),
            device: key.map_or(0, |key| key.device),
            stream_priority: key.map_or(0, |key| key.stream_priority),
            held_back: queue.buffer.len() as u32,
            in_flight: queue.flight.in_flight() as u32,
            launched: queue.flight.launched_so_far(),
        };
        self.note(now(), &event);
    }

    /// A command of a queue has to wait; `position` 0: its caller does.
    pub(super) fn note_wait(&mut self, queue: QueueId, position: u64, demand: Demand, at: Nanos) {
        if self.is_recorded() && matches!(demand.load, Load::Work(_)) && self.claim_of(queue).is_some() {
            self.note(at, &Event::Waits { queue: queue.0, position, judgement: demand.judgement });
        }
    }

    /// A command goes now, and nobody follows it further.
    pub(super) fn note_unfollowed(&mut self, place: Place, held: Held, judgement: Judgement, at: Nanos) {
        let Some(journal) = &mut self.journal else { return };
        let event = launched(journal, place, (0, false), held, judgement, at, Nanos::ZERO);
        journal.write(at, &event);
    }

    /// A launch has returned. `ahead` is what was expected to be before it.
    pub(super) fn note_launch(&mut self, begun: &Begun<D>, on_device: bool, returned: Nanos, ahead: Nanos) {
        // It is the place's latest.
        let number = if on_device { self.launched_so_far(begun.place) } else { 0 };
        let Some(journal) = &mut self.journal else { return };
        let command = (number, begun.gate.is_some());
        let event = launched(journal, begun.place, command, begun.held, begun.judgement, returned, ahead);
        journal.write(begun.at, &event);
    }

    /// Something of a place has completed, or is not followed any more.
    pub(super) fn note_completion(
        &mut self,
        place: Place,
        at: Nanos,
        device_time: Option<Nanos>,
        observed: Observed,
    ) {
        if self.journal.is_none() {
            return;
        }
        let through = match self.flight_mut(place) {
            Some(flight) => flight.launched_so_far() - flight.in_flight() as u64,
            None => return,
        };
        let device_ns = device_time.map_or(0, |time| time.0);
        self.note(at, &Event::Completed { queue: place.number(), through, device_ns, observed });
    }

    /// A claim has to give way, or need not any more.
    pub(super) fn note_standing(&mut self, claim: ClaimId) {
        let claim = &self.claims[claim.0];
        let Some(seat) = claim.seat.as_ref().filter(|_| self.journal.is_some()) else { return };
        let (level, ready) = seat.levels();
        let event = Event::Admission {
            device: claim.key.device,
            stream_priority: claim.key.stream_priority,
            suspended: claim.standing().is_held(),
            level,
            ready,
        };
        self.note(now(), &event);
    }

    /// A claim's gate is open, or shut, from now on.
    pub(super) fn note_gate(&mut self, claim: ClaimId, is_open: bool) {
        let ClaimKey { device, stream_priority } = self.claims[claim.0].key;
        self.note(now(), &Event::Gate { device, stream_priority, is_open });
    }

    fn launched_so_far(&mut self, place: Place) -> u64 {
        self.flight_mut(place).map_or(0, |flight| flight.launched_so_far())
    }

    fn first_marker(&mut self, place: Place) -> Option<D::Marker> {
        self.flight_mut(place)?.first_marker()
    }
}

/// A launch as an event: its number, and whether there is a gate before it.
fn launched(
    journal: &Journal,
    place: Place,
    (number, is_gated): (u64, bool),
    held: Held,
    judgement: Judgement,
    returned: Nanos,
    ahead: Nanos,
) -> Event {
    let (position, since) = match held {
        Held::Never => (0, None),
        Held::InPlace(since) => (0, Some(since)),
        Held::Buffered(position, since) => (position, Some(since)),
    };
    Event::Launched {
        queue: place.number(),
        number,
        returned_ns: journal.time_ns(returned),
        position,
        waited_since_ns: since.map_or(0, |since| journal.time_ns(since)),
        ahead_ns: ahead.0,
        judgement,
        is_gated,
    }
}
