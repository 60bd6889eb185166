//! The clock of launches and completions.

use rustix::time::{ClockId, clock_gettime};
use xsched_sched::Nanos;

/// The time by this module's clock: it never goes back.
pub fn now() -> Nanos {
    #[cfg(test)]
    if let Some(now) = tests::stopped_at() {
        return now;
    }
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// For tests whose outcome must not depend on how fast the machine is: the clock stands still until the test advances it.
#[cfg(test)]
pub(crate) mod tests;
