//! Filters that user space has set. For a call that is left out here, no record is written or read.

use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use xsched_abi::{Cookie, EVERY_LAUNCH, Filter};

use crate::count::count_left_out;
use crate::scope::config;

/// Decides at its entry whether a call is recorded; counts it if not.
///
/// Launches are sampled at random: if a program launches n kernels in a loop, every n-th launch would always be of the same kernel.
#[inline(always)]
pub(crate) fn takes(cookie: Cookie) -> bool {
    let share = config().map_or(EVERY_LAUNCH, |config| config.launch_share);
    if !cookie.is_launch() || share >= EVERY_LAUNCH {
        return true;
    }
    // SAFETY: the helper takes nothing.
    let is_drawn = (unsafe { bpf_get_prandom_u32() } as u64) < share;
    if !is_drawn {
        count_left_out(Filter::Unsampled);
    }
    is_drawn
}

/// Decides at its return whether a call is recorded; counts it if not.
#[inline(always)]
pub(crate) fn keeps(cookie: Cookie, duration_ns: u64) -> bool {
    let min_duration_ns = config().map_or(0, |config| config.min_duration_ns);
    let is_kept = duration_ns >= min_duration_ns || cookie.names_kernels();
    if !is_kept {
        count_left_out(Filter::Short);
    }
    is_kept
}
