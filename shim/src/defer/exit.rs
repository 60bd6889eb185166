//! The end of the process: what is deferred is launched before the runtime is torn down.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::defer::deferral::DEFERRAL;
use crate::hip::program::process_ends;

/// How long an ending process waits for its deferred calls.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// Kernels were registered after [`release_all`] was last registered.
static UNREGISTERS_FIRST: AtomicBool = AtomicBool::new(false);

/// Compiled code registers its kernels, and unregisters them when the process exits.
pub(crate) fn kernels_registered() {
    UNREGISTERS_FIRST.store(true, Ordering::Relaxed);
}

/// Something is about to be deferred. Unregistering kernels waits for it, so it must be released before that.
pub(super) fn release_before_kernels() {
    if UNREGISTERS_FIRST.load(Ordering::Relaxed) && UNREGISTERS_FIRST.swap(false, Ordering::Relaxed) {
        release_at_exit();
    }
}

/// Registers the release of everything for the process's exit.
///
/// What is registered last runs first: before the runtime's own data is destroyed, and before what compiled code has
/// registered by now.
pub(crate) fn release_at_exit() {
    // SAFETY: the handler waits for a bounded time and calls nothing of the application's. That it runs more than once does
    // no harm. If there is no memory to register it, an earlier one releases everything.
    unsafe { libc::atexit(release_all) };
}

/// Runs when the process begins to exit.
extern "C" fn release_all() {
    // Nothing depends on what a panic would leave undone.
    let _ = panic::catch_unwind(|| {
        process_ends();
        if let Some(deferral) = DEFERRAL.existing() {
            deferral.queues.close(Instant::now() + EXIT_LIMIT);
        }
    });
}
