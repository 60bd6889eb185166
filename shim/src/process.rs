//! The shim's own life in a process: what the first HIP call prepares, what a forked child begins with, what
//! the exit leaves behind.
//!
//! There is no constructor. A program that never calls HIP never runs any of the shim's code, except for one
//! comparison at exit.

use std::ffi::c_void;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use xsched_protocol::shim_status::ShimState;

#[cfg(feature = "test-switches")]
use crate::defer::test_suspension;
use crate::ground::status::xsched_shim_status;
use crate::ground::{counters, env, log};
use crate::runtime::by_name;
use crate::runtime::objects;
use crate::verdict::connection;
use crate::verdict::domain;
use crate::{api, defer, kernels, summary, verdict};

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Prepares the process for the shim, once.
///
/// Nobody waits for the thread that does it: a forked child could wait forever, and nothing here is needed
/// for a call to be forwarded.
pub(crate) fn prepare(exports: &'static [*const c_void; api::COUNT]) {
    by_name::exports_are(exports);
    #[cfg(feature = "test-switches")]
    if !env::disabled() {
        test_suspension::start_if_asked();
    }
    if PREPARED.swap(true, Ordering::Relaxed) {
        return;
    }
    if !env::disabled() {
        verdict::announce();
    }
    let state = if env::disabled() { ShimState::Disabled } else { ShimState::Active };
    xsched_shim_status.state.store(state as u32, Ordering::Relaxed);
    // This is the hook of the shim's own copy of the standard library. The default one prints to the
    // application's standard error.
    panic::set_hook(Box::new(|info| log::write(&format!("xsched-shim: {info}\n"))));
    // SAFETY: the handlers only store to the shim's own atomics, and take a lock of its own for a bounded time. If registering
    // fails for want of memory, the child goes on counting where its parent was.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(begin_afresh)) };
    defer::exit::release_at_exit();
}

unsafe extern "C" fn before_fork() {
    objects::hold_for_fork();
}

unsafe extern "C" fn after_fork() {
    objects::release_after_fork();
}

/// Runs in a forked child. What is known about call sites stays true there.
unsafe extern "C" fn begin_afresh() {
    objects::release_after_fork();
    counters::reset();
    kernels::begin_afresh();
    defer::begin_afresh();
    xsched_xqueue::after_fork_in_child();
    connection::begin_afresh();
    domain::begin_afresh();
    verdict::begin_afresh();
    #[cfg(feature = "test-switches")]
    test_suspension::begin_afresh();
}

/// Runs when the process exits or the shim is unloaded, after the program's own exit handlers: compiled code
/// unregisters its kernels in one.
extern "C" fn at_exit() {
    if PREPARED.load(Ordering::Relaxed) {
        // Nothing to say about a panic here: this is where it would have been said.
        let _ = panic::catch_unwind(|| log::write(&summary::text()));
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
