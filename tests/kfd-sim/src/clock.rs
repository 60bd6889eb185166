//! Clocks: the device's counts the raw monotonic clock in units of ten nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// The device's clock, in kHz.
pub(crate) const DEVICE_KHZ: u32 = 100_000;

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The device's clock.
pub(crate) fn device() -> u64 {
    nanoseconds(ClockId::MonotonicRaw) / 10
}

/// The processor's clock.
pub(crate) fn raw_ns() -> u64 {
    nanoseconds(ClockId::MonotonicRaw)
}

/// The system's clock.
pub(crate) fn boot_ns() -> u64 {
    nanoseconds(ClockId::Boottime)
}
