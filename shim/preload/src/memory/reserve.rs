//! Memory for when the system has none.
//!
//! ```text
//!   +--------- taken, in order ---------+------- free -------+
//!   0                                  end                  SIZE      all of it is free again when nothing is in use
//! ```

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// More than the shim needs at once, at a call site's first call in a process with many libraries. Pages that are
/// never touched take no memory.
const SIZE: usize = 1 << 20;

#[repr(align(128))]
struct Bytes(UnsafeCell<[u8; SIZE]>);

// SAFETY: each part is handed out to one owner.
unsafe impl Sync for Bytes {}

pub(super) struct Reserve {
    bytes: Bytes,
    /// The end of the part in use, and in the upper half the number of allocations in use.
    state: AtomicU64,
}

const END: u64 = u32::MAX as u64;
const ONE_IN_USE: u64 = 1 << 32;

impl Reserve {
    #[expect(clippy::large_stack_arrays, reason = "of a static: it is in the file's zeroed part")]
    pub(super) const fn new() -> Self {
        Self { bytes: Bytes(UnsafeCell::new([0; SIZE])), state: AtomicU64::new(0) }
    }

    /// Whether anything lies in it.
    pub(super) fn is_in_use(&self) -> bool {
        self.state.load(Ordering::Relaxed) != 0
    }

    /// Whether this memory is part of it.
    pub(super) fn holds(&self, memory: *const u8) -> bool {
        (memory.addr().wrapping_sub(self.bytes.0.get().addr())) < SIZE
    }

    /// Null if the reserve is used up.
    pub(super) fn take(&self, layout: Layout) -> *mut u8 {
        let begin = |state: u64| {
            let end = (state & END) as usize;
            // The reserve itself is aligned to 128, like data that processors share; the shim has no stricter
            // alignment.
            end.checked_next_multiple_of(layout.align()).filter(|_| layout.align() <= align_of::<Bytes>())
        };
        let taken = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            let end = begin(state)?.checked_add(layout.size()).filter(|&end| end <= SIZE)?;
            Some((state & !END) + ONE_IN_USE + end as u64)
        });
        match taken.ok().and_then(begin) {
            Some(begin) => self.bytes.0.get().cast::<u8>().wrapping_add(begin),
            None => ptr::null_mut(),
        }
    }

    /// Gives one allocation back.
    pub(super) fn give_back(&self) {
        // The last allocation frees all of the reserve.
        let next = |state: u64| if state >> 32 == 1 { 0 } else { state - ONE_IN_USE };
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| Some(next(state)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve() -> Box<Reserve> {
        // SAFETY: zeroes are an empty reserve; a test thread's stack is too small for one.
        unsafe { Box::new_zeroed().assume_init() }
    }

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn allocations_are_aligned_and_do_not_overlap() {
        let reserve = reserve();
        let first = reserve.take(layout(3, 1));
        let second = reserve.take(layout(64, 16));
        assert!(reserve.holds(first) && reserve.holds(second));
        assert_eq!((second.addr() % 16, second.addr() - first.addr()), (0, 16));
        assert!(!reserve.holds((&raw const *reserve).wrapping_add(1).cast()));
    }

    #[test]
    fn the_reserve_is_free_again_when_nothing_is_in_use() {
        let reserve = reserve();
        let half = layout(SIZE / 2, 8);
        let (first, second) = (reserve.take(half), reserve.take(half));
        assert!(!first.is_null() && !second.is_null());
        assert!(reserve.take(layout(1, 1)).is_null(), "used up");
        reserve.give_back();
        assert!(reserve.take(layout(1, 1)).is_null(), "something is in use");
        reserve.give_back();
        assert_eq!(reserve.take(half), first);
    }

    #[test]
    fn allocations_that_do_not_fit_are_refused() {
        let reserve = reserve();
        assert!(reserve.take(layout(SIZE + 1, 1)).is_null());
        assert!(reserve.take(layout(8, 4096)).is_null());
        assert_eq!(reserve.state.load(Ordering::Relaxed), 0);
    }
}
