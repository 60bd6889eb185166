//! Unwind rows that were found lately, by address: stacks lead through the same places again and again, and finding a
//! row takes two searches through memory that is often cold.
//!
//! What a row is found by does not change while the generation of a process's mappings is the same, and a generation
//! belongs to one process and its children that map the same. An element is valid if all its words fit: one that two
//! threads write at once fits nothing.

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
    // SAFETY: the map owns the element; what a writer changes meanwhile does not fit. Volatile, so that the row that is
    // checked is the row that is used.
    let found = unsafe { core::ptr::read_volatile(found) };
    let fits = found.address == address
        && found.generation == generation
        && found.check == check(generation, address, found.row);
    if fits { Some(found.row) } else { None }
}

/// Remembers a row. It must have been found by mappings that were those of the generation also after the search.
#[inline(always)]
pub(crate) fn store(generation: u64, address: u64, row: u64) {
    if let Some(found) = FOUND.get_ptr_mut(index(generation, address)) {
        let new = Found { address, generation, row, check: check(generation, address, row) };
        // SAFETY: the map owns the element; what a race leaves there is not taken for valid.
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
