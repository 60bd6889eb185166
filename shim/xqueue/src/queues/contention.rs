//! What the state does while others use the same devices: who must give way, what is on the device, what the arbiter is told.

use std::mem;
use std::sync::Arc;

use xsched_protocol::events::Observed;
use xsched_protocol::verdict::Judgement;
use xsched_sched::{Limit, Nanos};

use crate::queues::claim::{Claim, ClaimId, ClaimKey, Seat, Standing, Usage};
use crate::queues::flight::{Class, Flight, Landed, QUIET, Seen, launch};
use crate::queues::origins::Origin;
use crate::queues::recording::Held;
use crate::queues::state::{Queue, State};
use crate::queues::treatment::{Demand, End};
use crate::queues::{Device, QueueId, now};

/// How often completions are looked for at least while somebody records.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// How late, at the latest, it is noticed that a launch has returned for which streams were not asked.
const LAUNCHED_WITHIN: Nanos = Nanos::from_millis(1);

/// What a command means for its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It occupies it, about as long as others of its class.
    Work(Class),
    /// It does not: an event, a wait, a function of the host. Never limited, since others may wait for it.
    Signal,
}

/// A launch that was begun and is to be finished, see [`crate::queues::XQueues::finish`].
#[derive(Debug)]
#[must_use]
pub struct Begun<D: Device> {
    pub(super) place: Place,
    claim: ClaimId,
    /// When, and how it came to be launched only then.
    pub(super) at: Nanos,
    pub(super) held: Held,
    pub(super) stream: D::Stream,
    class: Class,
    is_limited: bool,
    /// Why it is treated as it is.
    pub(super) judgement: Judgement,
    /// To whom it belongs.
    origin: Origin,
    /// Whether it is not to be stopped.
    pub(super) is_pinned: bool,
    pub(super) end: End,
    /// To be put before it.
    pub(super) gate: Option<D::Gate>,
    /// Whether the watcher has to be told when it was launched.
    is_first: bool,
}

impl<D: Device> Begun<D> {
    /// The same, which the runtime may refuse: the gate before it would stay in its stream, with nothing behind it. It has one only
    /// if it is certain to be taken.
    pub fn gated_if(mut self, is_certain: impl FnOnce() -> bool) -> Self {
        self.gate = self.gate.filter(|_| is_certain());
        self
    }
}

/// Where what is on the device is kept in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Queue(QueueId),
    /// From a stream without a queue.
    Loose(ClaimId),
}

impl<D: Device> State<D> {
    /// The claim with this key, a new one if need be.
    pub(super) fn claim(&mut self, key: ClaimKey) -> ClaimId {
        let known = self.claims.iter().position(|claim| claim.key == key);
        ClaimId(known.unwrap_or_else(|| {
            self.claims.push(Claim::new(key, self.limit));
            // It has no seat yet.
            self.standings.push(Standing::Alone);
            let index = self.claims.len() - 1;
            self.introduce_claim(ClaimId(index));
            // What is beside it on the device has no gate any more.
            self.apply_limits();
            index
        }))
    }

    pub(super) fn claim_of(&self, queue: QueueId) -> Option<ClaimId> {
        self.queues.get(&queue)?.claim
    }

    /// Whether a claim must give way now.
    pub(super) fn is_held(&self, claim: ClaimId) -> bool {
        !self.closed && self.claims[claim.0].standing().is_held()
    }

    /// Whether anybody else uses a device of this process. A watcher that is deaf does not see them go and come again, and would
    /// not look for what was launched between: so they have not gone until it looks.
    pub(super) fn is_contended(&self) -> bool {
        !self.closed && (self.is_watcher_deaf || self.claims.iter().any(|claim| !claim.is_alone()))
    }

    /// Whether somebody more urgent may use a device of this process at any time.
    pub(super) fn is_limited(&self) -> bool {
        self.claims.iter().any(Claim::is_below)
    }

    /// Whether any claim stands differently from when this was last asked.
    pub(super) fn is_standing_new(&mut self) -> bool {
        self.look_at_standings();
        mem::take(&mut self.has_new_standing)
    }

    /// Takes note of how claims stand, and of turns that they have had meanwhile. Before a command counts as complete that one of
    /// them has kept from the device: that time is not its own.
    pub(super) fn look_at_standings(&mut self) {
        let standings: Vec<_> = self.claims.iter().map(Claim::standing).collect();
        self.has_new_standing |= standings != self.standings;
        let mut turned = Vec::new();
        let mut joined = Vec::new();
        let both = standings.iter().zip(&self.standings).zip(&mut self.claims).enumerate();
        for (index, ((standing, before), claim)) in both.filter(|(_, ((now, before), _))| now != before) {
            let id = ClaimId(index);
            let has_turned = standing.is_held() != before.is_held();
            if has_turned {
                turned.push(id);
            }
            if *before == Standing::Alone {
                joined.push(id);
            }
            let queues = self.queues.values_mut().filter(|queue| queue.claim == Some(id));
            for flight in queues.map(|queue| &mut queue.flight).chain([&mut claim.loose]) {
                if has_turned {
                    flight.held(now(), standing.is_held());
                }
                if *standing == Standing::Alone {
                    flight.lose_sight();
                }
            }
        }
        for (index, standing) in standings.iter().enumerate() {
            self.note_turn(ClaimId(index), *standing, !turned.contains(&ClaimId(index)));
        }
        for claim in turned {
            self.note_standing(claim);
        }
        self.standings = standings;
        for claim in joined {
            self.adopt(claim, |_| true);
        }
    }

    /// A claim may have had to give way, and need not any more, without anybody's noticing.
    fn note_turn(&mut self, id: ClaimId, standing: Standing, is_unseen: bool) {
        let now = now();
        let claim = &mut self.claims[id.0];
        let Some((shut, _)) = claim.last_closure().filter(|&(shut, _)| shut != claim.turn_noted) else {
            return;
        };
        claim.turn_noted = shut;
        if !is_unseen || standing.is_held() {
            return;
        }
        claim.gave_way(now);
        let queues = self.queues.values_mut().filter(|queue| queue.claim == Some(id));
        for flight in queues.map(|queue| &mut queue.flight).chain([&mut claim.loose]) {
            flight.held(now, true);
            flight.held(now, false);
        }
    }

    /// Somebody else has come, or completions are followed again. What was launched before that is on the device, and nothing is
    /// known of it: each stream of which this is so is taken to have something there, until it is asked. The arbiter may know
    /// nothing of what is known, since it may be another one.
    fn adopt(&mut self, claim: ClaimId, is_it: impl Fn(&Flight<D::Marker>) -> bool) {
        let is_alone = self.has_one_stream();
        let of_claim = self.queues.values_mut().filter(|queue| {
            queue.claim == Some(claim) && queue.stream.is_some() && (is_alone || !queue.orders_others)
        });
        let flights = of_claim.map(|queue| &mut queue.flight).filter(|flight| is_it(flight));
        flights.for_each(|flight| flight.adopt(now()));
        if self.has_work(claim) {
            self.claims[claim.0].wants(now());
        }
    }

    /// Completions are followed again. What was launched meanwhile may be on the device still.
    pub(super) fn adopt_unseen(&mut self) {
        for claim in (0..self.claims.len()).map(ClaimId) {
            if !self.claims[claim.0].is_alone() {
                self.adopt(claim, Flight::is_any_unseen);
            }
        }
    }

    /// Whether a device may be given one more command from here. A stream that is stuck is not limited while callers wait in place.
    pub(super) fn has_room(&self, place: Place, load: Load) -> bool {
        let (Some(claim), Load::Work(class)) = (self.claim_at(place), load) else { return true };
        let is_limited = !self.closed && !self.unlimited && self.claims[claim.0].is_below();
        let flight = self.flight(place).filter(|_| is_limited);
        flight.is_none_or(|flight| flight.has_room(now(), class, self.in_place > 0))
    }

    pub(super) fn claim_at(&self, place: Place) -> Option<ClaimId> {
        match place {
            Place::Queue(queue) => self.claim_of(queue),
            Place::Loose(claim) => Some(claim),
        }
    }

    fn flight(&self, place: Place) -> Option<&Flight<D::Marker>> {
        match place {
            Place::Queue(queue) => self.queues.get(&queue).map(|queue| &queue.flight),
            Place::Loose(claim) => self.claims.get(claim.0).map(|claim| &claim.loose),
        }
    }

    pub(super) fn flight_mut(&mut self, place: Place) -> Option<&mut Flight<D::Marker>> {
        match place {
            Place::Queue(queue) => self.queues.get_mut(&queue).map(|queue| &mut queue.flight),
            Place::Loose(claim) => self.claims.get_mut(claim.0).map(|claim| &mut claim.loose),
        }
    }

    /// Tells of a queue's work, if it has a use for the device now that it may have had none for before.
    pub(super) fn tell_of_use(&mut self, queue: QueueId) {
        let Some(known) = self.queues.get(&queue) else { return };
        let is_counted = known.buffer.front().is_some_and(|first| first.demand.treatment.is_counted());
        let claim = known.claim.filter(|_| is_counted && self.has_use(known));
        if let Some(claim) = claim.map(|claim| &mut self.claims[claim.0])
            && claim.standing() != Standing::Alone
        {
            claim.wants(now());
        }
    }

    /// The same of all queues.
    pub(super) fn tell_of_uses(&mut self) {
        let with_commands = self.queues.iter().filter(|(_, queue)| !queue.buffer.is_empty());
        let waiting: Vec<_> = with_commands.map(|(&id, _)| id).collect();
        for queue in waiting {
            self.tell_of_use(queue);
        }
    }

    /// Whether a queue would launch something if it might. What comes after something that is held back has no use for the
    /// device: as work of an urgent stream it could hold back the very command of another that it waits for.
    fn has_use(&self, queue: &Queue<D>) -> bool {
        queue.buffer.front().is_some_and(|first| self.are_launched(&first.after))
    }

    /// Somebody waits for the turn of this claim, or does not any more.
    pub(super) fn waits(&mut self, claim: ClaimId, waits: bool) {
        let claim = &mut self.claims[claim.0];
        if waits {
            claim.waiting += 1;
            if claim.standing() != Standing::Alone {
                claim.wants(now());
            }
        } else {
            claim.waiting -= 1;
        }
    }

    /// A command of a queue is about to be launched. None if nobody needs to know.
    pub(super) fn begin(&mut self, queue: QueueId, demand: Demand, held: Held) -> Option<Begun<D>> {
        let known = self.queues.get(&queue)?;
        let (claim, stream) = (known.claim?, known.stream?);
        let is_counted = matches!(held, Held::Buffered(..)) && demand.treatment.is_counted();
        self.claims[claim.0].usage.held_back += u64::from(is_counted);
        self.begin_at(Place::Queue(queue), claim, stream, demand, held)
    }

    pub(super) fn begin_at(
        &mut self,
        place: Place,
        claim: ClaimId,
        stream: D::Stream,
        Demand { load, treatment, judgement, origin, end }: Demand,
        held: Held,
    ) -> Option<Begun<D>> {
        let Load::Work(class) = load else {
            if treatment.is_forced() {
                // It is not followed, and somebody waits for it, or for what it comes after.
                self.pin_all();
            }
            return None;
        };
        let standing = self.claims[claim.0].standing();
        let is_alone = standing == Standing::Alone && !self.is_watcher_deaf;
        if self.unlimited || is_alone && !self.is_recorded() {
            self.note_unfollowed(place, held, judgement, now());
            if !is_alone && treatment.is_counted() {
                self.flight_mut(place)?.lose_sight();
            }
            return None;
        }
        if !treatment.is_counted() {
            self.note_unfollowed(place, held, judgement, now());
            // The times of its neighbours say less now.
            self.flight_mut(place)?.disturbed(now());
            self.pin_all();
            return None;
        }
        let at = now();
        let is_told = !is_alone && self.claims[claim.0].begins(at);
        self.claims[claim.0].launching += usize::from(is_alone);
        // Of the first command after a while the watcher does not know when to look for its end.
        let is_awaited = self.is_recorded() && self.flight(place).is_some_and(Flight::is_empty);
        let is_first = is_told || is_awaited;
        // Who is not limited needs to know of its last completion only: the watcher sees to that.
        let is_limited = matches!(standing, Standing::Below { .. });
        let is_pinned = treatment.is_pinned();
        self.pinned_launches += usize::from(is_pinned);
        let gate = if is_limited && !is_pinned { self.gate_before(place, claim, class) } else { None };
        Some(Begun {
            place,
            claim,
            at,
            held,
            stream,
            class,
            is_limited,
            judgement,
            origin,
            is_pinned,
            end,
            gate,
            is_first,
        })
    }

    /// A launch has returned; with `on_device` it is there. How many were launched so far, if a marker is to be recorded behind
    /// them.
    pub(super) fn launched_one(&mut self, begun: &Begun<D>, on_device: bool) -> Option<u64> {
        let now = now();
        self.pinned_launches -= usize::from(begun.is_pinned);
        let is_recorded = self.is_recorded();
        let Some(flight) = self.flight_mut(begun.place).filter(|_| on_device) else {
            self.note_launch(begun, false, now, Nanos::ZERO);
            return None;
        };
        let ahead = if is_recorded { flight.ahead(now) } else { Nanos::ZERO };
        let is_time = flight.is_unmarked_for_long(now);
        flight.launched_by(now, launch(begun.at, begun.class, begun.origin, begun.gate.is_some()));
        if begun.is_pinned {
            flight.pin();
        }
        if let End::ByEvent(event) = begun.end {
            flight.ends_by_event(event);
        }
        let is_worth_it = is_recorded && flight.is_worth_a_marker(begun.class);
        self.note_launch(begun, true, now, ahead);
        let flight = self.flight(begun.place)?;
        let wants_marker = match begun.place {
            // Nobody could do it later.
            Place::Loose(_) => true,
            Place::Queue(queue) => {
                is_time
                    || is_worth_it
                    || !self.may_be_asked(self.queues.get(&queue)?)
                    || begun.is_limited
                        && (flight.wants_marker() || !flight.has_room(now, begun.class, self.in_place > 0))
            }
        };
        wants_marker.then(|| flight.launched_so_far())
    }

    /// A marker was recorded behind so many commands, or none was; with `on_device` the runtime took the launch. Whether the watcher
    /// sleeps for longer than it should now, and markers that are not needed.
    pub(super) fn finish(
        &mut self,
        begun: &Begun<D>,
        marker: Option<(D::Marker, u64)>,
        on_device: bool,
    ) -> (bool, Vec<D::Marker>) {
        let now = now();
        // Not before: the watcher would ask the stream, and the marker would come behind what it knows to be done.
        self.claims[begun.claim.0].launching -= 1;
        let mut retired = Vec::new();
        match (self.flight_mut(begun.place), marker) {
            (Some(flight), Some((marker, launched))) => retired.extend(flight.marked(now, marker, launched)),
            (None, Some((marker, _))) => retired.push(marker),
            // Nobody else could record one.
            (Some(flight), None) if on_device && matches!(begun.place, Place::Loose(_)) => {
                retired = flight.abandon();
                self.note_completion(begun.place, now, None, Observed::Lost);
            }
            (_, None) => {}
        }
        let waits_for_room = self
            .flight(begun.place)
            .is_some_and(|flight| self.waits_for_room(begun.place, flight, self.has_buffered()));
        let due = self.next_look(begun.place);
        // Most often it comes early enough by itself.
        let sleeps = (begun.is_first || waits_for_room) && self.sleeps_beyond(due.unwrap_or(now));
        (sleeps, retired)
    }

    /// A marker was recorded behind everything that a queue's stream was given. Gives it back if another one says as much.
    pub(super) fn marked_last(&mut self, queue: QueueId, marker: D::Marker) -> Option<D::Marker> {
        let Some(flight) = self.flight_mut(Place::Queue(queue)) else { return Some(marker) };
        if flight.is_any_unseen() {
            flight.adopt(now());
        }
        flight.marked(now(), marker, flight.launched_so_far())
    }

    /// When the watcher has to look at a place's marker, or to ask its stream.
    pub(super) fn next_look(&self, place: Place) -> Option<Nanos> {
        let flight = self.flight(place)?;
        self.look_at(place, flight, self.has_buffered()).into_iter().chain(flight.quiet_at()).min()
    }

    /// Whether something waits until less is on the device, or soon will. What a worker is about to launch does not, where there is
    /// much room: to wake the watcher with each launch takes longer than the launch.
    fn waits_for_room(
        &self,
        place: Place,
        flight: &Flight<D::Marker>,
        has_buffered: impl FnOnce(ClaimId) -> bool,
    ) -> bool {
        let Some(claim) = self.claim_at(place) else { return false };
        self.claims[claim.0].waiting > 0 || flight.is_half_full(now()) && has_buffered(claim)
    }

    /// Whether commands of a claim wait, for whatever.
    fn is_waited_for(&self, claim: ClaimId) -> bool {
        self.claims[claim.0].waiting > 0 || self.has_buffered()(claim)
    }

    /// Whether the watcher is not about to look at this time, or hears nothing before.
    pub(super) fn sleeps_beyond(&self, at: Nanos) -> bool {
        self.is_watcher_deaf || self.watch_at.is_some_and(|watch_at| watch_at > at)
    }

    /// Whether nothing of this process can be concerned by what others do, until it launches or holds back something: it is known
    /// that there are others, and it has no work.
    pub(super) fn is_unconcerned(&self) -> bool {
        let is_idle =
            |claim: &Claim<D>| !claim.is_alone() && !claim.is_told() && claim.waiting + claim.launching == 0;
        !self.claims.is_empty()
            && self.claims.iter().all(is_idle)
            && self.flights().all(|(_, flight)| flight.is_empty())
            && !self.is_anything_buffered()
    }

    /// Whether a claim has something buffered that would be launched if it might.
    fn has_buffered(&self) -> impl Fn(ClaimId) -> bool {
        let is_of = |queue: &Queue<D>, claim| queue.claim == Some(claim) && self.has_use(queue);
        // Most often nothing is, and a launch does not look at thousands of queues to find that.
        move |claim| self.is_anything_buffered() && self.queues.values().any(|queue| is_of(queue, claim))
    }

    /// The same for who asks about many of a process's queues, of which there may be thousands.
    fn have_buffered(&self) -> impl Fn(ClaimId) -> bool + use<D> {
        let mut buffered = vec![false; self.claims.len()];
        for queue in self.queues.values() {
            if let Some(ClaimId(index)) = queue.claim {
                buffered[index] = buffered[index] || self.has_use(queue);
            }
        }
        move |ClaimId(index)| buffered[index]
    }

    /// Markers that are to be looked at now.
    pub(super) fn due_markers(&self, now: Nanos) -> Vec<(Place, D::Marker)> {
        let has_buffered = self.have_buffered();
        let is_due = |place, flight| self.look_at(place, flight, &has_buffered).is_some_and(|at| at <= now);
        let due = self.flights().filter(|&(place, flight)| is_due(place, flight));
        due.filter_map(|(place, flight)| Some((place, flight.first_marker()?))).collect()
    }

    fn look_at(
        &self,
        place: Place,
        flight: &Flight<D::Marker>,
        has_buffered: impl FnOnce(ClaimId) -> bool,
    ) -> Option<Nanos> {
        flight.first_marker()?;
        let at = flight.look_at(self.waits_for_room(place, flight, has_buffered))?;
        // The end of all that was launched is not soon enough for who wants to know of each.
        Some(if self.is_recorded() { at.min(flight.looked_at() + LOOK_EVERY) } else { at })
    }

    fn flights(&self) -> impl Iterator<Item = (Place, &Flight<D::Marker>)> {
        let queues = self.queues.iter().map(|(&id, queue)| (Place::Queue(id), &queue.flight));
        let loose = self.claims.iter().enumerate();
        queues.chain(loose.map(|(index, claim)| (Place::Loose(ClaimId(index)), &claim.loose)))
    }

    /// Whether a queue's stream may be asked whether it is done. One that orders others is so only when these are, and to ask it
    /// may have them wait for what they need not.
    fn may_be_asked(&self, queue: &Queue<D>) -> bool {
        !queue.orders_others || self.has_one_stream()
    }

    fn has_one_stream(&self) -> bool {
        // No more are looked for: there may be thousands.
        self.queues.values().filter(|queue| queue.stream.is_some()).take(2).count() == 1
    }

    /// Whether the watcher asks a queue's stream if nobody else has seen to it.
    pub(super) fn may_be_asked_later(&self, queue: QueueId) -> bool {
        self.queues.get(&queue).is_some_and(|queue| self.may_be_asked(queue))
    }

    /// Streams with commands on the device that no marker follows, and none is to be expected soon; how many were launched. The
    /// stream itself if it may be asked whether it is done.
    ///
    /// A marker behind what was launched a while ago would come after what the program has put there since, and by the rules of
    /// null streams after other streams' work as well: a program that has seen its stream done would find it at work, or wait for
    /// what it holds up itself. What may not be asked and has no marker, as of a null stream that was the only one, is given up.
    pub(super) fn quiet_streams(&self, now: Nanos) -> Vec<(QueueId, Option<D::Stream>, u64)> {
        let awaited = self.awaited_claim();
        let quiet = self.queues.iter().filter(|(_, queue)| {
            !self.is_launching(queue)
                && !queue.is_end_awaited(awaited)
                && queue.flight.quiet_at().is_some_and(|at| at <= now)
        });
        let asked = |queue: &Queue<D>| queue.stream.filter(|_| self.may_be_asked(queue));
        quiet.map(|(&id, queue)| (id, asked(queue), queue.flight.launched_so_far())).collect()
    }

    /// A queue's stream was asked whether so many commands are done, which it may be unable to tell. Returns markers that are not
    /// needed.
    pub(super) fn asked(&mut self, queue: QueueId, launched: u64, is_done: Option<bool>) -> Vec<D::Marker> {
        let (place, now) = (Place::Queue(queue), now());
        let mut retired = Vec::new();
        let Some(flight) = self.flight_mut(place) else { return retired };
        match is_done {
            Some(true) => {
                if let Some(took) = flight.landed_before(launched, now, Seen::SinceTheLastLook, &mut retired)
                {
                    self.charge(place, now, took);
                    self.note_completion(place, now, None, Observed::Marker);
                }
            }
            // Who launches meanwhile has it asked again.
            _ if flight.launched_so_far() != launched => {}
            Some(false) => flight.asked(now),
            None => {
                retired = flight.abandon();
                self.note_completion(place, now, None, Observed::Lost);
            }
        }
        retired
    }

    /// The program has seen that this event is complete.
    pub(super) fn has_seen_event(&mut self, event: u64) {
        let queues = self.queues.values_mut().map(|queue| &mut queue.flight);
        let loose = self.claims.iter_mut().map(|claim| &mut claim.loose);
        queues.chain(loose).for_each(|flight| flight.has_seen_event(event));
    }

    /// Whether there is a marker behind a place's last command of which the program knows that it is done.
    pub(super) fn is_marker_in_doubt(&self, place: Place) -> bool {
        self.flight(place).is_some_and(Flight::is_marker_in_doubt)
    }

    /// Somebody has looked at a first marker; `device_time` is what lies between it and the one before, if that is known.
    /// Returns a marker that is not needed any more.
    pub(super) fn looked_at(
        &mut self,
        place: Place,
        marker: D::Marker,
        is_complete: bool,
        device_time: Option<Nanos>,
    ) -> Option<D::Marker> {
        let now = now();
        let flight = self.flight_mut(place)?;
        // Who has waited for the stream may have seen the same meanwhile.
        flight.first_marker().filter(|first| *first == marker)?;
        if !is_complete {
            flight.looked(now);
            return None;
        }
        let Landed { took, retired } = flight.landed(now, device_time)?;
        self.charge(place, now, took);
        self.note_completion(place, now, device_time, Observed::Marker);
        retired
    }

    /// The claim whose streams' ends whoever waits for them sees: not in time if he waits for another claim's as well, as for a
    /// device, which may have work for much longer.
    fn awaited_claim(&self) -> Option<ClaimId> {
        let mut awaited = self.queues.values().filter(|queue| queue.awaited > 0);
        let claim = awaited.next()?.claim;
        claim.filter(|_| awaited.all(|other| other.claim == claim))
    }

    /// The host waits for what these queues have on the device now. Says how much that is.
    pub(super) fn waits_for(&mut self, queues: &[QueueId]) -> Vec<(QueueId, u64)> {
        let known = queues.iter().filter_map(|&id| {
            let queue = self.queues.get_mut(&id)?;
            queue.awaited += 1;
            Some((id, queue.flight.launched_so_far()))
        });
        known.collect()
    }

    /// The host has waited. Returns markers that are not needed any more.
    pub(super) fn has_waited(
        &mut self,
        waited: &[(QueueId, u64)],
        is_complete: bool,
        now: Nanos,
    ) -> Vec<D::Marker> {
        let mut retired = Vec::new();
        for &(id, launched) in waited {
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            queue.awaited -= 1;
            if queue.claim.is_none() || !is_complete {
                continue;
            }
            if let Some(took) = queue.flight.landed_before(launched, now, Seen::JustNow, &mut retired) {
                self.charge(Place::Queue(id), now, took);
                self.note_completion(Place::Queue(id), now, None, Observed::Wait);
            }
        }
        retired
    }

    /// When the first of those claims whose work is all done may be told to have none.
    pub(super) fn idle_at(&self) -> Option<Nanos> {
        let claims = self.claims.iter().enumerate();
        let idle = claims.filter(|&(index, _)| !self.has_work(ClaimId(index)));
        idle.filter_map(|(_, claim)| claim.idle_at()).min()
    }

    fn has_work(&self, id: ClaimId) -> bool {
        let claim = &self.claims[id.0];
        let mut of_claim = self.queues.values().filter(|queue| queue.claim == Some(id));
        self.is_waited_for(id)
            || claim.launching > 0
            || !claim.loose.is_empty()
            || of_claim.any(|queue| !queue.flight.is_empty())
    }

    /// A marker that was complete before the first one of a place.
    pub(super) fn marker_before(&self, place: Place) -> Option<D::Marker> {
        match place {
            Place::Queue(queue) => self.queues.get(&queue)?.flight.marker_before(),
            Place::Loose(_) => None,
        }
    }

    /// Tells the arbiter what it has to know. Returns when to come again.
    pub(super) fn tend_claims(&mut self, now: Nanos) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        let mut come_at = |at: Option<Nanos>| next = next.into_iter().chain(at).min();
        for index in 0..self.claims.len() {
            let id = ClaimId(index);
            let (has_work, waits) = (self.has_work(id), self.is_waited_for(id));
            come_at(self.claims[index].tend(has_work, waits, now));
        }
        if self.unlimited {
            // Nobody may look at anything; whoever ends that wakes the watcher.
            return next;
        }
        let has_buffered = self.have_buffered();
        for (place, flight) in self.flights() {
            come_at(self.look_at(place, flight, &has_buffered));
        }
        let awaited = self.awaited_claim();
        for queue in self.queues.values().filter(|queue| !queue.is_end_awaited(awaited)) {
            come_at(self.ask_at(queue, now));
        }
        next
    }

    /// When to come to ask a queue's stream. It is not asked while a launch is on its way, which may take long to return.
    fn ask_at(&self, queue: &Queue<D>, now: Nanos) -> Option<Nanos> {
        let at = queue.flight.quiet_at()?;
        Some(if self.is_launching(queue) {
            at.max(now + (now - at).clamp(QUIET, LAUNCHED_WITHIN))
        } else {
            at
        })
    }

    /// Whether a launch of the queue's claim is on its way: its marker may be still to come.
    fn is_launching(&self, queue: &Queue<D>) -> bool {
        queue.claim.is_some_and(|claim| self.claims[claim.0].launching > 0)
    }

    pub(super) fn seat(&mut self, claim: ClaimId, seat: Option<Arc<dyn Seat>>) {
        self.leave_gate(claim);
        self.claims[claim.0].seated(seat, now());
    }

    pub(super) fn usage(&self, claim: ClaimId) -> Usage {
        self.claims[claim.0].usage
    }

    /// How much may be launched ahead beside more urgent neighbours.
    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.apply_limits();
    }
}

#[cfg(test)]
mod tests;
