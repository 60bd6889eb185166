//! The sets of counters. Each thread that makes calls has one for itself, so it counts without a lock: a locked increment costs 5 ns,
//! and 50 if another processor has counted there last.
//!
//! ```text
//!   ALL ---> set ---> set ---> set        every set that was ever made; a reader adds them up
//!   FREE ------------> set                those whose threads have ended, for the next ones: what they have counted stays
//!   SHARED                                counts of threads without a set, locked
//! ```
//!
//! Sets are never freed, so there are as many as there were threads at the same time. A thread has none if there is no memory for one,
//! or once it has ended as far as the C library tells: destructors that run after the shim's can still make calls.

use std::arch::asm;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use xsched_preload::memory;
use xsched_preload::thread_end::ThreadEnd;

use crate::api::COUNT;
use crate::counters::{StreamKind, Work};
use crate::outcome::Reason;
use crate::thread;

/// One set.
#[repr(C, align(128))]
pub(crate) struct CounterSet {
    /// Calls of every function, in the order of the list. First: the code of exports and tables' entries counts here.
    pub(super) calls: [AtomicU64; COUNT],
    pub(super) passed: [AtomicU64; Reason::ALL.len()],
    pub(super) work: [[AtomicU64; StreamKind::ALL.len()]; Work::ALL.len()],
    /// Work that waited in any way, or for which that was decided under a lock.
    pub(super) delayed: AtomicU64,
    /// Among all sets.
    next: AtomicPtr<Self>,
    /// Among those that are free.
    next_free: AtomicPtr<Self>,
}

const _: () = assert!(std::mem::offset_of!(CounterSet, calls) == 0);

/// Where a set counts this work on the first kind of stream; the others follow.
pub(crate) const fn work_offset(work: Work) -> usize {
    std::mem::offset_of!(CounterSet, work) + 8 * StreamKind::ALL.len() * work as usize
}

/// Where a set counts the calls that had nothing to wait for.
pub(crate) const NOTHING_DEFERRED: usize =
    std::mem::offset_of!(CounterSet, passed) + 8 * Reason::NothingDeferred as usize;

static ALL: AtomicPtr<CounterSet> = AtomicPtr::new(ptr::null_mut());
static FREE: FreeSets = FreeSets(AtomicU64::new(0));
static SHARED: CounterSet = CounterSet::new();

impl CounterSet {
    const fn new() -> Self {
        Self {
            calls: [const { AtomicU64::new(0) }; COUNT],
            passed: [const { AtomicU64::new(0) }; Reason::ALL.len()],
            work: [const { [const { AtomicU64::new(0) }; StreamKind::ALL.len()] }; Work::ALL.len()],
            delayed: AtomicU64::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            next_free: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The calling thread's set; None if it has none.
    #[inline]
    fn own() -> Option<&'static Self> {
        // SAFETY: null, or a set, which is never freed.
        unsafe { thread::own().counters.load(Ordering::Relaxed).cast::<Self>().as_ref() }.or_else(claim)
    }

    /// All of its counters.
    fn counters(&self) -> impl Iterator<Item = &AtomicU64> {
        let Self { calls, passed, work, delayed, next: _, next_free: _ } = self;
        calls.iter().chain(passed).chain(work.as_flattened()).chain([delayed])
    }
}

/// Counts one up, for the calling thread.
#[inline]
pub(super) fn bump(counter: impl Fn(&CounterSet) -> &AtomicU64) {
    change::<1>(counter);
}

/// Counts one down. That may take a thread's set below zero, where another thread has counted up; the sum is still right.
#[inline]
pub(super) fn take_back(counter: impl Fn(&CounterSet) -> &AtomicU64) {
    change::<-1>(counter);
}

#[inline]
fn change<const BY: i64>(counter: impl Fn(&CounterSet) -> &AtomicU64) {
    if let Some(set) = CounterSet::own() {
        // SAFETY: a counter of this thread's. One instruction, so a signal handler counts before or after it.
        unsafe {
            asm!("add qword ptr [{}], {by}", in(reg) counter(set).as_ptr(), by = const BY, options(nostack));
        }
    } else {
        counter(&SHARED).fetch_add(BY.cast_unsigned(), Ordering::Relaxed);
    }
}

/// What all threads have counted so far, ended ones included.
pub(super) fn sum(counter: impl Fn(&'static CounterSet) -> &'static AtomicU64) -> u64 {
    all().chain([&SHARED]).map(|set| counter(set).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
}

/// In a forked child: nothing is counted, and its one thread keeps its set.
pub(super) fn reset() {
    FREE.0.store(0, Ordering::Relaxed);
    let own = thread::own().counters.load(Ordering::Relaxed).cast();
    for set in all().chain([&SHARED]) {
        set.counters().for_each(|counter| counter.store(0, Ordering::Relaxed));
        if !ptr::eq(set, own) && !ptr::eq(set, &raw const SHARED) {
            FREE.push(set);
        }
    }
}

fn all() -> impl Iterator<Item = &'static CounterSet> {
    // SAFETY: null or a set, which is never freed. Acquire pairs with the exchange in `made`.
    let of = |next: &AtomicPtr<CounterSet>| unsafe { next.load(Ordering::Acquire).as_ref() };
    std::iter::successors(of(&ALL), move |set| of(&set.next))
}

/// Finds a set for the calling thread, once: also a signal handler meanwhile has none.
#[cold]
#[inline(never)]
fn claim() -> Option<&'static CounterSet> {
    let words = thread::own();
    if words.has_asked_for_counters.load(Ordering::Relaxed) {
        return None;
    }
    words.has_asked_for_counters.store(true, Ordering::Relaxed);
    let set = FREE.pop().or_else(made)?;
    if !END.note(NonNull::from(set).cast()) {
        FREE.push(set);
        return None;
    }
    words.counters.store(ptr::from_ref(set).cast_mut().cast(), Ordering::Relaxed);
    Some(set)
}

/// A new set, among all; None if there is no memory.
fn made() -> Option<&'static CounterSet> {
    // SAFETY: zeroes are an empty set.
    let set: &'static CounterSet = unsafe { memory::keep()?.assume_init_mut() };
    let mut next = ALL.load(Ordering::Relaxed);
    loop {
        set.next.store(next, Ordering::Relaxed);
        let own = ptr::from_ref(set).cast_mut();
        match ALL.compare_exchange_weak(next, own, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return Some(set),
            Err(other) => next = other,
        }
    }
}

/// A thread's end.
static END: ThreadEnd = ThreadEnd::new(thread_ended);

/// The calling thread ends. Calls that it still makes are counted with others'.
unsafe extern "C" fn thread_ended(set: *mut c_void) {
    thread::own().counters.store(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: the set that `claim` has noted.
    FREE.push(unsafe { &*set.cast::<CounterSet>() });
}

/// A stack of sets: the address of the first one, and how often the stack has changed. So a thread that has read the second one's address
/// does not put it first after the first one was taken and came back.
struct FreeSets(AtomicU64);

/// Addresses have 47 bits, of which seven are zero here.
const ADDRESS_SHIFT: u32 = 16;
const CHANGES: u64 = (align_of::<CounterSet>() as u64) << ADDRESS_SHIFT;

impl FreeSets {
    fn first(state: u64) -> *mut CounterSet {
        ptr::with_exposed_provenance_mut(((state & !(CHANGES - 1)) >> ADDRESS_SHIFT) as usize)
    }

    fn changed(state: u64, first: *mut CounterSet) -> u64 {
        ((first.expose_provenance() as u64) << ADDRESS_SHIFT) | (state.wrapping_add(1) & (CHANGES - 1))
    }

    fn push(&self, set: &'static CounterSet) {
        let set = ptr::from_ref(set).cast_mut();
        // The next owner sees what was counted: release here, acquire there.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            // SAFETY: sets are never freed, and no other thread has this one.
            unsafe { (*set).next_free.store(Self::first(state), Ordering::Relaxed) };
            Some(Self::changed(state, set))
        });
    }

    fn pop(&self) -> Option<&'static CounterSet> {
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            // SAFETY: null or a set, which is never freed.
            let first = unsafe { Self::first(state).as_ref() }?;
            Some(Self::changed(state, first.next_free.load(Ordering::Relaxed)))
        });
        // SAFETY: as above.
        before.ok().and_then(|state| unsafe { Self::first(state).as_ref() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// What one test alone counts.
    fn counted(id: usize) -> u64 {
        sum(|set| &set.calls[id])
    }

    fn number_of_sets() -> usize {
        all().count()
    }

    #[test]
    fn counts_of_thousands_of_threads_are_exact_and_need_few_sets() {
        const TOGETHER: usize = 20;
        let before = (counted(1), number_of_sets());
        for _ in 0..200 {
            let all_there = Barrier::new(TOGETHER);
            thread::scope(|scope| {
                for _ in 0..TOGETHER {
                    scope.spawn(|| {
                        all_there.wait();
                        (0..50).for_each(|_| bump(|set| &set.calls[1]));
                        (0..20).for_each(|_| take_back(|set| &set.calls[1]));
                    });
                }
            });
        }
        assert_eq!(counted(1) - before.0, 200 * TOGETHER as u64 * 30);
        // A thread may be joined a little before its set is given back.
        let made = number_of_sets() - before.1;
        assert!(made <= 4 * TOGETHER, "{made} sets for {TOGETHER} threads at a time");
    }

    #[test]
    fn a_thread_that_has_ended_for_the_c_library_counts_with_others() {
        let before = counted(2);
        thread::spawn(|| {
            bump(|set| &set.calls[2]);
            let own = crate::thread::own().counters.load(Ordering::Relaxed);
            // At its real end, nothing is left to be given back.
            END.take_back();
            // SAFETY: what the C library does when a thread ends.
            unsafe { thread_ended(own) };
            bump(|set| &set.calls[2]);
            assert!(CounterSet::own().is_none());
        })
        .join()
        .unwrap();
        assert_eq!(counted(2) - before, 2);
    }

    #[test]
    fn a_child_counts_from_zero_and_has_the_sets_of_threads_that_it_lacks() {
        let all_there = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    bump(|set| &set.calls[3]);
                    all_there.wait();
                    all_there.wait();
                });
            }
            bump(|set| &set.calls[3]);
            all_there.wait();
            // SAFETY: the child makes no calls that need anything of other threads.
            let child = unsafe { libc::fork() };
            if child == 0 {
                reset();
                bump(|set| &set.calls[3]);
                let is_exact = counted(3) == 1;
                let sets = number_of_sets();
                let others = (1..sets).all(|_| FREE.pop().is_some()) && FREE.pop().is_none();
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(!(is_exact && others))) };
            }
            let mut status = 1;
            // SAFETY: the variable lives until it was written.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            all_there.wait();
            assert_eq!(status, 0);
        });
    }
}
