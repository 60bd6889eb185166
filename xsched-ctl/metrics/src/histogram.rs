//! A histogram of times with fixed buckets.

use xsched_sched::Nanos;

/// Upper bounds of the buckets in seconds, without the last one, which has none. A delay below 10 us is not noticeable; one above
/// a second is cut by the starvation bound.
pub const BUCKETS_S: [f64; 12] = [1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0];

/// Counts of times by bucket, and their sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Histogram {
    counts: [u64; BUCKETS_S.len() + 1],
    sum: Nanos,
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Nanos) {
        let bucket = BUCKETS_S.partition_point(|bound| *bound < seconds(time));
        self.counts[bucket] += 1;
        self.sum += time;
    }

    pub(crate) fn sum_s(&self) -> f64 {
        seconds(self.sum)
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each bucket's upper bound in seconds, and its own count.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        BUCKETS_S.into_iter().chain([f64::INFINITY]).zip(self.counts).collect()
    }
}

pub(crate) fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_reaches_it() {
        let mut histogram = Histogram::default();
        for time_ns in [0, 10_000, 10_001, 1_000_000_000, 1_000_000_001] {
            histogram.add(Nanos(time_ns));
        }
        let filled: Vec<_> = histogram.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1e-5, 2), (1e-4, 1), (1.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((histogram.count(), histogram.sum.0), (5, 2_000_020_002));
    }
}
