//! The clock of every time in this crate.

use std::fs;
use std::sync::LazyLock;

use rustix::time::{ClockId, clock_gettime};
use xsched_protocol::time_namespace::boottime_ahead_ns;

/// The present time in nanoseconds of the machine's `CLOCK_BOOTTIME`: that of `bpf_ktime_get_boot_ns`, and of processes that are
/// in other time namespaces than this one.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    machine_ns(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// A boot time that the kernel has told this process, on the machine's clock.
pub(crate) fn machine_ns(own_ns: u64) -> u64 {
    own_ns.saturating_add_signed(OWN_AHEAD_NS.saturating_neg())
}

/// A time on the machine's clock, as this process has to tell it to the kernel.
pub fn own_ns(machine_ns: u64) -> u64 {
    machine_ns.saturating_add_signed(*OWN_AHEAD_NS)
}

static OWN_AHEAD_NS: LazyLock<i64> =
    LazyLock::new(|| boottime_ahead_ns(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default()));
