//! Events for the recording of a process: what becomes of each command, and when claims are preempted.
//!
//! A recorded process follows completions even while it has the device to itself. It limits nothing then, and reports nothing to
//! the arbiter.

use xsched_protocol::events::{Event, Observed};
use xsched_protocol::verdict::Judgement;
use xsched_sched::Nanos;

use crate::clock::now;
use crate::command::{Delay, Demand, Load, PendingLaunch};
use crate::device::Device;
use crate::event_writer::EventWriter;
use crate::flight::Flight;
use crate::ids::{ClaimId, ClaimKey, QueueId, Source};
use crate::journal::Launched;
use crate::state::State;
use crate::state::gate_table::DeviceGate;

/// The number by which HIP names a thread's own stream.
const PER_THREAD: u64 = 2;

impl<D: Device> State<D> {
    /// Whether the process is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.events.is_some()
    }

    /// Events are written there from now on; None: nowhere.
    pub(crate) fn write_events_to(&mut self, events: Option<EventWriter>) {
        self.events = events;
    }

    fn note(&mut self, at: Nanos, event: &Event) {
        if let Some(events) = &mut self.events {
            events.write(at, event);
        }
    }

    /// Writes what a reader must know of all existing claims and queues.
    pub(crate) fn note_all(&mut self, device: &D) {
        for claim in self.claims.ids() {
            self.note_claim(claim);
            self.note_admission_state(claim);
            let gates = self.gates.of_device(self.claims.get(claim).key.device);
            let is_open = gates.filter_map(DeviceGate::there).all(|gate| gate.is_open);
            self.note_gate(claim, is_open);
        }
        for queue in self.queue_ids() {
            self.note_queue(queue, device);
        }
    }

    /// Writes what a reader must know of a claim's streams without queues.
    pub(super) fn note_claim(&mut self, id: ClaimId) {
        if self.events.is_none() {
            return;
        }
        let claim = self.claims.get(id);
        let event = Event::QueueOpened {
            queue: Source::Unqueued(id).number(),
            stream: PER_THREAD,
            device: claim.key.device,
            stream_priority: claim.key.stream_priority,
            deferred: 0,
            in_flight: claim.unqueued().in_flight() as u32,
            launched: claim.unqueued().launched_so_far(),
        };
        self.note(now(), &event);
    }

    /// Writes what a reader must know of a queue.
    pub(crate) fn note_queue(&mut self, id: QueueId, device: &D) {
        let Some(queue) = self.queues.get(id).filter(|_| self.events.is_some()) else { return };
        let Some(stream) = queue.stream() else { return };
        let key = queue.claim().map(|claim| self.claims.get(claim).key);
        let event = Event::QueueOpened {
            queue: id.0,
            stream: device.stream_number(stream),
            device: key.map_or(0, |key| key.device),
            stream_priority: key.map_or(0, |key| key.stream_priority),
            deferred: queue.deferred_count() as u32,
            in_flight: queue.flight().in_flight() as u32,
            launched: queue.flight().launched_so_far(),
        };
        self.note(now(), &event);
    }

    /// A command of a queue must wait. `position` is its number in the queue, or 0 if its caller waits in place.
    pub(crate) fn note_wait(&mut self, queue: QueueId, position: u64, demand: Demand, at: Nanos) {
        if self.is_recorded() && matches!(demand.load, Load::Work(_)) && self.claim_of(queue).is_some() {
            self.note(at, &Event::Waits { queue: queue.0, position, judgement: demand.judgement });
        }
    }

    /// A command is launched whose completion is not followed.
    pub(super) fn note_unfollowed(&mut self, source: Source, delay: Delay, judgement: Judgement, at: Nanos) {
        let Some(events) = &mut self.events else { return };
        let event = launched(events, source, (0, false), delay, judgement, at, Nanos::ZERO);
        events.write(at, &event);
    }

    /// A launch has returned. `ahead` is the device time that was expected of the commands before it.
    pub(super) fn note_launch(
        &mut self,
        launch: &PendingLaunch<D>,
        on_device: bool,
        returned: Nanos,
        ahead: Nanos,
    ) {
        // The launch is the source's latest.
        let number = if on_device { self.launched_so_far(launch.source) } else { 0 };
        let Some(events) = &mut self.events else { return };
        let command = (number, launch.gate.is_some());
        let event =
            launched(events, launch.source, command, launch.delay, launch.demand.judgement, returned, ahead);
        events.write(launch.admitted, &event);
    }

    /// Commands of a source have completed, or are no longer followed.
    pub(super) fn note_completion(
        &mut self,
        source: Source,
        at: Nanos,
        device_time: Option<Nanos>,
        observed: Observed,
    ) {
        if self.events.is_none() {
            return;
        }
        let through = match self.flight(source) {
            Some(flight) => flight.launched_so_far() - flight.in_flight() as u64,
            None => return,
        };
        let device_ns = device_time.map_or(0, |time| time.0);
        self.note(at, &Event::Completed { queue: source.number(), through, device_ns, observed });
    }

    /// A claim is preempted from now on, or no longer.
    pub(super) fn note_admission_state(&mut self, claim: ClaimId) {
        let claim = self.claims.get(claim);
        let Some(registration) = claim.registration().filter(|_| self.events.is_some()) else { return };
        let (level, ready) = registration.levels();
        let event = Event::Admission {
            device: claim.key.device,
            stream_priority: claim.key.stream_priority,
            suspended: claim.admission_state().is_preempted(),
            level,
            ready,
        };
        self.note(now(), &event);
    }

    /// A claim's gate is open or closed from now on.
    pub(super) fn note_gate(&mut self, claim: ClaimId, is_open: bool) {
        let ClaimKey { device, stream_priority, .. } = self.claims.get(claim).key;
        self.note(now(), &Event::Gate { device, stream_priority, is_open });
    }

    fn launched_so_far(&self, source: Source) -> u64 {
        self.flight(source).map_or(0, Flight::launched_so_far)
    }
}

/// Writes a launch that took no lock, after the first `launched_so_far` commands of its queue.
pub(super) fn write_launch_at_once(
    events: &mut EventWriter,
    queue: QueueId,
    launched_so_far: u64,
    launch: &Launched,
) {
    let &Launched { admitted, returned, judgement, on_device, .. } = launch;
    let number = if on_device { launched_so_far } else { 0 };
    let source = Source::Queue(queue);
    let event = launched(events, source, (number, false), Delay::None, judgement, returned, Nanos::ZERO);
    events.write(admitted, &event);
}

/// A launch as an event: its number, and whether there is a gate before it.
fn launched(
    events: &EventWriter,
    source: Source,
    (number, is_gated): (u64, bool),
    delay: Delay,
    judgement: Judgement,
    returned: Nanos,
    ahead: Nanos,
) -> Event {
    let (position, since) = match delay {
        Delay::None => (0, None),
        Delay::InPlace(since) => (0, Some(since)),
        Delay::Deferred(position, since) => (position, Some(since)),
    };
    Event::Launched {
        queue: source.number(),
        number,
        returned_ns: events.time_ns(returned),
        position,
        waited_since_ns: since.map_or(0, |since| events.time_ns(since)),
        ahead_ns: ahead.0,
        judgement,
        is_gated,
    }
}
