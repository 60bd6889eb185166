//! How long commands of a class take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use crate::Nanos;

/// The time between two samples of a class, and how long one counts as recent.
const SAMPLE_EVERY: Nanos = Nanos::from_millis(100);
const SAMPLED_FOR: Nanos = Nanos::from_secs(1);

/// How many classes are remembered. When there are more, all are forgotten: the times of a program with that many kernels are
/// soon learnt again.
const CLASS_MAX: usize = 1024;

/// How long commands of each class take, as far as was seen. A process's queues on one device share it: a kernel takes as long on
/// each of its streams, and what one stream has shown, the others need not learn again.
#[derive(Clone, Debug, Default)]
pub struct Durations(Arc<Mutex<Estimates>>);

/// All classes.
#[derive(Debug, Default)]
pub(super) struct Estimates {
    classes: HashMap<u64, Estimate>,
}

impl Durations {
    pub(super) fn of(&self, class: u64) -> Option<Estimate> {
        self.estimates().of(class)
    }

    /// A command of a class was measured exactly at this time.
    pub(super) fn learn_sample(&self, class: u64, took: Nanos, at: Nanos) {
        let mut estimates = self.estimates();
        estimates.learn(class, took, Known { disturbed: false, is_exact: true, at });
        if let Some(estimate) = estimates.classes.get_mut(&class) {
            estimate.sampled = Some(at);
        }
    }

    /// Whether a command of a class should be measured exactly. If so, the class counts as measured for a while.
    pub(super) fn begins_sample(&self, class: u64, now: Nanos) -> bool {
        self.estimates().classes.get_mut(&class).is_none_or(|estimate| estimate.begins_sample(now))
    }

    /// All of them, for several questions.
    pub(super) fn estimates(&self) -> MutexGuard<'_, Estimates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// The usual time.
    pub(super) expected: Nanos,
    /// The least and the greatest recent time.
    pub(super) at_least: Nanos,
    pub(super) at_most: Nanos,
    /// The mean of recent times by the device's clock. Among unequal times the usual time is less than the mean: it follows the
    /// short ones.
    pub(super) mean: Option<Nanos>,
    /// The longest recent time by the device's clock, of commands that were seen complete one by one. The total of several does not
    /// show how unequal they are.
    pub(super) longest: Option<Nanos>,
    /// When the last sample was taken, and when the next may begin.
    sampled: Option<Nanos>,
    next_sample: Nanos,
}

/// What is known about a measured time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Other queues' commands probably ran in between.
    pub(super) disturbed: bool,
    /// It is the device's own time of this command alone.
    pub(super) is_exact: bool,
    /// When the command ended, about.
    pub(super) at: Nanos,
}

impl Estimates {
    pub(super) fn of(&self, class: u64) -> Option<Estimate> {
        self.classes.get(&class).copied()
    }

    pub(super) fn learn(&mut self, class: u64, took: Nanos, known: Known) {
        if !self.classes.contains_key(&class) && self.classes.len() >= CLASS_MAX {
            self.classes.clear();
        }
        let is_exact = known.is_exact && !known.disturbed;
        let estimate = self
            .classes
            .entry(class)
            .and_modify(|estimate| estimate.learn(estimate.plausible(took, known), known.disturbed))
            .or_insert(Estimate::new(took));
        if is_exact {
            estimate.learn_exactly(took);
        }
    }
}

impl Estimate {
    fn new(took: Nanos) -> Self {
        Self {
            expected: took,
            at_least: took,
            at_most: took,
            mean: None,
            longest: None,
            sampled: None,
            next_sample: Nanos::ZERO,
        }
    }

    fn begins_sample(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.next_sample;
        if is_due {
            self.next_sample = now + SAMPLE_EVERY;
        }
        is_due
    }

    /// The part of a time that was probably the command's own.
    pub(super) fn own_part(&self, took: Nanos, Known { disturbed, is_exact, .. }: Known) -> Nanos {
        let typical = self.mean.unwrap_or(self.expected);
        let longest = self.longest.filter(|_| is_exact).unwrap_or(Nanos::ZERO);
        let is_own = is_exact && !disturbed || took <= usual(typical, disturbed).max(longest + longest / 8);
        if is_own { took } else { typical }
    }

    /// A look shows an upper bound, which is worth nothing above the longest exact time, if that is recent.
    fn plausible(&self, took: Nanos, known: Known) -> Nanos {
        let is_recent = self.sampled.is_some_and(|sampled| known.at < sampled + SAMPLED_FOR);
        let longest = self.longest.filter(|_| is_recent && !known.is_exact);
        longest.map_or(took, |longest| took.min(longest + longest / 8))
    }

    /// A time that is much longer than usual counts for little: it was looked at late, or other queues' commands ran in between. A
    /// true one will occur again. A time that is much shorter shows that those before were too long.
    fn learn(&mut self, took: Nanos, disturbed: bool) {
        let took = took.min(self.at_most.times(4).max(Nanos(1)));
        let shorter = took < self.expected - self.expected / 4;
        let weight = match (shorter, disturbed) {
            (true, _) => 2,
            (false, false) => 8,
            (false, true) if took <= usual(self.expected, true) => 16,
            (false, true) => 128,
        };
        self.expected = self.expected + (took - self.expected) / weight - (self.expected - took) / weight;
        let risen = self.at_least + (self.expected - self.at_least) / 32;
        self.at_least = took.min(risen);
        let decayed = self.at_most - (self.at_most - self.expected) / 8;
        self.at_most = if disturbed { decayed } else { took.max(decayed) }.max(self.expected);
    }

    fn learn_exactly(&mut self, took: Nanos) {
        if self.mean.is_none() && took < self.expected {
            // All times so far were seen by late looks.
            (self.expected, self.at_least, self.at_most) = (took, took, took);
        }
        let mean = self.mean.unwrap_or(took);
        self.mean = Some(mean + (took - mean) / 16 - (mean - took) / 16);
        let decayed = self.longest.map_or(took, |longest| longest - (longest - self.expected) / 32);
        self.longest = Some(took.max(decayed));
    }
}

/// The longest time that is plausible for a command with this typical time by itself.
fn usual(typical: Nanos, disturbed: bool) -> Nanos {
    if disturbed { typical + typical / 4 } else { typical.times(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_take_unequal_times_are_charged_what_they_take() {
        let mut estimates = Estimates::default();
        for took in [1_000, 3_000].repeat(100) {
            estimates.learn(1, Nanos(took), EXACT);
        }
        let estimate = estimates.of(1).unwrap();
        assert_eq!(estimate.own_part(Nanos(3_000), EXACT), Nanos(3_000));
        let beside_others = estimate.own_part(Nanos(9_000), Known { disturbed: true, ..EXACT });
        assert!((Nanos(1_800)..=Nanos(2_200)).contains(&beside_others), "the mean: {beside_others}");
        assert_eq!(estimate.own_part(Nanos(2_900), Known { disturbed: true, ..EXACT }), Nanos(2_900));
        assert!(estimate.own_part(Nanos(9_000), ROUGH) < Nanos(2_200), "the look was late");
    }

    const ROUGH: Known = Known { disturbed: false, is_exact: false, at: Nanos::ZERO };
    const EXACT: Known = Known { disturbed: false, is_exact: true, at: Nanos::ZERO };

    #[test]
    fn exact_times_show_how_unequal_commands_are() {
        let mut estimates = Estimates::default();
        for took in [10, 90, 20] {
            estimates.learn(1, Nanos(took), ROUGH);
        }
        assert_eq!(estimates.of(1).unwrap().longest, None);
        for took in [10, 90, 20] {
            estimates.learn(1, Nanos(took), EXACT);
        }
        estimates.learn(1, Nanos(500), Known { disturbed: true, ..EXACT });
        let longest = estimates.of(1).unwrap().longest.unwrap();
        assert!((Nanos(80)..=Nanos(90)).contains(&longest), "{longest}");
        (0..300).for_each(|_| estimates.learn(1, Nanos(20), EXACT));
        assert!(estimates.of(1).unwrap().longest < Some(Nanos(60)), "it was long ago");
    }

    #[test]
    fn late_looks_tell_nothing_above_the_longest_exact_time() {
        let durations = Durations::default();
        durations.learn_sample(1, Nanos(40_000), Nanos::ZERO);
        let learn_late = |at| {
            (0..1_000).for_each(|_| durations.estimates().learn(1, Nanos(5_000_000), Known { at, ..ROUGH }));
            durations.of(1).unwrap()
        };
        let estimate = learn_late(SAMPLED_FOR - Nanos(1));
        assert!(estimate.at_most <= Nanos(45_000) && estimate.expected <= Nanos(45_000), "{estimate:?}");
        let estimate = learn_late(SAMPLED_FOR);
        assert!(estimate.expected > Nanos(4_000_000), "the exact time is too old: {estimate:?}");
    }

    fn learnt(times: impl IntoIterator<Item = u64>) -> Estimate {
        let mut estimates = Estimates::default();
        for time in times {
            estimates.learn(1, Nanos(time), ROUGH);
        }
        estimates.of(1).unwrap()
    }

    #[test]
    fn one_late_look_does_not_count_for_much() {
        let before = learnt([1_000; 20]);
        let after = learnt([1_000; 20].into_iter().chain([1_000_000]));
        assert!(after.expected < before.expected.times(3) / 2, "{after:?}");
        let later = learnt([1_000; 20].into_iter().chain([1_000_000]).chain([1_000; 30]));
        assert!(later.at_most < before.at_most.times(2), "{later:?}");
    }

    #[test]
    fn a_first_time_that_was_late_is_forgotten() {
        let estimate = learnt([1_000_000].into_iter().chain([1_000; 40]));
        assert!(estimate.expected < Nanos(1_100), "{estimate:?}");
    }

    #[test]
    fn a_lasting_increase_is_learnt() {
        let estimate = learnt([1_000; 20].into_iter().chain([100_000; 40]));
        assert!(estimate.expected > Nanos(95_000), "{estimate:?}");
        assert_eq!(estimate.at_most, Nanos(100_000));
    }

    #[test]
    fn memory_is_bounded() {
        let mut estimates = Estimates::default();
        for class in 0..10 * CLASS_MAX as u64 {
            estimates.learn(class, Nanos(1), ROUGH);
        }
        assert!(estimates.classes.len() <= CLASS_MAX);
    }
}
