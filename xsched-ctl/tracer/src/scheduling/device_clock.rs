//! Converts the device's intervals to the host's clock.
//!
//! A process sees a marker's completion some time after it happened, and the device reports the interval from one
//! marker to the next. So each observation gives an upper bound of the distance between the host's clock and the sum of
//! intervals. The smallest bound is the best estimate, for earlier markers as well.

use std::cell::Cell;
use std::rc::Rc;

/// How long a distance is used: clocks drift apart.
const BELIEVED_NS: u64 = 1_000_000_000;

/// The best known distance between the clocks.
#[derive(Clone, Debug)]
struct Chain(Rc<Cell<i64>>);

/// A marker's time, which later observations improve.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    observed_ns: u64,
    device_ns: u64,
    chain: Chain,
}

impl Seen {
    pub(super) fn time_ns(&self) -> u64 {
        self.device_ns.saturating_add_signed(self.chain.0.get()).min(self.observed_ns)
    }
}

/// Tracks the markers of one stream.
#[derive(Debug, Default)]
pub(super) struct DeviceClock {
    chain: Option<(Chain, u64)>,
    device_ns: u64,
}

impl DeviceClock {
    /// A marker's completion was observed, `interval_ns` after the previous one by the device's clock; 0: unknown.
    pub(super) fn observe(&mut self, observed_ns: u64, interval_ns: u64) -> Seen {
        let is_old = |(_, since_ns): &mut (Chain, u64)| observed_ns.saturating_sub(*since_ns) > BELIEVED_NS;
        self.chain.take_if(is_old);
        if interval_ns == 0 {
            self.chain = None;
        }
        self.device_ns = self.device_ns.saturating_add(interval_ns);
        // A correct process reports no values this large.
        let distance = (observed_ns as i64).saturating_sub(self.device_ns as i64);
        let (chain, _) = self.chain.get_or_insert_with(|| (Chain(Rc::new(Cell::new(distance))), observed_ns));
        chain.0.set(chain.0.get().min(distance));
        Seen { observed_ns, device_ns: self.device_ns, chain: chain.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_observation_applies_to_all_markers() {
        let mut clock = DeviceClock::default();
        // Completions at 1000, 1100 and 1200; all but the last are observed late.
        let seen = [(1_250, 0), (1_251, 100), (1_252, 100)].map(|(at, since)| clock.observe(at, since));
        assert_eq!(seen.each_ref().map(Seen::time_ns), [1_052, 1_152, 1_252]);
        clock.observe(1_301, 100);
        assert_eq!(seen.each_ref().map(Seen::time_ns), [1_001, 1_101, 1_201]);
    }

    #[test]
    fn a_marker_without_an_interval_keeps_its_observed_time() {
        let mut clock = DeviceClock::default();
        let first = clock.observe(500, 0);
        let second = clock.observe(10_000, 0);
        clock.observe(10_050, 100);
        assert_eq!((first.time_ns(), second.time_ns()), (500, 9_950));
    }

    #[test]
    fn drifting_clocks_are_compared_again() {
        let mut clock = DeviceClock::default();
        clock.observe(1_000, 0);
        let later = clock.observe(1_000 + 2 * BELIEVED_NS, 2 * BELIEVED_NS - 5_000);
        assert_eq!(later.time_ns(), 1_000 + 2 * BELIEVED_NS);
    }

    #[test]
    fn false_values_cause_no_overflow() {
        let mut clock = DeviceClock::default();
        for (observed_ns, interval_ns) in [(u64::MAX, u64::MAX), (0, u64::MAX), (5, 1), (u64::MAX, 0)] {
            assert!(clock.observe(observed_ns, interval_ns).time_ns() <= observed_ns);
        }
    }
}
