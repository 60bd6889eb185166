//! Addresses for allocations: one reserved range, in which only live allocations are accessible.
//!
//! ```text
//! | block | guard | block | guard | freed | guard | ... never used ...            |
//!   r w     none    r w     none    none    none         none                       inaccessible
//! ```
//!
//! The guards are wider than most strides, and freed addresses are reused only after all others were used. So
//! every fault in the reserved range is an access out of bounds or after free.

use core::ffi::c_void;
use core::ptr;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// At least the size of a page.
const PAGE: usize = 4096;
/// Inaccessible bytes behind each block.
const GUARD: usize = 1 << 20;
/// Sizes to reserve; the first that the process may reserve counts.
const RESERVED: [usize; 4] = [1 << 44, 1 << 41, 1 << 38, 1 << 35];

/// A reserved range of addresses.
pub(crate) struct Arena {
    base: usize,
    size: usize,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    /// Sizes by address.
    blocks: BTreeMap<usize, usize>,
    /// Where the search for a gap starts: behind the newest block.
    cursor: usize,
}

/// Accessible, zeroed memory in whole pages; inaccessible again after it is dropped.
#[derive(Debug)]
pub(crate) struct Block {
    address: usize,
    size: usize,
}

/// The arena of this copy of the library; none if the process may not reserve the addresses.
pub(crate) fn get() -> Option<&'static Arena> {
    static ARENA: OnceLock<Option<Arena>> = OnceLock::new();
    ARENA.get_or_init(|| RESERVED.into_iter().find_map(Arena::reserve)).as_ref()
}

impl Arena {
    fn reserve(size: usize) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        let live = Mutex::new(Live { cursor: base.expose_provenance(), ..Live::default() });
        (base != libc::MAP_FAILED).then(|| Self { base: base.expose_provenance(), size, live })
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().expect("no holder panics")
    }

    /// Takes no lock, because a signal handler calls it.
    pub(crate) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.size
    }

    /// None if the host has no more memory.
    pub(crate) fn allocate(&self, size: usize) -> Option<Block> {
        let size = size.checked_next_multiple_of(PAGE)?;
        let mut live = self.lock();
        let from_cursor = live.cursor..self.base + self.size;
        let address =
            live.gap(from_cursor, size).or_else(|| live.gap(self.base..self.base + self.size, size))?;
        set_access(address, size, libc::PROT_READ | libc::PROT_WRITE).ok()?;
        live.blocks.insert(address, size);
        live.cursor = address + size + GUARD;
        Some(Block { address, size })
    }

    /// Makes a page inaccessible again that a fault has opened, unless it is now part of a block.
    pub(crate) fn close_page(&self, page: usize) {
        let live = self.lock();
        let before = live.blocks.range(..=page).next_back();
        if before.is_none_or(|(address, size)| page >= address + size) {
            discard(page, PAGE);
        }
    }
}

impl Live {
    /// The first gap for a block with its guard.
    fn gap(&self, range: core::ops::Range<usize>, size: usize) -> Option<usize> {
        let needed = size.checked_add(GUARD)?;
        let before = self.blocks.range(..range.start).next_back();
        let mut address = before.map_or(range.start, |(start, size)| range.start.max(start + size + GUARD));
        for (next, next_size) in self.blocks.range(range.start..) {
            if next.saturating_sub(address) >= needed {
                break;
            }
            address = next + next_size + GUARD;
        }
        (address.checked_add(needed)? <= range.end).then_some(address)
    }
}

impl Block {
    pub(crate) fn as_mut_ptr(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.address)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let arena = get().expect("the block comes from the arena");
        let mut live = arena.lock();
        discard(self.address, self.size);
        live.blocks.remove(&self.address);
    }
}

fn set_access(address: usize, size: usize, access: libc::c_int) -> std::io::Result<()> {
    // SAFETY: a range of the arena that the caller owns.
    let result = unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(address), size, access) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Drops the contents and the access. If the kernel refuses, the memory merely stays.
fn discard(address: usize, size: usize) {
    let _ = set_access(address, size, libc::PROT_NONE);
    // SAFETY: as above.
    unsafe { libc::madvise(ptr::with_exposed_provenance_mut(address), size, libc::MADV_DONTNEED) };
}

/// Opens the page of a faulting address, for the signal handler, with one system call and nothing else. It
/// changes the protection instead of mapping a page, so that it does not harm a block that another thread is
/// just allocating there.
pub(super) fn open_page(address: usize) -> usize {
    let page = address & !(PAGE - 1);
    // SAFETY: a page of the arena.
    unsafe {
        libc::mprotect(ptr::with_exposed_provenance_mut(page), PAGE, libc::PROT_READ | libc::PROT_WRITE);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> Arena {
        Arena::reserve(64 << 20).unwrap()
    }

    #[test]
    fn blocks_are_zeroed_separate_and_not_reused_soon() {
        let first = get().unwrap().allocate(100).unwrap();
        // SAFETY: a block has whole pages.
        unsafe { first.as_mut_ptr().cast::<u8>().add(99).write(7) };
        let address = first.address;
        drop(first);
        for _ in 0..100 {
            let block = get().unwrap().allocate(100).unwrap();
            assert_ne!(block.address, address);
            // SAFETY: as above.
            assert_eq!(unsafe { block.as_mut_ptr().cast::<u8>().add(99).read() }, 0);
        }
    }

    #[test]
    fn gaps_are_found_behind_the_newest_block_and_then_from_the_start() {
        let arena = arena();
        let blocks: Vec<_> = core::iter::from_fn(|| arena.allocate(1 << 20)).collect();
        assert_eq!(blocks.len(), 32, "each with a guard as large as itself");
        let freed = blocks[3].address;
        arena.lock().blocks.remove(&freed);
        assert_eq!(arena.allocate(1 << 20).map(|block| block.address), Some(freed));
        assert!(arena.allocate(usize::MAX).is_none());
        blocks.into_iter().for_each(core::mem::forget);
    }
}
