//! How long what was said holds.

use std::time::Duration;

/// How long what was said holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a queue counts as ready after its last report.
    pub lease: Duration,
    /// How long a queue stays ready after its last completion.
    pub linger: Duration,
    /// How long the controller may be silent. Fixed when the page is made.
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

/// At most a day: sums with times of the clock must not overflow.
fn nanoseconds(time: Duration) -> u64 {
    const DAY: Duration = Duration::from_hours(24);
    time.min(DAY).as_nanos() as u64
}
