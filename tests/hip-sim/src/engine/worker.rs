//! Threads of the simulator: named, with precise sleeps, and with signals blocked, which belong to the
//! application's threads.

use core::cell::Cell;
use core::ffi::{CStr, c_void};
use std::thread;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Starts a detached thread.
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

/// Starts a detached thread. Another thread may wait for its body while holding the dynamic loader's lock.
///
/// A thread of the standard library registers destructors of thread-local variables before its body begins,
/// and the C library takes the loader's lock to do so. A thread that opens a library whose constructor makes
/// the first HIP call holds that lock, so it would wait forever. So this function calls `pthread_create`
/// itself. The body must not need the lock while another thread waits for it.
pub(super) fn spawn_bare(name: &'static CStr, body: impl FnOnce() + Send + 'static) {
    type Body = Box<dyn FnOnce() + Send>;
    extern "C" fn begin(body: *mut c_void) -> *mut c_void {
        // SAFETY: `spawn_bare` made it from a box, for this thread only.
        let body = unsafe { Box::from_raw(body.cast::<(&CStr, Body)>()) };
        let (name, body) = *body;
        let _ = rustix::thread::set_name(name);
        let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
        body();
        core::ptr::null_mut()
    }
    let body: Box<(&CStr, Body)> = Box::new((name, Box::new(body)));
    let previous = block_signals();
    // SAFETY: the attributes are initialised before they are used; the body is the new thread's own.
    let error = unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut thread = 0;
        let error =
            libc::pthread_create(&raw mut thread, &raw const attributes, begin, Box::into_raw(body).cast());
        libc::pthread_attr_destroy(&raw mut attributes);
        error
    };
    restore_signals(&previous);
    assert_eq!(error, 0, "a process that can start no thread cannot be simulated on");
}

/// Whether the calling thread was started by [`spawn`].
pub(super) fn is_current() -> bool {
    IS_WORKER.try_with(Cell::get).unwrap_or(false)
}

/// Blocks signals for the calling thread and, by inheritance, for a thread that it starts. Signals that
/// report the thread's own faults stay unblocked: if blocked, they would end the process without a message.
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
