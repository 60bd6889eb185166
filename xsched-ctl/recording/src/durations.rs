//! Durations, counted in little memory: total and maximum exactly, percentiles to within 0.2 %.
//!
//! A duration falls into a bucket by its nine leading binary digits. So a bucket is at most 1/256 of its values wide,
//! and its middle at most 1/512 away from any of them. Only buckets with durations take memory: most kinds of calls
//! need some dozens, and there can be many thousands of kinds.
//! (`hdrhistogram` needs about 90 KiB for each kind at this precision, for durations up to 1 ms.)

use std::collections::BTreeMap;

/// Leading binary digits that distinguish buckets.
const DIGITS: u32 = 9;

/// Durations of one kind of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    count: u64,
    total_ns: u64,
    max_ns: u64,
    buckets: BTreeMap<u16, u64>,
}

impl Durations {
    /// Counts one.
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        *self.buckets.entry(bucket(ns)).or_default() += 1;
    }

    /// Counts all of `others`.
    pub fn add(&mut self, others: &Self) {
        self.count += others.count;
        self.total_ns = self.total_ns.saturating_add(others.total_ns);
        self.max_ns = self.max_ns.max(others.max_ns);
        for (bucket, count) in &others.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
    }

    /// Their sum in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The longest in nanoseconds, if there is any.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The shortest duration, in nanoseconds, that at least `percent` of them do not exceed; to within 0.2 %.
    pub fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let (bucket, _) = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        })?;
        Some(middle(*bucket).min(self.max_ns))
    }
}

/// Numbers below 2^9 have a bucket each; from there on 2^8 buckets for each further binary digit.
fn bucket(ns: u64) -> u16 {
    let dropped = (u64::BITS - ns.leading_zeros()).saturating_sub(DIGITS);
    (u64::from(dropped << (DIGITS - 1)) + (ns >> dropped)) as u16
}

fn middle(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let dropped = (bucket >> (DIGITS - 1)).saturating_sub(1);
    let leading = bucket - (dropped << (DIGITS - 1));
    (leading << dropped) + (1 << dropped >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_their_middles_near_what_is_in_them() {
        let mut last = 0;
        let numbers = (0..5000).chain((13..64).flat_map(|bits| {
            let power = 1_u64 << bits;
            [power - 1, power, power + power / 511, power + power / 3, power + (power - 1)]
        }));
        for ns in numbers {
            assert!(bucket(ns) >= last, "{ns}");
            last = bucket(ns);
            let error = middle(bucket(ns)).abs_diff(ns);
            assert!(error as f64 <= ns as f64 / 512.0, "{ns}: {}", middle(bucket(ns)));
        }
    }

    #[test]
    fn percentiles_are_ranks() {
        let mut durations = Durations::default();
        assert_eq!((durations.percentile_ns(50), durations.max_ns()), (None, None));
        for ns in 1..=100 {
            durations.record(ns);
        }
        assert_eq!(
            [0, 1, 50, 99, 100].map(|percent| durations.percentile_ns(percent).unwrap()),
            [1, 1, 50, 99, 100]
        );
        assert_eq!((durations.total_ns(), durations.max_ns()), (5050, Some(100)));
    }

    #[test]
    fn added_up_they_are_as_if_counted_together() {
        let (mut all, mut parts) = (Durations::default(), [Durations::default(), Durations::default()]);
        for ns in [3, 1_000, 70_000, 1_000, 5] {
            all.record(ns);
            parts[usize::from(ns > 100)].record(ns);
        }
        let mut sum = Durations::default();
        for part in &parts {
            sum.add(part);
        }
        assert_eq!(sum, all);
    }

    #[test]
    fn the_percentile_of_one_is_that_one_or_near_it() {
        let mut durations = Durations::default();
        durations.record(1_000_003);
        assert!(durations.percentile_ns(50).unwrap().abs_diff(1_000_003) < 2_000);
        durations.record(u64::MAX);
        assert_eq!((durations.total_ns(), durations.max_ns()), (u64::MAX, Some(u64::MAX)));
    }
}
