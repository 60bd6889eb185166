//! The clock of launches and completions, and the clock by which processes compare times.

#[expect(unsafe_code, reason = "an instruction")]
pub(crate) mod ticks;

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use xsched_protocol::time_namespace::boottime_ahead_ns;
use xsched_sched::Nanos;

/// The time by this module's clock: it never goes back.
pub fn now() -> Nanos {
    #[cfg(test)]
    if let Some(now) = tests::stopped_at() {
        return now;
    }
    Nanos(read(ClockId::Monotonic))
}

/// The same for launches, without waiting for earlier instructions: it may be off by some nanoseconds, and so go back by as much.
#[inline]
pub(crate) fn about_now() -> Nanos {
    #[cfg(test)]
    if let Some(now) = tests::stopped_at() {
        return now;
    }
    ticks::now().unwrap_or_else(now)
}

/// The machine's boot time, in which gate pages and event rings have their times. In a time namespace, the process's own boot
/// time differs from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineClock {
    /// How far the process's boot time is ahead of it.
    own_ahead_ns: i64,
}

/// How often clocks are read to compare them. Another thread may get the processor between two readings.
const READINGS: usize = 8;

impl MachineClock {
    /// The clock as seen from this thread's time namespace. A restored checkpoint goes on in another one. It has lost its
    /// controller then, and asks again for the next controller.
    pub(crate) fn of_this_thread() -> Self {
        // `/proc/self` is the main thread, which may have ended, and the folder of a thread in it lacks the file.
        let thread = fs::read_link("/proc/thread-self").ok();
        let thread = thread.as_deref().and_then(|path| path.file_name()?.to_str());
        let offsets = thread.and_then(|id| fs::read_to_string(format!("/proc/{id}/timens_offsets")).ok());
        Self { own_ahead_ns: boottime_ahead_ns(&offsets.unwrap_or_default()) }
    }

    /// The time by this clock.
    pub(crate) fn now_ns(self) -> u64 {
        read(ClockId::Boottime).saturating_add_signed(self.own_ahead_ns.saturating_neg())
    }

    /// How far this clock is ahead of [`now`]. That changes only while the machine sleeps, which it hardly does beside work. Time
    /// between two readings adds to the difference, so the smallest is the best.
    pub(crate) fn ahead_ns(self) -> i64 {
        let reading = |_| {
            let own = read(ClockId::Monotonic);
            self.now_ns().cast_signed() - own.cast_signed()
        };
        (0..READINGS).map(reading).min().unwrap_or_default()
    }
}

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// For tests whose outcome must not depend on how fast the machine is: the clock stands still until the test advances it.
#[cfg(test)]
pub(crate) mod tests;
