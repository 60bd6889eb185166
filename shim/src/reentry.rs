//! The re-entry guard: HIP calls that a hook itself makes, or the runtime on the same thread, run no hook.

use std::sync::atomic::Ordering;

use crate::outcome::Reason;
use crate::thread;

/// Whether this thread is inside a hook.
#[inline]
pub(crate) fn inside_hook() -> bool {
    thread::own().is_inside_hook.load(Ordering::Relaxed)
}

fn set_inside_hook(is_inside: bool) {
    thread::own().is_inside_hook.store(is_inside, Ordering::Relaxed);
}

fn set_is_shims(is_shims: bool) {
    thread::own().is_shims.store(is_shims, Ordering::Relaxed);
}

/// Marks the calling thread as the shim's own: its HIP calls are passed on without a hook from now on.
pub(crate) fn stay_inside() {
    set_inside_hook(true);
    set_is_shims(true);
}

/// Whether this thread is the shim's own: the application never reads the errors that it leaves with the runtime.
pub(crate) fn is_shims_thread() -> bool {
    thread::own().is_shims.load(Ordering::Relaxed)
}

/// Runs a function of the application's on a thread of the shim's: its HIP calls are the application's.
pub(crate) fn as_application<R>(run: impl FnOnce() -> R) -> R {
    set_inside_hook(false);
    set_is_shims(false);
    let returned = run();
    stay_inside();
    returned
}

/// While it lives, HIP calls of this thread are passed on without a hook.
pub(crate) struct ReentryGuard(());

impl ReentryGuard {
    /// Enters a hook.
    ///
    /// # Errors
    /// The reason for which the call must be passed on without a hook.
    #[inline]
    pub(crate) fn enter() -> Result<Self, Reason> {
        if inside_hook() {
            return Err(Reason::Reentered);
        }
        set_inside_hook(true);
        Ok(Self(()))
    }
}

impl Drop for ReentryGuard {
    #[inline]
    fn drop(&mut self) {
        set_inside_hook(false);
    }
}
