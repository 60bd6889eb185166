//! Notices that a thread ends, also where there is no memory.
//!
//! The C library ends the process if it cannot note the destructor of a thread's variable. A key that cannot be had is only an error.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// What is to be done when threads end that have something to give back.
pub struct ThreadEnd {
    /// One more than the C library's key; zero before its first use.
    key: AtomicU32,
    ended: unsafe extern "C" fn(*mut c_void),
}

impl ThreadEnd {
    /// `ended` runs on a thread that ends, with what was noted for it.
    pub const fn new(ended: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self { key: AtomicU32::new(0), ended }
    }

    /// Notes something for the calling thread. False if that is not possible.
    #[must_use]
    pub fn note(&self, what: NonNull<c_void>) -> bool {
        // SAFETY: a key of the shim's own.
        self.key().is_some_and(|key| unsafe { libc::pthread_setspecific(key, what.as_ptr()) == 0 })
    }

    /// Nothing is noted for the calling thread any more.
    pub fn take_back(&self) {
        if let Some(key) = self.key.load(Ordering::Acquire).checked_sub(1) {
            // SAFETY: as above.
            unsafe { libc::pthread_setspecific(key, ptr::null()) };
        }
    }

    fn key(&self) -> Option<u32> {
        if let Some(known) = self.key.load(Ordering::Acquire).checked_sub(1) {
            return Some(known);
        }
        let mut made = 0;
        // SAFETY: the destructor gets what was noted.
        if unsafe { libc::pthread_key_create(&raw mut made, Some(self.ended)) } != 0 {
            return None;
        }
        let Err(first) = self.key.compare_exchange(0, made + 1, Ordering::AcqRel, Ordering::Acquire) else {
            return Some(made);
        };
        // SAFETY: no thread has noted anything for it.
        unsafe { libc::pthread_key_delete(made) };
        Some(first - 1)
    }
}
