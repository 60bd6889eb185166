//! The shim's own life in a process: what the first HIP call prepares, what a forked child begins with, what
//! the exit leaves behind.
//!
//! There is no constructor. A program that never calls HIP never runs any of the shim's code, except for one
//! comparison at exit.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use xsched_abi::shim_status::ShimState;

use crate::status::xsched_shim_status;
use crate::{counters, env, log};

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Prepares the process for the shim, once.
///
/// Nobody waits for the thread that does it: a forked child could wait forever, and nothing here is needed
/// for a call to be forwarded.
pub(crate) fn prepare() {
    if PREPARED.swap(true, Ordering::Relaxed) {
        return;
    }
    let state = if env::disabled() { ShimState::Disabled } else { ShimState::Active };
    xsched_shim_status.state.store(state as u32, Ordering::Relaxed);
    // This is the hook of the shim's own copy of the standard library. The default one prints to the
    // application's standard error.
    panic::set_hook(Box::new(|info| log::write(&format!("xsched-shim: {info}\n"))));
    // SAFETY: the handler only stores to the shim's own atomics. If registering fails for want of memory, the
    // child goes on counting where its parent was.
    unsafe { libc::pthread_atfork(None, None, Some(begin_afresh)) };
}

/// Runs in a forked child. What is known about call sites stays true there.
unsafe extern "C" fn begin_afresh() {
    counters::reset();
}

/// Runs when the process exits or the shim is unloaded, after the program's own exit handlers: compiled code
/// unregisters its kernels in one.
extern "C" fn at_exit() {
    if PREPARED.load(Ordering::Relaxed) {
        // Nothing to say about a panic here: this is where it would have been said.
        let _ = panic::catch_unwind(|| log::write(&crate::summary::text()));
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
