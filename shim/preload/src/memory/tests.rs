use super::*;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Memory of this size with the byte 7 at its third place.
fn marked(size: usize) -> *mut u8 {
    // SAFETY: memory of this size.
    unsafe {
        let memory = OwnMemory.alloc(layout(size, 4));
        memory.add(3).write(7);
        memory
    }
}

#[test]
fn contents_stay_when_memory_grows_and_shrinks_across_all_kinds() {
    let sizes = [4, 400, 40_000, LARGE - 1, LARGE, 4 * LARGE, 20 * LARGE, LARGE, LARGE - 1, 8, LARGE, 4];
    let mut memory = marked(sizes[0]);
    // SAFETY: memory of this allocator with these layouts, given back once.
    unsafe {
        for pair in sizes.windows(2) {
            memory = OwnMemory.realloc(memory, layout(pair[0], 4), pair[1]);
            assert_eq!(memory.add(3).read(), 7, "from {} to {}", pair[0], pair[1]);
            assert_eq!(HEAP.holds(memory), pair[1] < LARGE, "{}", pair[1]);
            memory.add(pair[1] - 1).write(if pair[1] == 4 { 7 } else { 1 });
        }
        OwnMemory.dealloc(memory, layout(*sizes.last().unwrap(), 4));
    }
}

#[test]
fn memory_moves_out_of_the_reserve_when_it_grows() {
    let small = RESERVE.take(layout(4, 4));
    assert!(is_short());
    // SAFETY: memory of this allocator with this layout, given back once.
    unsafe {
        small.add(3).write(7);
        let grown = OwnMemory.realloc(small, layout(4, 4), 400);
        assert_eq!((grown.add(3).read(), RESERVE.holds(grown)), (7, false));
        OwnMemory.dealloc(grown, layout(400, 4));
    }
    assert!(!is_short());
}

#[test]
fn zeroed_memory_is_zeroed_also_where_it_was_used_before() {
    for size in [100, 2 * LARGE] {
        // SAFETY: memory of this allocator with this layout, given back once.
        unsafe {
            let used = OwnMemory.alloc(layout(size, 8));
            used.write_bytes(1, size);
            OwnMemory.dealloc(used, layout(size, 8));
            let zeroed = OwnMemory.alloc_zeroed(layout(size, 8));
            assert!(std::slice::from_raw_parts(zeroed, size).iter().all(|&byte| byte == 0));
            OwnMemory.dealloc(zeroed, layout(size, 8));
        }
    }
}

#[test]
fn memory_that_no_system_has_is_refused() {
    assert!(can_allocate(0) && can_allocate(100 << 20));
    assert!(!can_allocate(1 << 60) && !can_allocate(usize::MAX));
    assert!(!is_short());
}

#[test]
fn a_child_of_a_thread_that_is_not_alone_has_memory() {
    let busy = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while busy.load(std::sync::atomic::Ordering::Relaxed) {
                    drop(std::hint::black_box(marked_box()));
                }
            });
        }
        for _ in 0..200 {
            // SAFETY: the child makes no calls but of this allocator and `_exit`.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    for _ in 0..100 {
                        drop(marked_box());
                    }
                    libc::_exit(0);
                }
                let mut status = 1;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert_eq!(status, 0);
            }
        }
        busy.store(false, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Memory that gives itself back.
struct Marked(*mut u8);

fn marked_box() -> Marked {
    Marked(marked(100))
}

impl Drop for Marked {
    fn drop(&mut self) {
        // SAFETY: memory of this allocator with this layout, given back once.
        unsafe {
            assert_eq!(self.0.add(3).read(), 7);
            OwnMemory.dealloc(self.0, layout(100, 4));
        }
    }
}
