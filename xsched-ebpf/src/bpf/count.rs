//! Counters of lost calls and of calls that were left out.

use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use xsched_abi::{Counter, Counters, Filter};

use crate::atomic;

/// `BPF_F_MMAPABLE`: user space reads all counters without a system call.
const MMAPABLE: u32 = 1 << 10;

/// By processor; user space sets the number.
#[map]
static COUNTERS: Array<Counters> = Array::with_max_entries(1, MMAPABLE);

/// Counts one `cause`.
#[inline(always)]
pub(crate) fn count(cause: Counter) {
    if let Some(counters) = of_this_processor() {
        // SAFETY: the map owns the element for as long as the program runs.
        increment(unsafe { &raw mut (*counters).losses[cause as usize] });
    }
}

/// Counts one call that `filter` leaves out.
#[inline(always)]
pub(crate) fn count_left_out(filter: Filter) {
    if let Some(counters) = of_this_processor() {
        // SAFETY: as above.
        increment(unsafe { &raw mut (*counters).left_out[filter as usize] });
    }
}

/// The program may be preempted and continue on another processor. Then the count is added to that of the first one.
#[inline(always)]
fn of_this_processor() -> Option<*mut Counters> {
    // SAFETY: the helper takes nothing.
    COUNTERS.get_ptr_mut(unsafe { bpf_get_smp_processor_id() })
}

#[inline(always)]
fn increment(cell: *mut u64) {
    // SAFETY: the cell lies in a map's element; programs change it in this way only, and user space reads it.
    unsafe { atomic::add(cell, 1) };
}
