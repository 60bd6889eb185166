//! The re-entry guard: HIP calls that a hook itself makes, or the runtime on the same thread, run no hook.

use std::cell::Cell;

use crate::outcome::Reason;

thread_local! {
    static INSIDE_HOOK: Cell<bool> = const { Cell::new(false) };
    static IS_SHIMS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a hook.
pub(crate) fn inside_hook() -> bool {
    INSIDE_HOOK.try_with(Cell::get).unwrap_or(false)
}

/// Marks the calling thread as the shim's own: its HIP calls are passed on without a hook from now on.
pub(crate) fn stay_inside() {
    let _ = INSIDE_HOOK.try_with(|inside| inside.set(true));
    let _ = IS_SHIMS.try_with(|is_shims| is_shims.set(true));
}

/// Whether this thread is the shim's own: the application never reads the errors that it leaves with the runtime.
pub(crate) fn is_shims_thread() -> bool {
    IS_SHIMS.try_with(Cell::get).unwrap_or(false)
}

/// Runs a function of the application's on a thread of the shim's: its HIP calls are the application's.
pub(crate) fn as_application<R>(run: impl FnOnce() -> R) -> R {
    let set = |inside: bool| {
        let _ = INSIDE_HOOK.try_with(|cell| cell.set(inside));
        let _ = IS_SHIMS.try_with(|cell| cell.set(inside));
    };
    set(false);
    let returned = run();
    set(true);
    returned
}

/// While it lives, HIP calls of this thread are passed on without a hook.
pub(crate) struct ReentryGuard(());

impl ReentryGuard {
    /// Enters a hook.
    ///
    /// # Errors
    /// The reason for which the call must be passed on without a hook.
    pub(crate) fn enter() -> Result<Self, Reason> {
        match INSIDE_HOOK.try_with(|inside| inside.replace(true)) {
            Ok(false) => Ok(Self(())),
            Ok(true) => Err(Reason::Reentered),
            Err(_) => Err(Reason::ThreadEnding),
        }
    }
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        // If the thread-local is gone by now, no later call of this thread reads it.
        let _ = INSIDE_HOOK.try_with(|inside| inside.set(false));
    }
}
