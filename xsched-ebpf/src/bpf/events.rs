//! The way of records to user space, and the clock that they carry.

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP, BPF_RB_RING_SIZE};
use aya_ebpf::helpers::generated::bpf_ktime_get_boot_ns;
use aya_ebpf::macros::map;
use aya_ebpf::maps::RingBuf;

/// Records on their way to user space. User space sets the size.
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 23, 0);

/// User space looks into the ring buffer every few milliseconds; it is woken earlier once this many bytes wait, or a
/// quarter of what there is room for.
const WAKEUP_BYTES: u64 = 1 << 18;

#[inline(always)]
pub(crate) fn now_ns() -> u64 {
    // SAFETY: the helper takes nothing and only reads a clock.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Whether the record that is about to be submitted should wake user space.
#[inline(always)]
pub(crate) fn wakeup(ring: &RingBuf) -> u64 {
    let waiting = ring.query(u64::from(BPF_RB_AVAIL_DATA));
    if waiting > WAKEUP_BYTES || waiting > ring.query(u64::from(BPF_RB_RING_SIZE)) / 4 {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        u64::from(BPF_RB_NO_WAKEUP)
    }
}
