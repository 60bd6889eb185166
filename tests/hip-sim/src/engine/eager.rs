//! Locks that are held for a microsecond: whoever finds one taken looks again for a while before it sleeps.
//!
//! The standard library's sleeps as soon as somebody else was quicker, and whoever submits command after command is quicker again
//! and again. A thread that sleeps is late by tens of microseconds on a virtual machine, and so is the one that has to wake it,
//! which shows as gaps on a timeline of short kernels: hardware has no such threads.

use std::hint;
use std::sync::{Mutex, MutexGuard};

/// Some ten microseconds: as long as a burst of launches takes.
const LOOKS: u32 = 250;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        if let Ok(guard) = mutex.try_lock() {
            return guard;
        }
        hint::spin_loop();
    }
    mutex.lock().expect("no holder panics")
}
