//! State that a forked child replaces.
//!
//! A fork copies locks in the state that other threads had them in, and the child has none of these threads. State with
//! locks is therefore behind a [`Renewable`], which the child points at new state. `process` lists what is renewed.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// State with locks in it, made at its first use, that a forked child can replace. The state that was replaced is never freed.
pub struct Renewable<T>(AtomicPtr<T>);

impl<T: Default> Default for Renewable<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default> Renewable<T> {
    /// Not made yet.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The state, if it was ever used.
    pub fn existing(&self) -> Option<&'static T> {
        // SAFETY: null or leaked by `get`. Acquire pairs with the exchange there.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The state.
    pub fn get(&self) -> &'static T {
        self.existing().unwrap_or_else(|| {
            let made = Box::into_raw(Box::default());
            let first = self.0.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
            if let Err(first) = first {
                // SAFETY: made above, and no other thread has seen it; `first` was leaked as this would have been.
                unsafe {
                    drop(Box::from_raw(made));
                    return &*first;
                }
            }
            // SAFETY: leaked right now.
            unsafe { &*made }
        })
    }

    /// Leaves the state behind; the next use makes a new one.
    pub fn renew(&self) {
        self.0.store(ptr::null_mut(), Ordering::Release);
    }
}
