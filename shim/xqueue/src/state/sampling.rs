//! Samples: now and then a launch has a marker of its own before and behind it, so that the time of one command is known exactly.
//!
//! Elsewhere commands are seen to be complete by looks, which come late under load. What looks show is an upper bound; without
//! samples, a claim with many streams of short commands would be charged many times what it used.

use xsched_sched::Nanos;

use crate::command::{Demand, DurationClass, KnownEnd, SampledLaunch};
use crate::device::Device;
use crate::ids::{QueueId, Source};
use crate::state::State;

/// The shortest time between two samples, whatever the classes.
const SAMPLES_APART: Nanos = Nanos::from_millis(5);

/// How soon another launch is considered after one whose class was measured a short time ago.
const CONSIDERED_AGAIN: Nanos = Nanos::from_micros(100);

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
    /// For how long the stream may have waited, between the markers, for the launch.
    pub(crate) gap: Nanos,
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
    /// The shortest recent gap, see [`Sample::gap`].
    usual_gap: Nanos,
}

/// A launch took too long if it took so many times what launches usually take.
const LATE: u64 = 4;

impl<M: Copy> Sampling<M> {
    pub(super) fn new() -> Self {
        Self {
            next: Nanos::ZERO,
            in_flight: Vec::new(),
            locks_at: Nanos::ZERO,
            locked: 0,
            usual_gap: Nanos::ZERO,
        }
    }

    fn is_due(&self, now: Nanos) -> bool {
        now >= self.next && self.in_flight.len() < SAMPLES_MAX
    }

    /// How long the command took. Of the time between its markers, an idle stream may have waited for the launch during the gap; the
    /// first marker may as well have been complete only after it. None: the launching thread had to wait for a processor.
    fn own_time(&mut self, gap: Nanos, between: Nanos) -> Option<Nanos> {
        if gap.is_zero() {
            return Some(between);
        }
        // A slower machine, or another clock rate, is learnt in time.
        self.usual_gap =
            if self.usual_gap.is_zero() { gap } else { gap.min(self.usual_gap + self.usual_gap / 8) };
        let is_late = gap > self.usual_gap.times(LATE);
        let is_long = gap <= between / 2;
        (!is_late).then(|| if is_long { between } else { between - gap / 2 })
    }
}

impl<D: Device> State<D> {
    /// How the launch that begins now is sampled, if it is. What the program may know to be
    /// done by itself is not, since a marker behind it could contradict the program; nor is what orders other streams, since a marker
    /// would, too.
    pub(super) fn begins_sample(
        &mut self,
        source: Source,
        class: DurationClass,
        demand: &Demand,
        now: Nanos,
    ) -> Option<Box<SampledLaunch<D::Marker>>> {
        let Source::Queue(queue) = source else { return None };
        if !self.sampling.is_due(now) || demand.end != KnownEnd::Unknown {
            return None;
        }
        let flight = self.queues.get(queue).filter(|queue| !queue.orders_others())?.flight();
        let (is_due, is_idle) = (flight.begins_sample(now, class), flight.is_empty());
        self.sampling.next = now + if is_due { SAMPLES_APART } else { CONSIDERED_AGAIN };
        is_due.then(|| Box::new(SampledLaunch { is_idle, before: None }))
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

    /// A sample is complete: this was between its markers.
    pub(crate) fn sampled(&mut self, sample: &Sample<D::Marker>, between: Nanos) {
        let Some(took) = self.sampling.own_time(sample.gap, between) else { return };
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
