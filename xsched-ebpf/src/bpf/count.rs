//! Counters of what was lost.

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use xsched_abi::Counter;

#[map]
static COUNTERS: Array<u64> = Array::with_max_entries(Counter::ALL.len() as u32, 0);

/// Counts one `cause`.
#[inline(always)]
pub(crate) fn count(cause: Counter) {
    if let Some(value) = COUNTERS.get_ptr_mut(cause as u32) {
        // SAFETY: the map owns the element for as long as the program runs, and user space only reads it.
        unsafe {
            core::intrinsics::atomic_xadd::<u64, u64, { core::intrinsics::AtomicOrdering::Relaxed }>(
                value, 1,
            );
        }
    }
}
