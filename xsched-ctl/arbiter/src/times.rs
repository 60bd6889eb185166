//! How long reports and heartbeats are valid.

use std::time::Duration;

/// How long reports and heartbeats are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The lease: how long a claim counts as ready after its last report.
    pub lease: Duration,
    /// The linger: how long a claim stays ready after its last completion.
    pub linger: Duration,
    /// How long the controller may send no heartbeat. Fixed when the page is created.
    pub silence: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(50),
            linger: Duration::from_micros(100),
            silence: Duration::from_millis(100),
        }
    }
}

impl Times {
    pub(crate) fn lease_ns(&self) -> u64 {
        nanoseconds(self.lease)
    }

    pub(crate) fn linger_ns(&self) -> u64 {
        nanoseconds(self.linger)
    }

    pub(crate) fn silence_ns(&self) -> u64 {
        nanoseconds(self.silence)
    }
}

/// At most one day, so that sums with times of the clock do not overflow.
fn nanoseconds(time: Duration) -> u64 {
    const DAY: Duration = Duration::from_hours(24);
    time.min(DAY).as_nanos() as u64
}
