//! The words of the page, in a map that is read-only for user space.

use core::intrinsics::{AtomicOrdering, atomic_and, atomic_cxchg, atomic_or, atomic_xadd};

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use xsched_protocol::arbiter_page::{Host as _, PAGE_WORDS, Page, Word, Words, protocol};

use crate::gates;

/// `BPF_F_MMAPABLE`
const MMAPABLE: u32 = 1 << 10;

/// User space fills it in and freezes it before any process maps it.
#[map]
static PAGE: Array<Page> = Array::with_max_entries(1, MMAPABLE);

/// The page, with write access.
#[derive(Clone, Copy)]
pub(crate) struct Kept(*mut u64);

impl Kept {
    #[inline(always)]
    pub(crate) fn get() -> Option<Self> {
        PAGE.get_ptr_mut(0).map(|page| Self(page.cast()))
    }

    #[inline(always)]
    fn at(self, word: Word) -> *mut u64 {
        let index = word.index();
        // The index is always below the bound. The verifier has to see the check, and the compiler must not remove it.
        let index = if core::hint::black_box(index) < PAGE_WORDS { index } else { 0 };
        // SAFETY: the element has this many words.
        unsafe { self.0.add(index) }
    }
}

impl Words for Kept {
    #[inline(always)]
    fn load(&self, word: Word) -> u64 {
        // SAFETY: the map owns the element for as long as the program runs. Other programs change the word meanwhile, but whole.
        unsafe { core::ptr::read_volatile(self.at(word)) }
    }

    #[inline(always)]
    fn store(&self, word: Word, new: u64) {
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(self.at(word), new) }
    }

    #[inline(always)]
    fn replace(&self, word: Word, old: u64, new: u64) -> bool {
        // SAFETY: as above.
        unsafe { replace(self.at(word), old, new) }
    }

    #[inline(always)]
    fn add(&self, word: Word, count: u64) {
        // SAFETY: as above.
        unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(self.at(word), count) };
    }

    #[inline(always)]
    fn set(&self, word: Word, bits: u64) -> u64 {
        // SAFETY: as above.
        unsafe { atomic_or::<u64, u64, { AtomicOrdering::SeqCst }>(self.at(word), bits) }
    }

    #[inline(always)]
    fn clear(&self, word: Word, bits: u64) -> u64 {
        // SAFETY: as above.
        unsafe { atomic_and::<u64, u64, { AtomicOrdering::SeqCst }>(self.at(word), !bits) }
    }

    #[inline(always)]
    fn gate(&self, slot: u64) -> Option<u64> {
        gates::load(slot)
    }

    #[inline(always)]
    fn set_gate(&self, slot: u64, is_allowed: bool) {
        gates::set(slot, is_allowed, self.now_ns());
    }

    #[inline(always)]
    fn is_quiet(&self, slot: u64) -> bool {
        gates::is_quiet(slot)
    }

    #[inline(always)]
    fn repair_ready(&self, device: u64, level: u64) -> u64 {
        repair_ready(device, level)
    }

    #[inline(always)]
    fn repair_exists(&self, device: u64, level: u64) -> bool {
        repair_exists(device, level) != 0
    }

    #[inline(always)]
    fn follow_gate(&self, slot: u64) -> bool {
        gates::follow_gate(slot) != 0
    }

    #[inline(always)]
    fn follow_gates(&self, device: u64, levels: u64) -> bool {
        gates::follow_gates(device, levels) != 0
    }

    #[inline(always)]
    fn follow_block(&self, first_slot: u64, device: u64, levels: u64) -> bool {
        gates::follow_block(first_slot, device, levels) != 0
    }
}

/// A function of its own, which the verifier checks once. Inlined, its loop would be within the loops of all functions that change a
/// claim, which is too much for the verifier of Linux 6.1.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn repair_ready(device: u64, level: u64) -> u64 {
    Kept::get().map_or(0, |page| protocol::repair_ready(&page, device, level))
}

/// Likewise.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn repair_exists(device: u64, level: u64) -> u64 {
    Kept::get().map_or(0, |page| u64::from(protocol::repair_exists(&page, device, level)))
}

/// Replaces `old` by `new`; returns false if the word was not `old`.
///
/// # Safety
///
/// `value` must point to memory that stays valid, and is otherwise changed atomically only.
#[inline(always)]
pub(crate) unsafe fn replace(value: *mut u64, old: u64, new: u64) -> bool {
    // SAFETY: by the contract above.
    let (_, replaced) = unsafe {
        atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(value, old, new)
    };
    replaced
}
