//! The watcher's part: one thread of the process looks at markers, tells the arbiter what it has to know, and wakes those that
//! may go on.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use xsched_sched::{Limit, Nanos};

use crate::queues::claim::{ClaimId, ClaimKey, Seat, Standing, Usage};
use crate::queues::contention::Place;
use crate::queues::{Device, QueueId, XQueues, now};

/// How often a marker is looked at that a caller waits for, and for how long at most: the device is done with what is before it,
/// but the program may have used its event otherwise.
const LOOK_AGAIN: Duration = Duration::from_micros(20);
const MARKER_MAX: Duration = Duration::from_secs(1);

impl<D: Device> XQueues<D> {
    /// The claim with this key, a new one if need be.
    pub fn claim(&self, key: ClaimKey) -> ClaimId {
        let mut state = self.lock();
        let known = state.claims.len();
        let claim = state.claim(key);
        let is_new = state.claims.len() > known;
        drop(state);
        if is_new {
            // It has no seat until the watcher sees to that.
            self.wake_watcher();
        }
        claim
    }

    /// All claims, in the order in which they were made.
    pub fn claims(&self) -> Vec<(ClaimId, ClaimKey)> {
        let state = self.lock();
        state.claims.iter().enumerate().map(|(index, claim)| (ClaimId(index), claim.key)).collect()
    }

    /// Gives a claim a place with the arbiter, or takes it away: it stands alone then.
    pub fn seat(&self, claim: ClaimId, seat: Option<Arc<dyn Seat>>) {
        let mut state = self.lock();
        state.seat(claim, seat);
        self.publish(&mut state);
    }

    /// What a claim has used so far.
    pub fn usage(&self, claim: ClaimId) -> Usage {
        self.lock().usage(claim)
    }

    /// What all claims have used so far, if that can be told without waiting.
    pub fn total_usage(&self) -> Option<Usage> {
        let state = self.state.try_lock().ok()?;
        Some(
            (0..state.claims.len())
                .map(|index| state.usage(ClaimId(index)))
                .fold(Usage::default(), Usage::plus),
        )
    }

    /// How much may be launched ahead beside more urgent neighbours.
    pub fn set_limit(&self, limit: Limit) {
        self.lock().set_limit(limit);
    }

    /// What wakes the watcher. Given once.
    pub fn set_alarm(&self, alarm: Box<dyn Fn() + Send + Sync>) {
        let _ = self.alarm.set(alarm);
    }

    /// From now on markers are neither recorded nor looked at, no gates are made, and nothing is limited by what is on the
    /// device; false takes it back.
    pub fn pause_markers(&self, paused: bool) {
        let mut markers_paused = self.pause();
        // Looked at only now: who waits here may wait beside the end of the process, which pauses them for good.
        *markers_paused = paused || self.is_closed();
        drop(markers_paused);
        drop(self.gate_in_the_making.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.lock();
        state.unlimited = paused;
        if !paused {
            state.adopt_unseen();
        }
        self.publish(&mut state);
        drop(state);
        if !paused {
            self.wake_watcher();
        }
    }

    /// Does all that is due; returns when to come again at the latest, if anything is to be expected, and does not expect
    /// to come later.
    pub fn tend(&self, latest: Nanos) -> Nanos {
        let mut state = self.lock();
        // Before anything is looked at: what changes from now on wakes whom it concerns.
        state.ask_for_quiet();
        state.set_gates(&self.device);
        state.look_at_standings();
        drop(state);
        let has_landed = self.look_at_due_markers() | self.ask_quiet_streams();
        let mut state = self.lock();
        // What kept them open may have landed.
        state.set_gates(&self.device);
        // First: who is not alone any more has something to be looked at.
        let is_standing_new = state.is_standing_new();
        let next = state.tend_claims(now());
        let next = next.map_or(latest, |next| next.min(latest));
        state.watch_at = Some(next);
        state.is_watcher_deaf = state.is_unconcerned();
        let is_any_over = state.queues.values().any(|queue| queue.is_over(false));
        if is_standing_new || has_landed {
            self.publish(&mut state);
        } else {
            self.publish_quietly(&state);
        }
        drop(state);
        if is_any_over {
            self.forget_those_without_stream(false);
        }
        next
    }

    /// Whether nothing that others do concerns this process at present: it knows that they are there, and has no work.
    pub fn is_unconcerned(&self) -> bool {
        self.lock().is_unconcerned()
    }

    /// Whether that was so when the watcher last did what was due. Then it need not hear what the arbiter tells everybody: what
    /// changes that wakes it.
    pub fn is_watcher_deaf(&self) -> bool {
        self.lock().is_watcher_deaf
    }

    /// The places of claims that the watcher is to look at all the time now, rather than sleep, and how they stood.
    pub fn polled(&self) -> Vec<(Arc<dyn Seat>, Standing)> {
        self.lock().polled(now())
    }

    /// Whose commands are shorter than this polls when it had to give way of late; zero: nobody.
    pub fn poll_below(&self, time: Nanos) {
        self.lock().poll_below = time;
    }

    /// Makes gates for claims that need them. May take a while, once for each claim.
    pub fn make_gates(&self) {
        if self.lock().wants_gate().is_none() {
            return;
        }
        // Not while a stream captures: memory that is asked for then, by whatever thread, ends the capture. Nor across a reset,
        // which takes the memory back.
        let _made = self.gate_in_the_making.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.pause() {
            return;
        }
        let Some((claim, stream, page)) = self.lock().wants_gate() else { return };
        // A stream that was destroyed meanwhile is only looked at for its device.
        let shared = page.and_then(|page| {
            // For good: nobody can tell when the device has looked there for the last time.
            let page = &**Box::leak(Box::new(page));
            self.device.share_gate(stream, page).map(|gate| (gate, Some(page)))
        });
        let gate = shared.or_else(|| self.device.make_gate(stream).map(|gate| (gate, None)));
        let mut state = self.lock();
        state.give_gate(claim, gate);
        self.publish(&mut state);
    }

    /// Whether gates may be used, from now on. One that may not stays open.
    pub fn use_gates(&self, uses: bool) {
        let mut state = self.lock();
        state.uses_gates = uses;
        state.apply_limits();
        state.set_gates(&self.device);
    }

    /// The devices are about to be reset: gates are not used any more, and none is in the making.
    pub fn forget_gates(&self) {
        let _none_is_made = self.gate_in_the_making.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock().forget_gates(&self.device);
    }

    /// Whether others use a device of this process.
    pub fn is_contended(&self) -> bool {
        self.lock().is_contended()
    }

    /// Whether there is any reason to look at calls, but the first use of a device.
    pub fn has_reason(&self) -> bool {
        self.lock().has_reason()
    }

    /// Whether the process ends.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// What the host waits for from now on: a queue's work that is on the device now, or a device's. For
    /// [`Self::has_waited`].
    pub fn waits_for(&self, queues: &[QueueId]) -> Vec<(QueueId, u64)> {
        if queues.is_empty() {
            return Vec::new();
        }
        self.lock().waits_for(queues)
    }

    /// The host's wait is over; with `is_complete`, so is what it waited for.
    pub fn has_waited(&self, waited: &[(QueueId, u64)], is_complete: bool) {
        if is_complete && self.is_recorded() {
            self.look_behind(waited.iter().map(|&(queue, _)| queue));
        }
        let mut state = self.lock();
        if is_complete {
            state.set_gates(&self.device);
            state.look_at_standings();
        }
        let retired = state.has_waited(waited, is_complete, now());
        let mut sleeps = false;
        if is_complete {
            self.publish(&mut state);
            // The watcher would else come when a lease is to be renewed, and others wait for that long.
            sleeps = state.idle_at().is_some_and(|at| state.sleeps_beyond(at));
        }
        drop(state);
        self.retire(retired);
        if sleeps {
            self.wake_watcher();
        }
    }

    /// Whether any was complete.
    fn look_at_due_markers(&self) -> bool {
        let paused = self.pause();
        let mut is_any_complete = false;
        if *paused {
            return false;
        }
        let due = self.lock().due_markers(now());
        for (place, marker) in due {
            // Who looks late finds several complete.
            if self.look_at(place, marker) {
                is_any_complete = true;
                self.look_on(place);
            }
        }
        is_any_complete
    }

    pub(super) fn retire(&self, markers: Vec<D::Marker>) {
        for marker in markers {
            self.device.retire(marker);
        }
    }

    /// Whether it is complete. Only while markers are held.
    pub(super) fn look_at(&self, place: Place, marker: D::Marker) -> bool {
        let is_complete = self.device.is_complete(marker);
        let before = self.lock().marker_before(place).filter(|_| is_complete);
        let device_time = before.and_then(|before| self.device.between(before, marker));
        let retired = self.lock().looked_at(place, marker, is_complete, device_time);
        if let Some(retired) = retired {
            self.device.retire(retired);
        }
        is_complete
    }

    /// Whether any was done.
    fn ask_quiet_streams(&self) -> bool {
        let paused = self.pause();
        if *paused {
            return false;
        }
        let quiet = self.lock().quiet_streams(now());
        let mut is_any_done = false;
        for (queue, stream, launched) in quiet {
            let is_done = stream.and_then(|stream| self.device.is_done(stream));
            is_any_done |= is_done != Some(false);
            self.note_answer(queue, launched, is_done);
        }
        is_any_done
    }

    /// Sees to it that the end of what a queue has on the device is noticed without its stream, if that is not done. Only while
    /// markers are held.
    pub(super) fn mark_end(&self, queue: QueueId) {
        let Some((stream, launched)) = self.lock().stream_in_use(queue) else { return };
        if self.device.is_done(stream) == Some(true) {
            self.note_answer(queue, launched, Some(true));
            return;
        }
        let Some(marker) = self.device.mark(stream) else { return };
        let unneeded = self.lock().marked_last(queue, marker);
        self.retire(Vec::from_iter(unneeded));
    }

    /// A queue's stream is done with so many commands, or is not, or cannot tell. Only while markers are held.
    pub(super) fn note_answer(&self, queue: QueueId, launched: u64, is_done: Option<bool>) {
        if is_done == Some(true) {
            // They know when.
            self.look_on(Place::Queue(queue));
        }
        let retired = self.lock().asked(queue, launched, is_done);
        self.retire(retired);
    }

    /// The program has seen that this event is complete.
    pub fn has_seen_event(&self, event: u64) {
        self.lock().has_seen_event(event);
    }

    /// The program is about to ask whether a queue's stream is done, or a claim's streams without a queue. If it knows that by an
    /// event of its own, a marker behind that must not be what the stream has left to do: it is waited for, which takes as long
    /// as the device needs from one packet to the next.
    pub fn see_to_markers(&self, queue: Option<QueueId>, claim: Option<ClaimId>, stream: D::Stream) {
        let place = queue.map(Place::Queue).or(claim.map(Place::Loose));
        if place.is_some_and(|place| self.lock().is_marker_in_doubt(place)) {
            self.await_marker(stream);
        }
    }

    /// Waits until a stream is done, which has a marker left at most. On a thread of the program's.
    pub(super) fn await_marker(&self, stream: D::Stream) {
        let deadline = Instant::now() + MARKER_MAX;
        while Instant::now() < deadline {
            let paused = self.pause();
            if *paused || self.device.is_done(stream) != Some(false) {
                return;
            }
            drop(paused);
            thread::sleep(LOOK_AGAIN);
        }
    }
}
