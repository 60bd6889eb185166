//! The shim's life in a process: first call, fork, exit. There is no constructor.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(feature = "test-switches")]
use xsched_preload::memory;
use xsched_preload::{asked, dlsym, env, log, programs};
use xsched_protocol::shim_status::ShimState;

use crate::command;
use crate::counters;
use crate::green;
use crate::rules;
use crate::scheduling::SCHEDULING;
use crate::status;

/// How long an ending process waits for what it has deferred, its callers and its watcher.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Prepares the process, once. False if the shim is switched off.
///
/// Other threads do not wait for the one that does it: nothing here is needed for a call to be passed on.
pub(crate) fn prepare() -> bool {
    if env::disabled() {
        status::publish(ShimState::Disabled);
        return false;
    }
    if !PREPARED.load(Ordering::Relaxed) && !PREPARED.swap(true, Ordering::Relaxed) {
        log::remember_stderr();
        status::publish(ShimState::Active);
        share_probes();
        // This is the hook of the shim's own copy of the standard library. The default hook prints to the application's standard
        // error.
        panic::set_hook(Box::new(|info| log::write(&format!("xsched-cuda: {info}\n"))));
        // SAFETY: the handler only stores to the shim's own atomics.
        unsafe { libc::pthread_atfork(None, None, Some(renew_after_fork)) };
    }
    true
}

/// The process uses a device. What is registered last runs first: before the driver, which is initialised by now, destroys its data.
pub(crate) fn release_at_exit() {
    // SAFETY: the handler takes the shim's own locks for a bounded time.
    unsafe { libc::atexit(release_all) };
}

/// Reports and questions go through the functions of a shim that comes behind this one, if there is any: programs are attached to one of
/// them.
fn share_probes() {
    if let Some(function) = dlsym::look_up(libc::RTLD_NEXT, c"xsched_arbiter_report") {
        // SAFETY: the function of that name in another shim, which is preloaded and so never unmapped.
        unsafe { xsched_xqueue::report_through(function.as_ptr()) };
    }
    if let Some(function) = dlsym::look_up(libc::RTLD_NEXT, c"xsched_classify") {
        // SAFETY: as above.
        unsafe { programs::ask_through(function.as_ptr()) };
    }
}

/// Runs in a forked child, which has none of its parent's threads. CUDA does not work there either.
unsafe extern "C" fn renew_after_fork() {
    counters::reset();
    status::renew_after_fork();
    green::renew_after_fork();
    command::renew_after_fork();
    SCHEDULING.renew();
    rules::renew_after_fork();
    asked::renew_after_fork();
    xsched_xqueue::after_fork_in_child();
}

/// Runs when the process begins to exit: what is deferred is launched, and the watcher leaves the driver before its own data is destroyed.
extern "C" fn release_all() {
    // Nothing depends on what a panic would leave undone.
    let _ = panic::catch_unwind(|| {
        if let Some(scheduling) = SCHEDULING.existing() {
            scheduling.queues.close(Instant::now() + EXIT_LIMIT);
        }
    });
}

/// Runs when the process exits, after the program's own exit handlers.
extern "C" fn at_exit() {
    if PREPARED.load(Ordering::Relaxed) {
        let _ = panic::catch_unwind(|| {
            let usage = SCHEDULING.existing().and_then(|scheduling| scheduling.queues.total_usage());
            log::write(&counters::summary(usage.map_or(0, |usage| usage.launched)));
        });
        #[cfg(feature = "test-switches")]
        memory::log_refused("xsched-cuda");
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
