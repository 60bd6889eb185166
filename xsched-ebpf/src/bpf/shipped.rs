//! Which chains user space has: each is shipped once.

use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, LruHashMap};

/// Chains that have been shipped, or are being: [`SHIPPING`] or [`SENT`].
#[map]
static SHIPPED: LruHashMap<u64, u8> = LruHashMap::with_max_entries(1 << 16, 0);

/// A program is about to ship it, and may yet find the ring full.
const SHIPPING: u8 = 1;

/// User space has it.
const SENT: u8 = 2;

/// Chains that user space has, by their ids: fewer than in [`SHIPPED`], and nearer. An id is never used for another chain, and a chain
/// that is to be shipped again gets another id, so an entry stays true.
#[map]
static LATELY: Array<u64> = Array::with_max_entries(LATELY_COUNT, 0);

const LATELY_COUNT: u32 = 1 << 12;

/// `BPF_ANY` and `BPF_NOEXIST`: insert or replace, or fail if the key exists.
const ANY: u64 = 0;
const NOEXIST: u64 = 1;

/// The kernel's number for "exists already".
const EEXIST: i32 = -17;

/// Whether this program has to ship a chain: it has not been shipped and is not being shipped. The caller then calls [`has_sent`] or
/// [`cancel_shipping`].
#[inline(always)]
pub(crate) fn begin_shipping(chain: u64) -> bool {
    if LATELY.get(lately_index(chain)) == Some(&chain) {
        return false;
    }
    match SHIPPED.get_ptr(chain) {
        // SAFETY: the map may give the element to another chain at any time. Then this reads the other chain's state: this one
        // had been shipped long before, or its element would not have been evicted.
        Some(state) if unsafe { *state } == SENT => remember(chain),
        Some(_) => {}
        None => return SHIPPED.insert(chain, SHIPPING, NOEXIST) != Err(EEXIST),
    }
    false
}

/// A chain has been shipped.
#[inline(always)]
pub(crate) fn has_sent(chain: u64) {
    let _ = SHIPPED.insert(chain, SENT, ANY);
}

/// A chain could not be shipped after all.
#[inline(always)]
pub(crate) fn cancel_shipping(chain: u64) {
    let _ = SHIPPED.remove(chain);
}

#[inline(always)]
fn remember(chain: u64) {
    if let Some(known) = LATELY.get_ptr_mut(lately_index(chain)) {
        // SAFETY: the map owns the element, which is written and read whole.
        unsafe { core::ptr::write_volatile(known, chain) };
    }
}

/// The lowest bit of an id is always set.
#[inline(always)]
fn lately_index(chain: u64) -> u32 {
    (chain >> 1) as u32 % LATELY_COUNT
}
