//! Atomic operations: for BPF targets `core::sync::atomic` has only loads and stores.

use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd};
use core::sync::atomic::{Ordering, compiler_fence};

/// Adds `count` to `value`.
///
/// # Safety
///
/// `value` must point to memory that stays valid, and is otherwise changed atomically only.
#[inline(always)]
pub(crate) unsafe fn add(value: *mut u64, count: u64) {
    // SAFETY: by the contract above.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(value, count) };
}

/// Replaces `old` by `new`, words of 32 or 64 bits; returns false if the word was not `old`.
///
/// # Safety
///
/// As for [`add`].
#[inline(always)]
pub(crate) unsafe fn replace<T: Copy>(value: *mut T, old: T, new: T) -> bool {
    // SAFETY: by the contract above.
    let (_, replaced) =
        unsafe { atomic_cxchg::<T, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(value, old, new) };
    replaced
}

/// Stores `new` after everything that was written before.
#[inline(always)]
pub(crate) fn store<T: Copy>(value: &mut T, new: T) {
    // A store of an aligned word is atomic, and on the only architecture that these programs run on it comes after earlier stores.
    // Version 3 of the instruction set has no release store; the fence makes the compiler keep the order.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the reference is valid.
    unsafe { core::ptr::write_volatile(value, new) };
}
