//! The shim's life in a process, and the only place where its parts are put together: the first HIP call, a fork, the
//! exit.
//!
//! There is no constructor. A program that never calls HIP never runs any of the shim's code, except for one
//! comparison at exit.

use std::ffi::c_void;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "test-switches")]
use xsched_preload::memory;
use xsched_preload::{asked, env, log, told};
use xsched_protocol::shim_status::ShimState;

#[cfg(feature = "test-switches")]
use crate::defer::test_suspension;
use crate::runtime::by_name;
use crate::runtime::objects;
use crate::status::xsched_shim_status;
use crate::verdict::domain;
use crate::{api, counters, defer, explicit, kernels, own_calls, summary, verdict};

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Prepares the process for the shim, once.
///
/// Other threads do not wait for the one that does it: a forked child could wait forever, and nothing here is needed
/// for a call to be forwarded.
pub(crate) fn prepare(exports: &'static [*const c_void; api::COUNT]) {
    by_name::set_exports(exports);
    #[cfg(feature = "test-switches")]
    if !env::disabled() {
        test_suspension::start_if_configured();
    }
    if PREPARED.swap(true, Ordering::Relaxed) {
        return;
    }
    log::remember_stderr();
    if !env::disabled() {
        verdict::announce();
    }
    let state = if env::disabled() { ShimState::Disabled } else { ShimState::Active };
    xsched_shim_status.state.store(state as u32, Ordering::Relaxed);
    // This is the hook of the shim's own copy of the standard library. The default hook prints to the application's
    // standard error.
    panic::set_hook(Box::new(|info| log::write(&format!("xsched-shim: {info}\n"))));
    // SAFETY: the handlers only store to the shim's own atomics, and take a lock of its own for a bounded time. If
    // there is no memory to register them, the child's counters go on from its parent's.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(renew_after_fork)) };
    defer::exit::release_at_exit();
}

unsafe extern "C" fn before_fork() {
    objects::hold_for_fork();
}

unsafe extern "C" fn after_fork() {
    objects::release_after_fork();
}

/// Runs in a forked child: lists everything that the child must not share with its parent. What is known about call
/// sites stays true there.
unsafe extern "C" fn renew_after_fork() {
    objects::release_after_fork();
    counters::reset();
    kernels::renew_after_fork();
    defer::renew_after_fork();
    explicit::renew_after_fork();
    xsched_xqueue::after_fork_in_child();
    told::renew_after_fork();
    asked::renew_after_fork();
    domain::renew_after_fork();
    verdict::renew_after_fork();
    own_calls::renew_after_fork();
    #[cfg(feature = "test-switches")]
    test_suspension::renew_after_fork();
}

/// Runs when the process exits, after the program's own exit handlers: compiled code unregisters its kernels in one.
extern "C" fn at_exit() {
    if PREPARED.load(Ordering::Relaxed) {
        // A panic here cannot be reported: this is where panics are reported.
        let _ = panic::catch_unwind(|| log::write(&summary::text()));
        #[cfg(feature = "test-switches")]
        memory::log_refused("xsched-shim");
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
