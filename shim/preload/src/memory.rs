//! Memory of the shim's own. What it allocates lies apart from what the application allocates.
//!
//! Blocks of the shim's between those of the application change how fast the C library finds memory for the application: genuine
//! libraries lost 5 % by that (`docs/benchmarks.md`). So the C library is asked only where nothing better is there.
//!
//! | allocation | served by |
//! | --- | --- |
//! | of [`LARGE`] bytes or more | pages of the system's, mapped for it alone |
//! | smaller | the [`heap`], if no other thread is in it and it has space, else the C library |
//! | any, if there is no memory for it | the [`reserve`] |
//!
//! Rust aborts a process in which an infallible allocation fails, and the shim must never end a process. So its small allocations
//! are then served from the reserve. Allocations of any size are not (the arguments of a call, a table of kernels, an image). They
//! use `try_reserve` or [`can_allocate`] first; if that fails, the call waits in place. While the reserve is in use nothing more
//! is deferred ([`is_short`]), so queues and their records do not grow. What they have already taken from the reserve stays
//! there as long as they need it, and a deferred call's part until it was launched.
//!
//! No thread waits for another one here. So a fork needs no handler: a child whose parent had another thread in the heap finds it
//! taken for ever, and goes on with the C library's memory, which that makes usable in a child. A signal handler that has interrupted
//! an allocation goes on in the same way.

mod heap;
mod refusal;
mod reserve;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use heap::Heap;
#[cfg(feature = "test-switches")]
pub use refusal::log_refused;
use reserve::Reserve;

/// From this size on, an allocation has pages of its own, as in the C library. The size alone says which have.
const LARGE: usize = 128 << 10;

/// No alignment is larger for an allocation with pages of its own.
const PAGE: usize = 4096;

static HEAP: Heap = Heap::new();
static RESERVE: Reserve = Reserve::new();

/// The allocator of a shim: `#[global_allocator]` of its library.
pub struct OwnMemory;

/// Whether the system can give this many bytes now.
pub fn can_allocate(bytes: usize) -> bool {
    let Ok(layout) = Layout::from_size_align(bytes.max(1), 1) else { return false };
    // SAFETY: memory of this size, given back once.
    unsafe {
        let memory = allocate(layout);
        if memory.is_null() {
            return false;
        }
        OwnMemory.dealloc(std::hint::black_box(memory), layout);
    }
    true
}

/// Zeroed memory that is kept for good, never from the reserve. None if there is none.
pub fn keep<T>() -> Option<&'static mut std::mem::MaybeUninit<T>> {
    // SAFETY: the layout of a type that is not empty, and the memory is large enough.
    unsafe {
        let memory = allocate(Layout::new::<T>());
        if memory.is_null() {
            return None;
        }
        ptr::write_bytes(memory, 0, size_of::<T>());
        memory.cast::<std::mem::MaybeUninit<T>>().as_mut()
    }
}

/// Whether anything lies in the reserve: memory is short.
pub fn is_short() -> bool {
    RESERVE.is_in_use()
}

/// Whether this memory is part of the reserve.
pub fn is_reserve<T>(memory: &[T]) -> bool {
    RESERVE.holds(memory.as_ptr().cast())
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// Memory that is not the reserve's; null if there is none.
///
/// # Safety
/// The layout's size must not be zero.
unsafe fn allocate(layout: Layout) -> *mut u8 {
    if refusal::refuses() {
        return ptr::null_mut();
    }
    if is_large(layout) {
        return map(layout.size());
    }
    let memory = HEAP.allocate(layout);
    // SAFETY: the caller's promise.
    if memory.is_null() { unsafe { System.alloc(layout) } } else { memory }
}

/// The same memory with another size, where that needs no copy by the shim; null if it does, or there is none.
///
/// # Safety
/// As of [`GlobalAlloc::realloc`], and the memory must not be the reserve's.
unsafe fn resize(memory: *mut u8, layout: Layout, new: Layout) -> *mut u8 {
    if refusal::refuses() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise; sizes and addresses say whose memory it is.
    unsafe {
        match (is_large(layout), is_large(new)) {
            (true, true) => remap(memory, layout.size(), new.size()),
            (false, false) if HEAP.holds(memory) => HEAP.resize(memory, layout, new.size()),
            (false, false) => System.realloc(memory, layout, new.size()),
            _ => ptr::null_mut(),
        }
    }
}

fn map(size: usize) -> *mut u8 {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new pages at an address of the kernel's choice.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), size, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { ptr::null_mut() } else { mapped.cast() }
}

/// # Safety
/// The memory must be of [`map`] with this size.
unsafe fn remap(memory: *mut u8, size: usize, new_size: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::mremap(memory.cast(), size, new_size, libc::MREMAP_MAYMOVE) };
    if mapped == libc::MAP_FAILED { ptr::null_mut() } else { mapped.cast() }
}

// SAFETY: memory is the system's, the heap's, the C library's or a part of the reserve, and has one owner until it was given back to
// where it came from. Sizes and addresses say where that is.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let memory = unsafe { allocate(layout) };
        if memory.is_null() { RESERVE.take(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise; the memory is as large as the layout says.
        unsafe {
            let memory = self.alloc(layout);
            // The system's pages are zeroed.
            if !memory.is_null() && (!is_large(layout) || RESERVE.holds(memory)) {
                ptr::write_bytes(memory, 0, layout.size());
            }
            memory
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if RESERVE.holds(memory) {
            RESERVE.give_back();
        } else if is_large(layout) {
            // SAFETY: the caller's promise, about memory of `map`.
            unsafe { libc::munmap(memory.cast(), layout.size()) };
        } else if HEAP.holds(memory) {
            // SAFETY: the caller's promise, about memory of the heap.
            unsafe { HEAP.give_back(memory) };
        } else {
            // SAFETY: the caller's promise, about memory of the C library.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise. What is not resized in its place moves to new memory of the new size, aligned alike, and the
        // old memory is given back, once.
        unsafe {
            let new = Layout::from_size_align_unchecked(new_size, layout.align());
            if !RESERVE.holds(memory) {
                let resized = resize(memory, layout, new);
                if !resized.is_null() {
                    return resized;
                }
            }
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(memory, moved, layout.size().min(new_size));
                self.dealloc(memory, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests;
