//! Readings of several clocks at one moment, which relate a trace's times to those of other sources.
//!
//! Perfetto's description of clock snapshots: <https://perfetto.dev/docs/concepts/clock-sync>.

use rustix::time::{ClockId, clock_gettime};

use crate::schema::{ClockReading, ClockSnapshot, clock};

/// The same moment on several clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`, the clock of every time in the trace (`bpf_ktime_get_boot_ns`).
    pub boottime_ns: u64,
    /// `CLOCK_MONOTONIC`, which stops while the machine sleeps.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, from which the UI derives dates.
    pub realtime_ns: u64,
}

impl Clocks {
    /// Reads the clocks, one immediately after the other.
    pub fn now() -> Self {
        Self {
            boottime_ns: read(ClockId::Boottime),
            monotonic_ns: read(ClockId::Monotonic),
            realtime_ns: read(ClockId::Realtime),
        }
    }

    pub(crate) fn to_snapshot(self) -> ClockSnapshot {
        let reading = |id, ns| ClockReading { clock_id: Some(id), timestamp: Some(ns) };
        ClockSnapshot {
            clocks: vec![
                reading(clock::BOOTTIME, self.boottime_ns),
                reading(clock::MONOTONIC, self.monotonic_ns),
                reading(clock::REALTIME, self.realtime_ns),
            ],
            primary_trace_clock: Some(clock::BOOTTIME),
        }
    }
}

fn read(id: ClockId) -> u64 {
    let now = clock_gettime(id);
    // Only a realtime clock that is set before 1970 can be negative; it counts as 0.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_advance_and_come_from_the_right_clocks() {
        let (first, second) = (Clocks::now(), Clocks::now());
        assert!(first.boottime_ns > 0 && first.boottime_ns <= second.boottime_ns);
        assert!(first.monotonic_ns <= second.monotonic_ns);
        // Boottime also counts sleep, so it is never less than a monotonic reading taken before it.
        assert!(first.monotonic_ns <= second.boottime_ns);
        // 2020-01-01: realtime counts from 1970, the others from boot.
        assert!(first.realtime_ns > 1_577_836_800_000_000_000);
    }
}
