//! The ring buffer of records for user space, and the clock of records.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP, BPF_RB_RING_SIZE};
use aya_ebpf::helpers::generated::bpf_ktime_get_boot_ns;
use aya_ebpf::macros::map;
use aya_ebpf::maps::RingBuf;

/// Records for user space, which sets the size.
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 23, 0);

/// User space reads the ring buffer every few milliseconds. It is woken earlier each time that this many more bytes wait, or a quarter
/// of the ring's size. A power of two, like the size of a ring.
const WAKEUP_BYTES: u64 = 1 << 18;

/// Bytes that the kernel puts before each record.
const HEADER_BYTES: u64 = 8;

#[inline(always)]
pub(crate) fn now_ns() -> u64 {
    // SAFETY: the helper takes nothing and only reads a clock.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Whether the record of `size` bytes that is about to be submitted should wake user space. Only the record that completes such
/// an amount does. Waking takes longer than all the rest of a record, and a reader that is awake need not be woken.
#[inline(always)]
pub(crate) fn wakeup(ring: &RingBuf, size: usize) -> u64 {
    let waiting = ring.query(u64::from(BPF_RB_AVAIL_DATA));
    let quarter = ring.query(u64::from(BPF_RB_RING_SIZE)) / 4;
    let step = if quarter < WAKEUP_BYTES { quarter } else { WAKEUP_BYTES };
    let before = waiting.wrapping_sub(size as u64 + HEADER_BYTES);
    // Whether a multiple of the step lies between the two.
    if (waiting ^ before) >= step { u64::from(BPF_RB_FORCE_WAKEUP) } else { u64::from(BPF_RB_NO_WAKEUP) }
}
