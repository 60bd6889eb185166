//! Samples: now and then a launch has a marker of its own before and behind it, so that the time of one command is known exactly.
//!
//! Elsewhere commands are seen to be complete by looks, which come late under load. What looks show is an upper bound; without
//! samples, a claim with many streams of short commands would be charged many times what it used.

use xsched_sched::Nanos;

use crate::command::{Demand, DurationClass, KnownEnd};
use crate::device::Device;
use crate::ids::{QueueId, Source};
use crate::state::State;

/// The shortest time between two samples, whatever the classes.
const SAMPLES_APART: Nanos = Nanos::from_millis(5);

/// How often a queue whose launches take no lock is made to take it once, so that a launch can be sampled.
const LOCKED_EVERY: Nanos = Nanos::from_millis(20);

/// How many samples may be in flight.
const SAMPLES_MAX: usize = 4;

/// The shortest and the longest time between two looks at a sample. In between it is a quarter of its time so far.
const LOOK_AGAIN: [Nanos; 2] = [Nanos::from_micros(50), Nanos::from_millis(10)];

/// A command between two markers that stand for nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<M> {
    pub(crate) queue: QueueId,
    pub(crate) class: DurationClass,
    pub(crate) launched: Nanos,
    pub(crate) before: M,
    pub(crate) behind: M,
}

/// When to take samples, and those that are in flight.
#[derive(Debug)]
pub(crate) struct Sampling<M> {
    /// Not before this.
    next: Nanos,
    /// With each sample, when to look at it.
    in_flight: Vec<(Nanos, Sample<M>)>,
    /// When to make the next queue take the lock, and how many were.
    locks_at: Nanos,
    locked: usize,
}

impl<M: Copy> Sampling<M> {
    pub(super) fn new() -> Self {
        Self { next: Nanos::ZERO, in_flight: Vec::new(), locks_at: Nanos::ZERO, locked: 0 }
    }

    fn is_due(&self, now: Nanos) -> bool {
        now >= self.next && self.in_flight.len() < SAMPLES_MAX
    }
}

impl<D: Device> State<D> {
    /// Whether the launch that begins now is to be sampled. What the program may know to be done by itself is not, since a marker
    /// behind it could contradict the program; nor is what orders other streams, since a marker would, too.
    pub(super) fn begins_sample(
        &mut self,
        source: Source,
        class: DurationClass,
        demand: &Demand,
        now: Nanos,
    ) -> bool {
        let Source::Queue(queue) = source else { return false };
        if !self.sampling.is_due(now) || demand.end != KnownEnd::Unknown {
            return false;
        }
        let queue = self.queues.get(queue).filter(|queue| !queue.orders_others());
        let is_due = queue.is_some_and(|queue| queue.flight().begins_sample(now, class));
        if is_due {
            self.sampling.next = now + SAMPLES_APART;
        }
        is_due
    }

    /// A command was launched between two markers.
    pub(crate) fn sample_launched(&mut self, sample: Sample<D::Marker>) {
        self.sampling.in_flight.push((sample.launched, sample));
    }

    /// Takes the samples that should be looked at.
    pub(crate) fn due_samples(&mut self, now: Nanos) -> Vec<Sample<D::Marker>> {
        let due = self.sampling.in_flight.extract_if(.., |(at, _)| *at <= now);
        due.map(|(_, sample)| sample).collect()
    }

    /// A sample was looked at, and is not complete.
    pub(crate) fn sample_pending(&mut self, sample: Sample<D::Marker>, now: Nanos) {
        let [soonest, latest] = LOOK_AGAIN;
        let again = now + ((now - sample.launched) / 4).clamp(soonest, latest);
        self.sampling.in_flight.push((again, sample));
    }

    /// A sample is complete: its command took this long.
    pub(crate) fn sampled(&mut self, sample: &Sample<D::Marker>, took: Nanos) {
        if let Some(flight) = self.flight_mut(Source::Queue(sample.queue)) {
            flight.sampled(sample.class, sample.launched, took);
        }
    }

    /// Forgets the samples of queues that are gone. Returns markers to retire.
    pub(super) fn forget_orphaned_samples(&mut self) -> Vec<D::Marker> {
        let Self { sampling, queues, .. } = self;
        let orphaned = sampling.in_flight.extract_if(.., |(_, sample)| queues.get(sample.queue).is_none());
        orphaned.flat_map(|(_, Sample { before, behind, .. })| [before, behind]).collect()
    }

    /// Now and then makes a queue's next launch take the lock. Only such launches can be sampled.
    pub(super) fn lock_for_sample(&mut self, now: Nanos) {
        let count = self.queues.journals().len();
        if count == 0 || now < self.sampling.locks_at {
            return;
        }
        self.sampling.locks_at = now + LOCKED_EVERY;
        self.sampling.locked = self.sampling.locked.wrapping_add(1);
        let (_, journal) = self.queues.journals()[self.sampling.locked % count];
        journal.close();
    }
}
