//! Threads of the simulator: named, precise, and deaf to signals, which belong to the application's threads.

use core::cell::Cell;
use std::thread;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Starts a thread that nobody joins.
pub(super) fn spawn(name: String, body: impl FnOnce() + Send + 'static) {
    let previous = block_signals();
    let spawned = thread::Builder::new().name(name).spawn(move || {
        IS_WORKER.set(true);
        let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
        body();
    });
    restore_signals(&previous);
    drop(spawned.expect("a process that can start no thread cannot be simulated on"));
}

/// Whether the calling thread is one of these.
pub(super) fn is_current() -> bool {
    IS_WORKER.try_with(Cell::get).unwrap_or(false)
}

/// Blocks signals for the calling thread and, by inheritance, for a thread that it starts. Not those that report what the
/// thread itself has done: blocked, they would end the process without a word.
fn block_signals() -> libc::sigset_t {
    // SAFETY: plain data that the calls below fill in; pthread_sigmask only touches this thread's mask.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut previous: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTRAP] {
            libc::sigdelset(&raw mut all, own);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut previous);
        previous
    }
}

fn restore_signals(previous: &libc::sigset_t) {
    // SAFETY: `previous` was filled by pthread_sigmask.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, previous, core::ptr::null_mut());
    }
}
