//! The sets of counters, and which of them is a thread's.
//!
//! A thread's set is chosen by its thread pointer, which the C library keeps in `fs:0` on x86-64: one load, also for the
//! exports, which count in assembly. Threads may share a set, so increments are locked; but a locked increment of a line that
//! this processor already has costs five nanoseconds, and of one that another has had last, fifty.

use std::arch::asm;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use crate::api::COUNT;
use crate::ground::counters::{StreamKind, Work};
use crate::ground::hashing::MULTIPLIER;
use crate::ground::outcome::Reason;

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
    /// Work that waited in any way, or was asked whether it must.
    pub(super) held_up: AtomicU64,
}

pub(super) static STRIPES: [Stripe; 1 << STRIPE_BITS] = [const { Stripe::new() }; 1 << STRIPE_BITS];

/// Where the calls of the first set are, for the exports: an operand in memory saves them a register.
pub(crate) static CALLS: AtomicPtr<Stripe> = AtomicPtr::new((&raw const STRIPES).cast_mut().cast());

impl Stripe {
    const fn new() -> Self {
        Self {
            calls: [const { AtomicU64::new(0) }; COUNT],
            passed: [const { AtomicU64::new(0) }; Reason::ALL.len()],
            work: [const { [const { AtomicU64::new(0) }; StreamKind::ALL.len()] }; Work::ALL.len()],
            held_up: AtomicU64::new(0),
        }
    }

    /// The calling thread's.
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
        let Self { calls, passed, work, held_up } = self;
        calls.iter().chain(passed).chain(work.as_flattened()).chain([held_up])
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
        // By chance alone, all would come to one set once in 268 million times.
        assert!(sets.len() > 1, "{sets:?}");
    }
}
