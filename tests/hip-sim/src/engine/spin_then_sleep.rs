//! Locks for critical sections of about a microsecond: a thread that finds one taken retries for a while
//! before it sleeps.
//!
//! The standard library's mutex sleeps as soon as another thread was quicker, and a thread that submits
//! command after command is quicker again and again. A sleeping thread is late by tens of microseconds on a
//! virtual machine, and so is the thread that must wake it. That shows as gaps on a timeline of short
//! kernels, which hardware does not have.

use std::hint;
use std::sync::{Mutex, MutexGuard};

/// About ten microseconds: the length of a burst of launches.
const ATTEMPTS: u32 = 250;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..ATTEMPTS {
        if let Ok(guard) = mutex.try_lock() {
            return guard;
        }
        hint::spin_loop();
    }
    mutex.lock().expect("no holder panics")
}
