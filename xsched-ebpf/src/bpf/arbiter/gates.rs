//! The gate pages, which user space makes and processes may write.

use core::intrinsics::{AtomicOrdering, atomic_and, atomic_or};

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{self, ArrayOfMaps};
use aya_ebpf::macros::btf_map;
use xsched_protocol::arbiter_page::{
    CLAIM_MAX, GATE_ALLOWED, GATE_CLOSED_AT, GATE_OPENED_AT, GATE_QUIET, GATE_SIZE, GATE_WISHES, gate,
};

use crate::page::Kept;

/// A gate page, as words, for the reason that `src/bpf/origin/pages.rs` gives.
type GatePage = btf_maps::Array<[u64; GATE_SIZE / 8], 1, { BPF_F_MMAPABLE as usize }>;

/// By slot. User space inserts a page before it opens a claim in the slot.
#[btf_map]
static GATES: ArrayOfMaps<GatePage, { CLAIM_MAX }> = ArrayOfMaps::new();

#[inline(always)]
fn at(slot: u64) -> Option<*mut u64> {
    let page = GATES.get_value_ptr_mut(slot as u32 & (CLAIM_MAX as u32 - 1), &0);
    page.map(|page| page.cast())
}

/// The gate of a slot.
#[inline(always)]
pub(crate) fn load(slot: u64) -> Option<u64> {
    // SAFETY: a page that was just taken from the map lives until the program has ended. The word is changed whole.
    at(slot).map(|word| unsafe { core::ptr::read_volatile(word) })
}

/// Whether its process asks not to be woken when it closes.
#[inline(always)]
pub(crate) fn is_quiet(slot: u64) -> bool {
    // SAFETY: as above; the page has more words than this.
    at(slot).is_some_and(|word| unsafe { core::ptr::read_volatile(word.add(GATE_WISHES)) } & GATE_QUIET != 0)
}

/// Sets or clears the arbiter's bit, with the time. The other bits are the process's.
#[inline(always)]
pub(crate) fn set(slot: u64, is_allowed: bool, now_ns: u64) {
    let Some(word) = at(slot) else { return };
    // SAFETY: as above; the page has more words than these. If the map has another page by now, this one is not read any more.
    unsafe {
        if is_allowed {
            core::ptr::write_volatile(word.add(GATE_OPENED_AT), now_ns);
            atomic_or::<u64, u64, { AtomicOrdering::SeqCst }>(word, GATE_ALLOWED);
        } else {
            core::ptr::write_volatile(word.add(GATE_CLOSED_AT), now_ns);
            atomic_and::<u64, u64, { AtomicOrdering::SeqCst }>(word, !GATE_ALLOWED);
        }
    }
}

/// A function of its own, which the verifier checks once, and not at each place from which a claim can change.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn follow_gate(slot: u64) -> u64 {
    Kept::get().map_or(0, |page| u64::from(gate::follow(&page, slot)))
}

/// A function of its own for the same reason.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn follow_gates(device: u64, levels: u64) -> u64 {
    Kept::get().map_or(0, |page| u64::from(gate::follow_all(&page, device, levels)))
}

/// The same for each block of slots.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn follow_block(first_slot: u64, device: u64, levels: u64) -> u64 {
    Kept::get().map_or(0, |page| u64::from(gate::follow_block(&page, first_slot, device, levels)))
}
