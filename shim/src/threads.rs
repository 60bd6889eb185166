//! The shim's own threads: they have names, small stacks, and take no signals.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread;

/// The runtime's functions need less, and its callbacks do not run on threads of the shim.
const STACK_BYTES: usize = 1 << 20;

/// Starts a thread. An application's signal handlers run on the application's threads only.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _blocked = SignalsBlocked::new();
    let builder = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    builder.spawn(work).map(drop)
}

/// While it lives, this thread and those that it starts take no signals.
struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    fn new() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::zeroed();
        // SAFETY: the first call initialises the set that the second reads; if the second fails, the zeroed set
        // is an empty one.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: a set that the system has filled in.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}
