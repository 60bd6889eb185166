//! Words of the page by number, for code that must run on any page: the programs' map, a controller's memory, a model.

#![expect(clippy::inline_always, reason = "a call costs a BPF program stack space and the verifier time")]

use core::mem::offset_of;

use super::{
    BLOCK_SLOTS, CLAIM_MAX, ClaimEntry, DEVICE_MAX, DeviceWords, LEVEL_COUNT, Page, PageHeader, gate,
    protocol,
};

/// How many words a page has.
pub const PAGE_WORDS: usize = size_of::<Page>() / 8;

const BLOCKS: usize = offset_of!(Page, blocks) / 8;
const DEVICES: usize = offset_of!(Page, devices) / 8;
const CLAIMS: usize = offset_of!(Page, claims) / 8;
const DEVICE_WORDS: usize = size_of::<DeviceWords>() / 8;
const CLAIM_WORDS: usize = size_of::<ClaimEntry>() / 8;

/// The index of a word in the page. Devices, levels and slots are taken modulo their counts, so that a word is within the page
/// whatever it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(u32);

macro_rules! header {
    ($($name:ident $field:ident)*) => {
        $(#[doc = concat!("[`PageHeader::", stringify!($field), "`]")]
        pub const $name: Self = Self((offset_of!(PageHeader, $field) / 8) as u32);)*
    };
}

/// Words of an entry for a device or a claim: the function's name, and the field's.
macro_rules! fields {
    ($($of:ident($index:ident) $entry:ident: $($name:ident $field:ident),*;)*) => {
        $($(#[doc = concat!("[`", stringify!($entry), "::", stringify!($field), "`]")]
        #[inline(always)]
        pub const fn $name($index: u64) -> Self {
            Self::$of($index, offset_of!($entry, $field))
        })*)*
    };
}

impl Word {
    header! {
        MAGIC magic VERSION version EPOCH epoch OBEY obey HEARTBEAT heartbeat_ns SILENCE silence_ns LEASE lease_ns LINGER linger_ns
        CONTROLLER controller EXHAUSTED exhausted REFUSED refused SLOTS slots EVENTS_LOST events_lost PROGRAMS programs
        LISTENS listens
    }

    fields! {
        of_device(device) DeviceWords: key key, ready ready, exists exists, changes changes;
        of_claim(slot) ClaimEntry: claim word, lease_until lease_until_ns, owner owner;
    }

    /// The element of [`Page::blocks`] for a slot.
    #[inline(always)]
    pub const fn block(slot: u64) -> Self {
        let slot = slot as usize & (CLAIM_MAX - 1);
        Self((BLOCKS + slot / BLOCK_SLOTS) as u32)
    }

    /// An element of [`DeviceWords::ready_counts`].
    #[inline(always)]
    pub const fn ready_count(device: u64, level: u64) -> Self {
        Self::of_device(device, offset_of!(DeviceWords, ready_counts)).at_level(level)
    }

    /// An element of [`DeviceWords::exist_counts`].
    #[inline(always)]
    pub const fn exist_count(device: u64, level: u64) -> Self {
        Self::of_device(device, offset_of!(DeviceWords, exist_counts)).at_level(level)
    }

    /// Its number, below [`PAGE_WORDS`].
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    #[inline(always)]
    const fn of_device(device: u64, offset: usize) -> Self {
        let device = device as usize & (DEVICE_MAX - 1);
        Self((DEVICES + device * DEVICE_WORDS + offset / 8) as u32)
    }

    #[inline(always)]
    const fn at_level(self, level: u64) -> Self {
        Self(self.0 + (level as u32 & (LEVEL_COUNT as u32 - 1)))
    }

    #[inline(always)]
    const fn of_claim(slot: u64, offset: usize) -> Self {
        let slot = slot as usize & (CLAIM_MAX - 1);
        Self((CLAIMS + slot * CLAIM_WORDS + offset / 8) as u32)
    }
}

const _: () =
    assert!(DEVICE_MAX.is_power_of_two() && LEVEL_COUNT.is_power_of_two() && CLAIM_MAX.is_power_of_two());

/// A page that several threads or programs change at once.
///
/// All operations are sequentially consistent. In the BPF programs loads and stores are plain and the others are locked. On x86
/// that is the same, unless a word is stored and another caller's word then loaded without a locked operation in between:
/// [`protocol`] never does that.
pub trait Words {
    /// Loads the word.
    fn load(&self, word: Word) -> u64;
    /// Stores the word.
    fn store(&self, word: Word, new: u64);
    /// Replaces `old` by `new`; returns false if the word was not `old`.
    fn replace(&self, word: Word, old: u64, new: u64) -> bool;
    /// Adds, with wrapping.
    fn add(&self, word: Word, count: u64);
    /// Sets bits; returns what was there before.
    fn set(&self, word: Word, bits: u64) -> u64;
    /// Clears bits; returns what was there before.
    fn clear(&self, word: Word, bits: u64) -> u64;

    /// The gate of a slot's claim; none if it has no gate. Not every keeper of a page has gates.
    #[inline(always)]
    fn gate(&self, slot: u64) -> Option<u64> {
        let _ = slot;
        None
    }

    /// Sets or clears [`GATE_ALLOWED`](super::GATE_ALLOWED) in that gate, and nothing else.
    #[inline(always)]
    fn set_gate(&self, slot: u64, is_allowed: bool) {
        let _ = (slot, is_allowed);
    }

    /// Whether the process of a slot's claim has requested [`GATE_QUIET`](super::GATE_QUIET).
    #[inline(always)]
    fn is_quiet(&self, slot: u64) -> bool {
        let _ = slot;
        false
    }

    /// [`protocol::repair_ready`]
    #[inline(always)]
    fn repair_ready(&self, device: u64, level: u64) -> u64
    where
        Self: Sized,
    {
        protocol::repair_ready(self, device, level)
    }

    /// [`protocol::repair_exists`]
    #[inline(always)]
    fn repair_exists(&self, device: u64, level: u64) -> bool
    where
        Self: Sized,
    {
        protocol::repair_exists(self, device, level)
    }

    /// [`gate::follow`]
    #[inline(always)]
    fn follow_gate(&self, slot: u64) -> bool
    where
        Self: Sized,
    {
        gate::follow(self, slot)
    }

    /// [`gate::follow_all`]
    #[inline(always)]
    fn follow_gates(&self, device: u64, levels: u64) -> bool
    where
        Self: Sized,
    {
        gate::follow_all(self, device, levels)
    }

    /// [`gate::follow_block`]
    #[inline(always)]
    fn follow_block(&self, first_slot: u64, device: u64, levels: u64) -> bool
    where
        Self: Sized,
    {
        gate::follow_block(self, first_slot, device, levels)
    }
}

#[cfg(not(target_arch = "bpf"))]
pub use atomic::AtomicWords;

#[cfg(not(target_arch = "bpf"))]
mod atomic {
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::{PAGE_WORDS, Word, Words};

    /// A page in shared memory.
    #[derive(Clone, Copy, Debug)]
    pub struct AtomicWords<'a>(&'a [AtomicU64; PAGE_WORDS]);

    impl<'a> AtomicWords<'a> {
        /// The words of a page.
        pub const fn new(page: &'a [AtomicU64; PAGE_WORDS]) -> Self {
            Self(page)
        }
    }

    impl Words for AtomicWords<'_> {
        fn load(&self, word: Word) -> u64 {
            self.0[word.index()].load(Ordering::SeqCst)
        }

        fn store(&self, word: Word, new: u64) {
            self.0[word.index()].store(new, Ordering::SeqCst);
        }

        fn replace(&self, word: Word, old: u64, new: u64) -> bool {
            self.0[word.index()].compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        }

        fn add(&self, word: Word, count: u64) {
            self.0[word.index()].fetch_add(count, Ordering::SeqCst);
        }

        fn set(&self, word: Word, bits: u64) -> u64 {
            self.0[word.index()].fetch_or(bits, Ordering::SeqCst)
        }

        fn clear(&self, word: Word, bits: u64) -> u64 {
            self.0[word.index()].fetch_and(!bits, Ordering::SeqCst)
        }
    }
}
