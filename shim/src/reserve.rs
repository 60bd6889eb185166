//! The shim's memory: the C library's, and a reserve for when the C library has none.
//!
//! Rust aborts a process in which an infallible allocation fails, and the shim must never end a process. So its small allocations
//! are then served from a reserve. Allocations of any size are not (the arguments of a call, a table of kernels, an image). They
//! use `try_reserve` or [`can_allocate`] first; if that fails, the call waits in place. While the reserve is in use nothing more
//! is deferred ([`is_in_use`]), so queues and their records do not grow. What they have already taken from the reserve stays
//! there as long as they need it, and a deferred call's part until it was launched.
//!
//! ```text
//!   +--------- taken, in order ---------+------- free -------+
//!   0                                  end                  SIZE      all of it is free again when nothing is in use
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// More than the shim needs at once, at a call site's first call in a process with many libraries. Pages that are
/// never touched take no memory.
const SIZE: usize = 1 << 20;

#[global_allocator]
static ALLOCATOR: Reserved = Reserved::new();

/// Whether the system can give this many bytes now.
pub(crate) fn can_allocate(bytes: usize) -> bool {
    // SAFETY: memory that is given back at once.
    unsafe {
        let memory = libc::malloc(bytes.max(1));
        libc::free(std::hint::black_box(memory));
        !memory.is_null()
    }
}

/// Whether anything lies in the reserve: memory is short.
pub(crate) fn is_in_use() -> bool {
    ALLOCATOR.state.load(Ordering::Relaxed) != 0
}

/// Whether this memory is part of the reserve.
pub(crate) fn holds<T>(memory: &[T]) -> bool {
    ALLOCATOR.holds(memory.as_ptr().cast())
}

#[repr(align(128))]
struct Bytes(UnsafeCell<[u8; SIZE]>);

// SAFETY: each part is handed out to one owner.
unsafe impl Sync for Bytes {}

struct Reserved {
    bytes: Bytes,
    /// The end of the part in use, and in the upper half the number of allocations in use.
    state: AtomicU64,
}

const END: u64 = u32::MAX as u64;
const ONE_IN_USE: u64 = 1 << 32;

impl Reserved {
    #[expect(clippy::large_stack_arrays, reason = "of a static: it is in the file's zeroed part")]
    const fn new() -> Self {
        Self { bytes: Bytes(UnsafeCell::new([0; SIZE])), state: AtomicU64::new(0) }
    }

    fn holds(&self, memory: *const u8) -> bool {
        (memory.addr().wrapping_sub(self.bytes.0.get().addr())) < SIZE
    }

    /// Null if the reserve is used up.
    fn take(&self, layout: Layout) -> *mut u8 {
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

    fn give_back(&self) {
        // The last allocation frees all of the reserve.
        let next = |state: u64| if state >> 32 == 1 { 0 } else { state - ONE_IN_USE };
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| Some(next(state)));
    }
}

// SAFETY: memory is the system's, or a part of the reserve that has one owner until it was given back.
unsafe impl GlobalAlloc for Reserved {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { self.take(layout) } else { memory }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if self.holds(memory) {
            self.give_back();
        } else {
            // SAFETY: the caller's promise, about memory of the system's allocator.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise, about memory of the system's allocator. Otherwise the contents move to new
        // memory of the new size, aligned alike, and the old memory is given back, once.
        unsafe {
            if !self.holds(memory) {
                let moved = System.realloc(memory, layout, new_size);
                if !moved.is_null() {
                    return moved;
                }
            }
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(memory, moved, layout.size().min(new_size));
                self.dealloc(memory, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve() -> Box<Reserved> {
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

    #[test]
    fn memory_moves_out_of_the_reserve_when_it_grows() {
        let reserve = reserve();
        let small = reserve.take(layout(4, 4));
        // SAFETY: memory of this allocator with this layout, given back once.
        unsafe {
            small.add(3).write(7);
            let grown = reserve.realloc(small, layout(4, 4), 400);
            assert_eq!((grown.add(3).read(), reserve.holds(grown)), (7, false));
            reserve.dealloc(grown, layout(400, 4));
        }
        assert_eq!(reserve.state.load(Ordering::Relaxed), 0);
    }
}
