//! The sets of counters, and which of them a thread uses.
//!
//! The thread pointer chooses a thread's set. The C library keeps it in `fs:0` on x86-64: one load, also for the
//! exports, which count in assembly. Threads may share a set, so increments are locked. A locked increment costs 5 ns
//! if the line is in this processor's cache already, and 50 ns if another processor had it last.

use std::arch::asm;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use crate::api::COUNT;
use crate::counters::{StreamKind, Work};
use crate::outcome::Reason;
use xsched_preload::hashing::MULTIPLIER;

/// log2 of the number of sets.
pub(crate) const STRIPE_BITS: usize = 4;

/// Bytes of a set, whole cache lines.
pub(crate) const STRIPE_BYTES: usize = size_of::<Stripe>();

/// One set.
#[repr(C, align(128))]
pub(crate) struct Stripe {
    /// Calls of every function, in the order of the list. First: see [`CALLS`].
    pub(super) calls: [AtomicU64; COUNT],
    pub(super) passed: [AtomicU64; Reason::ALL.len()],
    pub(super) work: [[AtomicU64; StreamKind::ALL.len()]; Work::ALL.len()],
    /// Work that waited in any way, or for which that was decided under a lock.
    pub(super) delayed: AtomicU64,
}

pub(super) static STRIPES: [Stripe; 1 << STRIPE_BITS] = [const { Stripe::new() }; 1 << STRIPE_BITS];

/// The address of the calls of the first set, for the exports: an operand in memory saves them a register.
pub(crate) static CALLS: AtomicPtr<Stripe> = AtomicPtr::new((&raw const STRIPES).cast_mut().cast());

impl Stripe {
    const fn new() -> Self {
        Self {
            calls: [const { AtomicU64::new(0) }; COUNT],
            passed: [const { AtomicU64::new(0) }; Reason::ALL.len()],
            work: [const { [const { AtomicU64::new(0) }; StreamKind::ALL.len()] }; Work::ALL.len()],
            delayed: AtomicU64::new(0),
        }
    }

    /// The calling thread's set.
    #[inline]
    pub(super) fn own() -> &'static Self {
        let thread: u64;
        // SAFETY: the ABI has the thread pointer there, for every thread.
        unsafe { asm!("mov {}, fs:0", out(reg) thread, options(nostack, pure, readonly, preserves_flags)) };
        // Stacks of threads lie at equal distances, which this multiplier spreads.
        let hash = thread.wrapping_mul(MULTIPLIER);
        &STRIPES[(hash >> (u64::BITS as usize - STRIPE_BITS)) as usize]
    }

    /// All of its counters.
    pub(super) fn counters(&self) -> impl Iterator<Item = &AtomicU64> {
        let Self { calls, passed, work, delayed } = self;
        calls.iter().chain(passed).chain(work.as_flattened()).chain([delayed])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_run_together_spread_over_the_sets() {
        const THREADS: usize = 8;
        let together = Barrier::new(THREADS);
        let own = || {
            together.wait();
            let own = std::ptr::from_ref(Stripe::own()).addr();
            together.wait();
            assert_eq!(own, std::ptr::from_ref(Stripe::own()).addr(), "a thread keeps its set");
            own
        };
        let sets: HashSet<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(own)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // By chance alone, all threads would use one set once in 268 million runs.
        assert!(sets.len() > 1, "{sets:?}");
    }
}
