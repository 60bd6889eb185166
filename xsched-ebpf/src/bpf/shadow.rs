//! Return addresses that our own return probes have replaced.
//!
//! The kernel puts the address of its trampoline in the place of the return address of every call in progress. When
//! such a function calls another probed one, a walk meets the trampoline and finds here what was there before.
//!
//! One element a slot of the stack, chosen by hash; nothing is ever removed, since an element is only asked for while
//! the slot holds the trampoline, and whoever let the kernel put it there has written the element just before. An
//! element is valid if both words fit: one that two threads write at once fits neither.

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
        // SAFETY: the map owns the element; what a race leaves there is not taken for valid.
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
