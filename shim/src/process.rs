//! The shim's own life in a process: what the first HIP call prepares, what a forked child begins with, what
//! the exit leaves behind.
//!
//! There is no constructor. A program that never calls HIP never runs any of the shim's code, except for one
//! comparison at exit.

use std::env::current_exe;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::panic;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use xsched_protocol::shim_status::ShimState;

use crate::runtime::objects;
use crate::status::xsched_shim_status;
use crate::{controller, counters, defer, domain, env, kernels, log, test_suspension, verdict};

/// What the kernel writes behind the path of an executable that is not there any more.
const DELETED_MARK: &[u8] = b" (deleted)";

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Kernels were registered after [`let_go`] last was.
static TAKES_BACK_FIRST: AtomicBool = AtomicBool::new(false);

/// The file that this process executes. A program whose package was upgraded goes on as what it was.
pub(crate) fn program() -> Option<PathBuf> {
    let mut path = current_exe().ok()?.into_os_string().into_vec();
    if path.ends_with(DELETED_MARK) {
        path.truncate(path.len() - DELETED_MARK.len());
    }
    Some(OsString::from_vec(path).into())
}

/// Prepares the process for the shim, once.
///
/// Nobody waits for the thread that does it: a forked child could wait forever, and nothing here is needed
/// for a call to be forwarded.
pub(crate) fn prepare() {
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
    let_go_at_exit();
}

/// Compiled code registers its kernels, and will take them back when the process exits.
pub(crate) fn kernels_registered() {
    TAKES_BACK_FIRST.store(true, Ordering::Relaxed);
}

/// Something is about to be held back: it must be let go before kernels are taken back, which waits for it.
pub(crate) fn let_go_first() {
    if TAKES_BACK_FIRST.load(Ordering::Relaxed) && TAKES_BACK_FIRST.swap(false, Ordering::Relaxed) {
        let_go_at_exit();
    }
}

/// What is registered last runs first: before the runtime's own data is destroyed, and before what compiled code has
/// registered by now.
fn let_go_at_exit() {
    // SAFETY: the handler waits for a bounded time and calls nothing of the application's. That it runs more than once does
    // no harm. If there is no memory to register it, an earlier one lets go.
    unsafe { libc::atexit(let_go) };
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
    xsched_xqueue::begin_afresh();
    controller::begin_afresh();
    domain::begin_afresh();
    verdict::begin_afresh();
    test_suspension::begin_afresh();
}

/// State with locks in it, made at its first use, which a forked child can replace: threads that held its locks are not
/// there any more. What was replaced is never freed.
pub(crate) struct Renewable<T>(AtomicPtr<T>);

impl<T: Default> Renewable<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The state, if it was ever used.
    pub(crate) fn existing(&self) -> Option<&'static T> {
        // SAFETY: null or leaked by `get`. Acquire pairs with the exchange there.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The state.
    pub(crate) fn get(&self) -> &'static T {
        self.existing().unwrap_or_else(|| {
            let made = Box::into_raw(Box::default());
            let first = self.0.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
            if let Err(first) = first {
                // SAFETY: made above, and nobody else has seen it; `first` was leaked as this would have been.
                unsafe {
                    drop(Box::from_raw(made));
                    return &*first;
                }
            }
            // SAFETY: leaked right now.
            unsafe { &*made }
        })
    }

    /// Leaves the state behind.
    pub(crate) fn renew(&self) {
        self.0.store(ptr::null_mut(), Ordering::Release);
    }
}

/// Runs when the process begins to exit.
extern "C" fn let_go() {
    // Nothing depends on what a panic would have left undone.
    let _ = panic::catch_unwind(defer::close);
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
