//! How long commands of a class take.

use std::collections::HashMap;

use crate::Nanos;

/// Classes that are remembered. When there are more, it begins anew: a program with so many kernels learns them again
/// soon.
const CLASS_MAX: usize = 1024;

/// All classes.
#[derive(Debug, Default)]
pub(super) struct Estimates {
    classes: HashMap<u64, Estimate>,
}

/// One class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// What it usually takes.
    pub(super) expected: Nanos,
    /// What it took at most of late.
    pub(super) at_most: Nanos,
}

impl Estimates {
    pub(super) fn of(&self, class: u64) -> Option<Estimate> {
        self.classes.get(&class).copied()
    }

    pub(super) fn learn(&mut self, class: u64, took: Nanos) {
        if let Some(estimate) = self.classes.get_mut(&class) {
            return estimate.learn(took);
        }
        if self.classes.len() >= CLASS_MAX {
            self.classes.clear();
        }
        self.classes.insert(class, Estimate { expected: took, at_most: took });
    }
}

impl Estimate {
    /// Completions are noticed late at times, and never early. So the estimate falls faster than it rises, and a time
    /// that is many times longer than any before counts for a part only; if it is true, it will come again.
    fn learn(&mut self, took: Nanos) {
        let took = took.min(self.at_most.times(4).max(Nanos(1)));
        self.expected = if took < self.expected {
            self.expected - (self.expected - took) / 4
        } else {
            self.expected + (took - self.expected) / 8
        };
        let decayed = self.at_most - (self.at_most - self.expected) / 8;
        self.at_most = took.max(decayed).max(self.expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(times: impl IntoIterator<Item = u64>) -> Estimate {
        let mut estimates = Estimates::default();
        for time in times {
            estimates.learn(1, Nanos(time));
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
    fn what_becomes_longer_for_good_is_believed() {
        let estimate = learnt([1_000; 20].into_iter().chain([100_000; 40]));
        assert!(estimate.expected > Nanos(95_000), "{estimate:?}");
        assert_eq!(estimate.at_most, Nanos(100_000));
    }

    #[test]
    fn memory_is_bounded() {
        let mut estimates = Estimates::default();
        for class in 0..10 * CLASS_MAX as u64 {
            estimates.learn(class, Nanos(1));
        }
        assert!(estimates.classes.len() <= CLASS_MAX);
    }
}
