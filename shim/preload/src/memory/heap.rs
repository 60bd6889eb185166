//! A heap in a region of its own: an address says whether it is the heap's.
//!
//! ```text
//!   +------ given out, by dlmalloc ------+------ only reserved ------+
//!   begin                               end                        REGION
//! ```
//!
//! A thread that finds another one in the heap takes memory from elsewhere, and leaves what it gives back to the next one that comes in
//! ([`Heap::left`]). So nothing waits, whatever has become of the thread inside.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::hint;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use dlmalloc::{Allocator, Dlmalloc};

/// Bytes of address space. The kernels of a process with all of PyTorch's libraries take less; what comes behind it is the C library's.
const REGION: usize = 64 << 20;

/// The heap grows by multiples of this.
const STEP: usize = 256 << 10;

/// How often a thread looks whether another one has left the heap: longer than that is in there if nothing interrupts it.
const LOOKS: u32 = 64;

pub(super) struct Heap {
    /// Whether a thread is inside.
    is_taken: AtomicBool,
    /// Where the region begins; zero before the first allocation.
    begin: AtomicUsize,
    /// Blocks that were given back while another thread was inside, each with the address of the next one in it.
    left: AtomicPtr<LeftBlock>,
    blocks: UnsafeCell<Dlmalloc<Region>>,
}

/// The begin of a block that was given back.
struct LeftBlock {
    next: *mut Self,
}

// SAFETY: only the thread that has set `is_taken` uses the blocks.
unsafe impl Sync for Heap {}

impl Heap {
    pub(super) const fn new() -> Self {
        let mut blocks = Dlmalloc::new_with_allocator(Region::new());
        assert!(blocks.set_granularity(STEP), "a power of two");
        // The region keeps what it has given out.
        blocks.set_max_release_check_rate(0);
        Self {
            is_taken: AtomicBool::new(false),
            begin: AtomicUsize::new(0),
            left: AtomicPtr::new(ptr::null_mut()),
            blocks: UnsafeCell::new(blocks),
        }
    }

    /// Whether this memory is the heap's.
    pub(super) fn holds(&self, memory: *const u8) -> bool {
        let begin = self.begin.load(Ordering::Relaxed);
        begin != 0 && memory.addr().wrapping_sub(begin) < REGION
    }

    /// Null if it has none, or another thread is inside.
    pub(super) fn allocate(&self, layout: Layout) -> *mut u8 {
        let taken = self.with_blocks(|blocks| {
            // SAFETY: the heap's own blocks; any size and alignment can be asked for.
            let memory = unsafe { blocks.malloc(layout.size(), layout.align()) };
            // A thread that is given this memory by another one sees the store, as it sees the memory.
            self.begin.store(blocks.allocator().begin.get(), Ordering::Relaxed);
            memory
        });
        taken.unwrap_or(ptr::null_mut())
    }

    /// Gives a block another size, if need be at another place. Null if it has no memory for that, or another thread is inside; then the
    /// block is what it was.
    ///
    /// # Safety
    /// A block of this heap, with the layout that it was asked for.
    pub(super) unsafe fn resize(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let resized = self
            .with_blocks(|blocks| unsafe { blocks.realloc(memory, layout.size(), layout.align(), new_size) });
        resized.unwrap_or(ptr::null_mut())
    }

    /// # Safety
    /// A block of this heap, given back once.
    pub(super) unsafe fn give_back(&self, memory: *mut u8) {
        // SAFETY: the caller's promise.
        if self.with_blocks(|blocks| unsafe { blocks.c_free(memory) }).is_some() {
            return;
        }
        #[expect(clippy::cast_ptr_alignment, reason = "all blocks are aligned for two addresses")]
        let block = memory.cast::<LeftBlock>();
        let mut next = self.left.load(Ordering::Relaxed);
        loop {
            // SAFETY: the block is this thread's until the exchange, and no block is smaller than an address.
            unsafe { block.write(LeftBlock { next }) };
            match self.left.compare_exchange_weak(next, block, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => next = other,
            }
        }
    }

    /// Uses the blocks, unless another thread does.
    fn with_blocks<R>(&self, act: impl FnOnce(&mut Dlmalloc<Region>) -> R) -> Option<R> {
        if !self.enter() {
            return None;
        }
        // SAFETY: this thread alone is inside.
        let blocks = unsafe { &mut *self.blocks.get() };
        if !self.left.load(Ordering::Relaxed).is_null() {
            // All at once: no other thread takes one, so none can come back meanwhile.
            let mut left = self.left.swap(ptr::null_mut(), Ordering::Acquire);
            while !left.is_null() {
                // SAFETY: `give_back` has put blocks there, with the next one in each.
                unsafe {
                    let next = (*left).next;
                    blocks.c_free(left.cast());
                    left = next;
                }
            }
        }
        let result = act(blocks);
        self.is_taken.store(false, Ordering::Release);
        Some(result)
    }

    fn enter(&self) -> bool {
        for _ in 0..LOOKS {
            let is_free = !self.is_taken.load(Ordering::Relaxed);
            if is_free && !self.is_taken.swap(true, Ordering::Acquire) {
                return true;
            }
            hint::spin_loop();
        }
        false
    }
}

/// The address space of a heap, in order.
struct Region {
    /// Zero before the first use.
    begin: Cell<usize>,
    len: Cell<usize>,
}

impl Region {
    const fn new() -> Self {
        Self { begin: Cell::new(0), len: Cell::new(0) }
    }

    /// Takes the address space, if need be. False if the system gives none.
    fn is_there(&self) -> bool {
        if self.begin.get() == 0 {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: new pages at an address of the kernel's choice, which nothing can use yet.
            let mapped = unsafe { libc::mmap(ptr::null_mut(), REGION, libc::PROT_NONE, flags, -1, 0) };
            if mapped != libc::MAP_FAILED {
                self.begin.set(mapped.expose_provenance());
            }
        }
        self.begin.get() != 0
    }
}

// SAFETY: each part of the region is handed out once, as memory that can be used.
unsafe impl Allocator for Region {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let none = (ptr::null_mut(), 0, 0);
        let Some(len) = self.len.get().checked_add(size).filter(|&len| len <= REGION) else { return none };
        if !self.is_there() {
            return none;
        }
        let part = ptr::with_exposed_provenance_mut::<u8>(self.begin.get() + self.len.get());
        // SAFETY: pages of the region that nothing uses yet.
        if unsafe { libc::mprotect(part.cast(), size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return none;
        }
        self.len.set(len);
        (part, size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        super::PAGE
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn an_address_says_whether_memory_is_the_heaps() {
        let heap = Heap::new();
        let other = Box::new(1_u8);
        assert!(!heap.holds(&raw const *other));
        let memory = heap.allocate(layout(100, 64));
        assert!(heap.holds(memory) && memory.addr().is_multiple_of(64));
        assert!(!heap.holds(&raw const *other));
        assert!(!heap.holds(ptr::null()));
    }

    #[test]
    fn a_heap_without_space_has_none_and_has_some_again() {
        let heap = Heap::new();
        let mut all = Vec::new();
        loop {
            let memory = heap.allocate(layout(100_000, 8));
            if memory.is_null() {
                break;
            }
            all.push(memory);
        }
        assert!(all.len() > 9 * REGION / 1_000_000, "{}", all.len());
        let first = all[0];
        for memory in all {
            // SAFETY: a block of the heap, given back once.
            unsafe { heap.give_back(memory) };
        }
        assert_eq!(heap.allocate(layout(100_000, 8)), first);
    }

    #[test]
    fn a_thread_inside_the_heap_stops_no_other_and_what_they_give_back_is_not_lost() {
        let heap: &'static Heap = Box::leak(Box::new(Heap::new()));
        let before = heap.allocate(layout(1000, 8));
        let kept = heap.allocate(layout(1000, 8));
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (came_in, is_inside) = mpsc::channel();
        let inside = thread::spawn(move || {
            heap.with_blocks(|_| {
                came_in.send(()).unwrap();
                may_go_on.recv().unwrap();
            })
        });
        is_inside.recv().unwrap();
        assert!(heap.allocate(layout(10, 8)).is_null());
        // SAFETY: blocks of the heap; the second one keeps its size.
        unsafe {
            heap.give_back(before);
            assert!(heap.resize(kept, layout(1000, 8), 5000).is_null());
        }
        go_on.send(()).unwrap();
        assert!(inside.join().unwrap().is_some());
        assert_eq!(heap.allocate(layout(1000, 8)), before);
    }
}
