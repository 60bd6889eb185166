//! How busy a device is.
//!
//! Processes report the device time of their own work, and where claims run side by side, these add up to more time than there
//! was. So the device's time is divided into ticks, and each report into those that it is about. In a tick the device was busy
//! for as long as its claims together say, but not for longer than the tick. Claims that take turns in ticks of 20 ms add up
//! exactly. Claims that take turns within a tick look like claims side by side; their sum is right as long as it is less than the
//! tick.

use std::collections::BTreeMap;

/// Reports are 10 ms apart.
const TICK_NS: u64 = 20_000_000;

/// How many ticks count: a second.
const TICKS: u64 = 50;

/// What the claims of a device say.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// By a tick's number: device time in it.
    ticks: BTreeMap<u64, u64>,
}

impl Meter {
    /// A claim had `device_ns` on the device since its last report, or since before that: a command is reported when it ends.
    pub(super) fn add(&mut self, since_ns: u64, now_ns: u64, device_ns: u64) {
        if device_ns == 0 {
            return;
        }
        let span_ns = now_ns.saturating_sub(since_ns).max(device_ns);
        // What was before is not counted any more.
        let from_ns = now_ns.saturating_sub(span_ns.min(TICKS * TICK_NS));
        for tick in from_ns / TICK_NS..=now_ns / TICK_NS {
            let begin_ns = from_ns.max(tick * TICK_NS);
            let within_ns = now_ns.min((tick + 1) * TICK_NS).saturating_sub(begin_ns);
            let device_ns = u128::from(device_ns) * u128::from(within_ns) / u128::from(span_ns);
            let sum_ns = self.ticks.entry(tick).or_default();
            *sum_ns = sum_ns.saturating_add(device_ns as u64);
        }
        let oldest = (now_ns / TICK_NS).saturating_sub(TICKS);
        self.ticks = self.ticks.split_off(&oldest);
    }

    /// The part of the last second in which the device had work, up to the last whole tick.
    pub(super) fn busy(&self, now_ns: u64) -> f64 {
        let now = now_ns / TICK_NS;
        let counted = self.ticks.range(now.saturating_sub(TICKS)..now);
        let busy_ns: u64 = counted.map(|(_, device_ns)| device_ns.min(&TICK_NS)).sum();
        busy_ns as f64 / (TICKS * TICK_NS) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn percent(meter: &Meter, now_ns: u64) -> u64 {
        (meter.busy(now_ns) * 100.0).round() as u64
    }

    /// Ten seconds in which claims report every 10 ms how many milliseconds they had since.
    fn busy(device_ms: impl Fn(u64) -> Vec<u64>) -> u64 {
        let mut meter = Meter::default();
        for at_ms in (10..=10_000).step_by(10) {
            for device_ms in device_ms(at_ms) {
                meter.add((at_ms - 10) * MS, at_ms * MS, device_ms * MS);
            }
        }
        assert!(meter.ticks.len() <= TICKS as usize + 1, "{}", meter.ticks.len());
        percent(&meter, 10_000 * MS)
    }

    #[test]
    fn claims_that_take_turns_add_up_and_those_side_by_side_do_not() {
        assert_eq!(busy(|_| vec![3, 4]), 70);
        let turns = |at_ms: u64| if at_ms % 200 < 100 { vec![10, 0, 0] } else { vec![0, 5, 0] };
        assert!((72..=78).contains(&busy(turns)), "{}", busy(turns));
        assert_eq!(busy(|_| vec![10, 10, 10]), 100);
        assert_eq!(busy(|_| vec![40]), 100, "a claim with four streams");
        // Side by side for half of the time, idle for the other half.
        let halves = |at_ms: u64| if at_ms % 1000 < 500 { vec![10, 10] } else { vec![] };
        assert!((47..=53).contains(&busy(halves)), "{}", busy(halves));
    }

    #[test]
    fn a_long_command_counts_for_the_time_that_it_took() {
        let mut meter = Meter::default();
        meter.add(9_990 * MS, 10_000 * MS, 500 * MS);
        assert_eq!(percent(&meter, 10_000 * MS), 50);
        meter.add(10_000 * MS, 20_000 * MS, 9_000 * MS);
        assert_eq!(percent(&meter, 20_000 * MS), 90);
        meter.add(0, 30_000 * MS, u64::MAX);
        assert_eq!(percent(&meter, 30_000 * MS), 100);
        assert_eq!(percent(&meter, 31_000 * MS), 0);
        assert_eq!((percent(&Meter::default(), 0), percent(&meter, u64::MAX)), (0, 0));
    }
}
