//! `CLOCK_MONOTONIC` in nanoseconds, and sleeping until a point on it.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// Now, on `CLOCK_MONOTONIC`.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * NS_PER_S + now.tv_nsec.cast_unsigned()
}

/// A point on it in the kernel's form.
pub(crate) fn timespec(time_ns: u64) -> Timespec {
    Timespec { tv_sec: (time_ns / NS_PER_S).cast_signed(), tv_nsec: (time_ns % NS_PER_S).cast_signed() }
}

/// Returns at once if the time has passed. Absolute, so that a late wake-up does not move the next one.
pub(crate) fn sleep_until(time_ns: u64) {
    let time = timespec(time_ns);
    while now_ns() < time_ns {
        // An interrupting signal is no reason to wake: the loop sleeps on.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
    }
}
