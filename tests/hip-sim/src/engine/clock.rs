//! `CLOCK_MONOTONIC` in nanoseconds, and sleeping until a point on it.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// The current time on `CLOCK_MONOTONIC`.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * NS_PER_S + now.tv_nsec.cast_unsigned()
}

/// A time on this clock in the kernel's form.
pub(crate) fn timespec(time_ns: u64) -> Timespec {
    Timespec { tv_sec: (time_ns / NS_PER_S).cast_signed(), tv_nsec: (time_ns % NS_PER_S).cast_signed() }
}

/// Returns at once if the time has passed. The time is absolute, so a late wake-up does not delay the next
/// one.
pub(crate) fn sleep_until(time_ns: u64) {
    let time = timespec(time_ns);
    while now_ns() < time_ns {
        // A signal that interrupts the sleep does not end it: the loop continues.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
    }
}
