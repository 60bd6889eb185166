//! Forked children of a process that has used the library. A child has a copy of everything except the
//! threads that do the work.
//!
//! Nothing that a child waits for would ever happen, and locks held by those threads are never released. So
//! its calls fail before they touch anything, and its exit handlers do nothing: a child that only exits can.

use core::sync::atomic::{AtomicBool, Ordering};

static IS_FORKED_CHILD: AtomicBool = AtomicBool::new(false);

/// Marks later forked children as children of a process that has used the library.
pub(crate) fn watch() {
    extern "C" fn in_child() {
        IS_FORKED_CHILD.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler stores to an atomic. If it cannot be registered for lack of memory, children wait
    // as they would without it.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Whether this process is a forked child of the one that initialised the library.
pub(crate) fn is_forked_child() -> bool {
    IS_FORKED_CHILD.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
