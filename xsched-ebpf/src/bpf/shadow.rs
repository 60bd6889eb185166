//! Return addresses that our own return probes have replaced.
//!
//! For every call in progress the kernel replaces the return address by that of its trampoline. When such a function calls another
//! probed one, a walk meets the trampoline and finds the original address here.
//!
//! There is one element per slot of the stack, chosen by hash. No element is ever removed. An element is looked up only while the
//! slot holds the trampoline; the entry probe that caused the replacement has written the element just before. An element is
//! valid if both words match: an element that two threads write at once matches neither.

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use xsched_abi::chain::mix;

#[map]
static SHADOW: Array<[u64; 2]> = Array::with_max_entries(SHADOW_COUNT, 0);

const SHADOW_COUNT: u32 = 1 << 14;

/// Notes the return address at `slot` of a thread.
#[inline(always)]
pub(crate) fn store(tid: u32, slot: u64, address: u64) {
    let key = mix(slot, tid.into());
    if let Some(element) = SHADOW.get_ptr_mut(key as u32 % SHADOW_COUNT) {
        // SAFETY: the map owns the element; the result of a race is not valid.
        unsafe { *element = [address, address ^ key] };
    }
}

/// The return address that was at `slot` of a thread.
#[inline(always)]
pub(crate) fn find(tid: u32, slot: u64) -> Option<u64> {
    let key = mix(slot, tid.into());
    let [address, check] = *SHADOW.get(key as u32 % SHADOW_COUNT)?;
    (address ^ check == key).then_some(address)
}
