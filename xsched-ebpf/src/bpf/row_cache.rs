//! Recently found unwind rows, by address: stacks contain the same addresses again and again, and finding a row takes two searches
//! through memory that is often cold.
//!
//! The row of an address stays the same while the generation of a process's mappings does. A generation belongs to one process and its
//! children with the same mappings. An element is valid if its check word matches: an element that two threads write at once matches
//! nothing.

use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use xsched_abi::chain::mix;

#[map]
static FOUND: Array<Found> = Array::with_max_entries(1 << FOUND_BITS, 0);

const FOUND_BITS: u32 = 13;

/// A row that was found.
#[derive(Clone, Copy)]
#[repr(C)]
struct Found {
    address: u64,
    generation: u64,
    row: u64,
    check: u64,
}

/// The row for an address, if it was found before.
#[inline(always)]
pub(crate) fn find(generation: u64, address: u64) -> Option<u64> {
    let found = FOUND.get_ptr(index(generation, address))?;
    // SAFETY: the map owns the element; a value that a writer changes meanwhile does not match. Volatile, so that the row that
    // is checked is the row that is used.
    let found = unsafe { core::ptr::read_volatile(found) };
    let fits = found.address == address
        && found.generation == generation
        && found.check == check(generation, address, found.row);
    if fits { Some(found.row) } else { None }
}

/// Remembers a row. The generation of the mappings must not have changed during the search.
#[inline(always)]
pub(crate) fn store(generation: u64, address: u64, row: u64) {
    if let Some(found) = FOUND.get_ptr_mut(index(generation, address)) {
        let new = Found { address, generation, row, check: check(generation, address, row) };
        // SAFETY: the map owns the element; the result of a race is not valid.
        unsafe { core::ptr::write_volatile(found, new) };
    }
}

#[inline(always)]
fn index(generation: u64, address: u64) -> u32 {
    (mix(generation, address) >> (u64::BITS - FOUND_BITS)) as u32
}

#[inline(always)]
fn check(generation: u64, address: u64, row: u64) -> u64 {
    mix(mix(generation, row), address)
}
