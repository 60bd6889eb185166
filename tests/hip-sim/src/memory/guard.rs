//! Kernels and copies that access memory outside of allocations: the access is caught, reported as a device
//! fault, and survived.
//!
//! Such an access faults in the arena (`arena`). The signal handler opens the page, notes the address and
//! returns. The instruction runs again, on a page of zeroes that belongs to no allocation, and the kernel
//! runs to its end with wrong values. Nothing is unwound or jumped over, so no frame of foreign code is
//! skipped and no lock that it holds is lost. When the kernel has ended, the pages are closed again, and the
//! fault becomes every later call's error.
//!
//! The handler treats a fault only on a thread that runs a kernel or copy, and only in the arena. It passes
//! every other one to the previous handler, or lets it end the process as it would have. The handler is
//! installed once. If the application later installs its own without passing signals on, a fault of a kernel
//! ends the process.
//! application install its own later without passing ours on, a fault of a kernel ends the process.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use std::sync::OnceLock;

use super::arena::{self, Arena};
use crate::error::HipError;
use crate::fault;

/// Pages that one kernel may open; an access to one more ends the process.
const PAGES_MAX: usize = 1024;

/// The handler's state, separate for each thread.
struct Watch {
    arena: Cell<Option<&'static Arena>>,
    count: Cell<usize>,
    pages: UnsafeCell<[usize; PAGES_MAX]>,
}

thread_local! {
    // Constant and without a destructor, so reading it in the handler initialises nothing.
    static WATCH: Watch = const {
        Watch { arena: Cell::new(None), count: Cell::new(0), pages: UnsafeCell::new([0; PAGES_MAX]) }
    };
}

static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Runs a kernel or copy on this thread, with its faults handled.
pub(crate) fn watch(run: impl FnOnce()) {
    let Some(arena) = arena::get() else { return run() };
    PREVIOUS.get_or_init(install);
    WATCH.with(|watch| watch.arena.set(Some(arena)));
    run();
    let addresses = WATCH.with(|watch| {
        watch.arena.set(None);
        // SAFETY: the handler, which runs on this thread only, no longer touches it.
        let pages = unsafe { &*watch.pages.get() };
        pages[..watch.count.replace(0)].to_vec()
    });
    if let Some(first) = addresses.first() {
        eprintln!("hip-sim: a kernel or copy touched memory that is not allocated, near {first:#x}");
        fault::raise(HipError::IllegalAddress.code());
    }
    for page in addresses {
        arena.close_page(page);
    }
}

/// Installs the handler and returns the previous one.
fn install() -> libc::sigaction {
    // SAFETY: plain data, filled in; the handler belongs to this library, which stays loaded because its
    // threads run.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let mut previous: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut previous);
        previous
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut core::ffi::c_void) {
    // SAFETY: the kernel passes a valid record.
    let address = unsafe { (*info).si_addr() } as usize;
    let is_ours = WATCH.try_with(|watch| {
        let count = watch.count.get();
        if count == PAGES_MAX || !watch.arena.get().is_some_and(|arena| arena.contains(address)) {
            return false;
        }
        let page = arena::open_page(address);
        // SAFETY: only this handler writes it, on this thread, between two accesses in `watch`.
        unsafe { (*watch.pages.get())[count] = page };
        watch.count.set(count + 1);
        true
    });
    if !is_ours.unwrap_or(false) {
        // SAFETY: called with the arguments that the kernel passed.
        unsafe { pass_on(signal, info, context) };
    }
}

/// # Safety
///
/// The arguments are a signal handler's.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut core::ffi::c_void) {
    let previous = PREVIOUS.get();
    match previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction) {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction faults once more, and then ends the process as it would have without this
            // handler.
            // SAFETY: plain data.
            unsafe {
                let default: libc::sigaction = core::mem::zeroed();
                libc::sigaction(signal, &raw const default, core::ptr::null_mut());
            }
        }
        handler if previous.is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0) => {
            // SAFETY: a handler installed with `SA_SIGINFO` takes three arguments.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut core::ffi::c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler installed without `SA_SIGINFO` takes one argument.
            let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}
