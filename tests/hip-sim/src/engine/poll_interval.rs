//! How often to poll a word whose writers notify no reader.

use std::thread;
use std::time::{Duration, Instant};

/// A wait spins for this long. Then it sleeps an eighth of the time waited so far, within the bounds below. A
/// poll that sleeps costs 20 us of a core on a virtual machine, whatever the interval, so a long wait polls
/// seldom.
const SPIN_TIME: Duration = Duration::from_micros(20);
const INTERVAL_MIN: Duration = Duration::from_micros(1);
const INTERVAL_MAX: Duration = Duration::from_micros(200);
/// Divides the time waited.
const INTERVAL_PART: u32 = 8;

/// The poll intervals of one wait.
pub(crate) struct PollInterval {
    began: Instant,
}

impl PollInterval {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now() }
    }

    /// How long to sleep before the next poll; none: yield and poll again.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let waited = self.began.elapsed();
        (waited >= SPIN_TIME).then(|| (waited / INTERVAL_PART).clamp(INTERVAL_MIN, INTERVAL_MAX))
    }

    /// Returns when the next poll is due.
    pub(crate) fn pause(&self) {
        self.interval().map_or_else(thread::yield_now, thread::sleep);
    }
}
