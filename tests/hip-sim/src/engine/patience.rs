//! How often to look at a word of which nobody tells when it is written.

use std::thread;
use std::time::{Duration, Instant};

/// All the time at first, then after an eighth of the time that was waited, within these bounds. A look that sleeps costs
/// 20 us of a core on a virtual machine, whatever the interval, so what is waited for long is looked at seldom.
const LOOK_AWAKE: Duration = Duration::from_micros(20);
const INTERVAL_MIN: Duration = Duration::from_micros(1);
const INTERVAL_MAX: Duration = Duration::from_micros(200);
/// Part of the time waited.
const INTERVAL_PART: u32 = 8;

/// Of somebody who waits.
pub(crate) struct Patience {
    began: Instant,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now() }
    }

    /// How long to sleep before the next look; none: give way to others and look again.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let waited = self.began.elapsed();
        (waited >= LOOK_AWAKE).then(|| (waited / INTERVAL_PART).clamp(INTERVAL_MIN, INTERVAL_MAX))
    }

    /// Returns when it is time for the next look.
    pub(crate) fn pause(&self) {
        self.interval().map_or_else(thread::yield_now, thread::sleep);
    }
}
