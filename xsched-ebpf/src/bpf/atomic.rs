//! Atomic operations: `core::sync::atomic` has none for BPF targets but loads and stores.

use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd};
use core::sync::atomic::{Ordering, compiler_fence};

/// Adds `count` to `value`.
///
/// # Safety
///
/// `value` points to memory that lives on, and is otherwise changed atomically only.
#[inline(always)]
pub(crate) unsafe fn add(value: *mut u64, count: u64) {
    // SAFETY: as the caller promises.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(value, count) };
}

/// Puts `new` in the place of `old`, words of 32 or 64 bits; false if something else was there.
///
/// # Safety
///
/// As for [`add`].
#[inline(always)]
pub(crate) unsafe fn replace<T: Copy>(value: *mut T, old: T, new: T) -> bool {
    // SAFETY: as the caller promises.
    let (_, replaced) =
        unsafe { atomic_cxchg::<T, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(value, old, new) };
    replaced
}

/// Stores `new` after everything that was written before.
#[inline(always)]
pub(crate) fn store<T: Copy>(value: &mut T, new: T) {
    // A store of an aligned word is atomic, and comes after earlier ones on the only architecture that these programs
    // run on. Version 3 of the instruction set has no releasing store; the fence keeps the compiler to the order.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the reference is valid.
    unsafe { core::ptr::write_volatile(value, new) };
}
