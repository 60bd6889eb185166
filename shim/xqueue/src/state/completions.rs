//! What follows when commands were launched, and when they are seen to be complete.

use xsched_protocol::events::Observed;
use xsched_sched::Nanos;

use crate::clock::now;
use crate::command::{KnownEnd, PendingLaunch};
use crate::device::Device;
use crate::flight::{Completed, Flight, Seen, launch_of};
use crate::ids::{ClaimId, QueueId, Source};
use crate::state::State;

impl<D: Device> State<D> {
    /// Notes that a launch has returned; with `on_device` the runtime took it. If a marker is to be recorded behind it, returns
    /// how many commands the source has launched.
    pub(crate) fn launch_returned(
        &mut self,
        launch: &PendingLaunch<D>,
        on_device: bool,
        now: Nanos,
    ) -> Option<u64> {
        self.pinned_launches -= usize::from(launch.demand.treatment.is_pinned());
        self.may_be_pinned |= launch.demand.treatment.is_pinned();
        let (is_recorded, later) = (self.is_recorded(), self.marked_later());
        let Some(flight) = self.flight_mut(launch.source).filter(|_| on_device) else {
            self.note_launch(launch, false, now, Nanos::ZERO);
            return None;
        };
        let ahead = if is_recorded { flight.ahead(now) } else { Nanos::ZERO };
        let is_time = flight.is_unmarked_for_long(now, later);
        flight.launched_by(
            now,
            launch_of(launch.admitted, launch.class, launch.demand.origin, launch.gate.is_some()),
        );
        if launch.demand.treatment.is_pinned() {
            flight.pin();
        }
        if let KnownEnd::ByEvent(event) = launch.demand.end {
            flight.ends_by_event(event);
        }
        let is_worth_it = is_recorded && flight.is_worth_a_marker(now, launch.class);
        self.note_launch(launch, true, now, ahead);
        let flight = self.flight(launch.source)?;
        let may_launch_more = || flight.may_launch(now, launch.class, self.waiters.in_place > 0);
        let wants_marker = match launch.source {
            // Without a queue, a marker cannot be recorded later.
            Source::Unqueued(_) => true,
            Source::Queue(queue) => {
                is_time
                    || is_worth_it
                    || !self.may_be_asked(self.queues.get(queue)?)
                    || launch.is_limited && (flight.wants_marker(now) || !may_launch_more())
            }
        };
        wants_marker.then(|| flight.launched_so_far())
    }

    /// Notes the marker that was recorded behind the source's first `launched` commands, if one was. With `on_device` the runtime
    /// took the launch. Returns whether the watcher sleeps for too long now, and markers to retire.
    pub(crate) fn finish(
        &mut self,
        launch: &PendingLaunch<D>,
        marker: Option<(D::Marker, u64)>,
        on_device: bool,
        now: Nanos,
    ) -> (bool, Vec<D::Marker>) {
        // If this came sooner, the watcher would ask the stream, and the marker would follow commands that it knows to be done.
        self.claims.get_mut(launch.claim).launch_returned();
        let mut retired = Vec::new();
        match (self.flight_mut(launch.source), marker) {
            (Some(flight), Some((marker, launched))) => retired.extend(flight.marked(now, marker, launched)),
            (None, Some((marker, _))) => retired.push(marker),
            // No later marker can stand for the command.
            (Some(flight), None) if on_device && matches!(launch.source, Source::Unqueued(_)) => {
                retired = flight.abandon();
                self.note_completion(launch.source, now, None, Observed::Lost);
            }
            (_, None) => {}
        }
        // Usually the watcher looks early enough by itself.
        let is_expected = launch.is_first || self.is_completion_waited_for(launch.source);
        let sleeps = is_expected && self.watch.sleeps_beyond(self.next_check(launch.source).unwrap_or(now));
        (sleeps, retired)
    }

    /// Notes a marker behind everything that a queue's stream was given. Returns the marker if an earlier one stands for the same
    /// commands.
    pub(crate) fn marked_last(&mut self, queue: QueueId, marker: D::Marker) -> Option<D::Marker> {
        let Some(flight) = self.flight_mut(Source::Queue(queue)) else { return Some(marker) };
        if flight.is_any_unfollowed() {
            flight.adopt(now());
        }
        flight.marked(now(), marker, flight.launched_so_far())
    }

    /// Notes a look at a source's first marker. `device_time` is the device's time since the marker before it, if known. Returns
    /// a marker to retire.
    pub(crate) fn marker_checked(
        &mut self,
        source: Source,
        marker: D::Marker,
        is_complete: bool,
        device_time: Option<Nanos>,
    ) -> Option<D::Marker> {
        let now = now();
        let flight = self.flight_mut(source)?;
        // A caller that waited for the stream may already have noted its completion.
        flight.first_marker().filter(|first| *first == marker)?;
        if !is_complete {
            flight.first_marker_pending(now);
            return None;
        }
        let Completed { took, retired } = flight.first_marker_completed(now, device_time)?;
        self.charge(source, now, took);
        self.note_completion(source, now, device_time, Observed::Marker);
        retired
    }

    /// Notes whether a queue's first `launched` commands are done; None: the stream could not tell. Returns markers to retire.
    pub(crate) fn stream_answered(
        &mut self,
        queue: QueueId,
        launched: u64,
        is_done: Option<bool>,
    ) -> Vec<D::Marker> {
        let (source, now) = (Source::Queue(queue), now());
        let mut retired = Vec::new();
        let Some(flight) = self.flight_mut(source) else { return retired };
        match is_done {
            Some(true) => {
                if let Some(took) = flight.completed_through(launched, now, Seen::ByLook, &mut retired) {
                    self.charge(source, now, took);
                    self.note_completion(source, now, None, Observed::Marker);
                }
            }
            // Something was launched meanwhile, so the stream is asked again.
            _ if flight.launched_so_far() != launched => {}
            Some(false) => flight.stream_busy(now),
            None => {
                retired = flight.abandon();
                self.note_completion(source, now, None, Observed::Lost);
            }
        }
        retired
    }

    /// A caller begins to wait for what these queues have in flight. Returns how many commands each has launched.
    pub(crate) fn host_wait_begins(&mut self, queues: &[QueueId]) -> Vec<(QueueId, u64)> {
        let known = queues.iter().filter_map(|&id| Some((id, self.queues.get_mut(id)?.host_wait_begins())));
        known.collect()
    }

    /// A caller's wait is over. Returns markers to retire.
    pub(crate) fn host_wait_ends(
        &mut self,
        waited: &[(QueueId, u64)],
        is_complete: bool,
        now: Nanos,
    ) -> Vec<D::Marker> {
        let mut retired = Vec::new();
        for &(id, launched) in waited {
            let Some(queue) = self.queues.get_mut(id) else { continue };
            queue.host_wait_ends();
            if queue.claim().is_none() || !is_complete {
                continue;
            }
            let took = queue.flight_mut().completed_through(launched, now, Seen::ByWait, &mut retired);
            if let Some(took) = took {
                self.charge(Source::Queue(id), now, took);
                self.note_completion(Source::Queue(id), now, None, Observed::Wait);
            }
        }
        retired
    }

    /// The program has seen that this event is complete.
    pub(crate) fn event_seen(&mut self, event: u64) {
        self.flights_mut().for_each(|flight| flight.event_seen(event));
    }

    /// Whether the program knows the source's last command to be done, while a marker behind that command may not be.
    pub(crate) fn is_marker_in_doubt(&self, source: Source) -> bool {
        self.flight(source).is_some_and(Flight::is_marker_in_doubt)
    }

    /// Charges completed work of a source to its claim. A claim that has the device to itself is not charged.
    fn charge(&mut self, source: Source, now: Nanos, took: Nanos) {
        let Some(claim) = self.claim_of_source(source) else { return };
        let is_followed_alone = self.is_recorded() || self.limits_itself(source);
        let is_charged = !self.claims.get(claim).is_alone() || !is_followed_alone;
        let claim = self.claims.get_mut(claim);
        let charged = if is_charged { claim.completed(now, took) } else { Nanos::ZERO };
        match source {
            Source::Queue(queue) => {
                let Some(queue) = self.queues.get_mut(queue) else { return };
                claim.charge(queue.flight_mut().take_charges(), took, charged);
            }
            Source::Unqueued(_) => claim.charge_unqueued(took, charged),
        }
    }

    /// Whether a claim has anything in flight, deferred, or about to be launched.
    pub(super) fn has_work(&self, id: ClaimId) -> bool {
        self.is_waited_for(id) || self.is_any_launched(id)
    }

    /// Whether a claim has anything in flight or about to be launched.
    pub(super) fn is_any_launched(&self, id: ClaimId) -> bool {
        let claim = self.claims.get(id);
        claim.is_launching()
            || !claim.unqueued().is_empty()
            || self.queues.busy_of_claim(id).any(|queue| !queue.flight().is_empty())
    }
}
