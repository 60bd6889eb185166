//! A probe that user space attaches to itself, to learn what this kernel can do.

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;

/// Hits of the probe.
#[map]
static SELF_TEST: Array<u64> = Array::with_max_entries(1, 0);

#[inline(always)]
pub(crate) fn hit() {
    if let Some(hits) = SELF_TEST.get_ptr_mut(0) {
        // SAFETY: the map owns the element for as long as the program runs; one thread at a time runs the self-test.
        unsafe { *hits += 1 };
    }
}
