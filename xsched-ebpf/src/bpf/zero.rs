//! Clearing memory a word at a time.
//!
//! The compiler turns stores of adjacent zeros into calls of `memset`, which is a loop over bytes here. To clear the initial
//! state of a walk took as long as five frames.

use core::mem::MaybeUninit;
use zerocopy::FromZeros;

/// Clears a word.
#[inline(always)]
pub(crate) fn word<T: Word>(word: &mut T) {
    // SAFETY: the reference is valid. Volatile, so that it stays a store of its own.
    unsafe { core::ptr::write_volatile(word, T::ZERO) };
}

/// Clears an array of words.
#[inline(always)]
pub(crate) fn words<T: Word, const N: usize>(words: &mut [T; N]) {
    for index in 0..N {
        word(&mut words[index]);
    }
}

/// A value of zeros in uninitialized memory.
#[inline(always)]
pub(crate) fn cleared<T: FromZeros>(memory: &mut MaybeUninit<T>) -> &mut T {
    const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() == 8, "it is made of words") }
    let words = memory.as_mut_ptr().cast::<u64>();
    for index in 0..size_of::<T>() / 8 {
        // SAFETY: the memory has that many words, and is aligned like them. Volatile as above.
        unsafe { core::ptr::write_volatile(words.add(index), 0) };
    }
    // SAFETY: zeros are a valid value.
    unsafe { memory.assume_init_mut() }
}

/// A type that one instruction clears.
pub(crate) trait Word {
    const ZERO: Self;
}

impl Word for u32 {
    const ZERO: Self = 0;
}

impl Word for u64 {
    const ZERO: Self = 0;
}
