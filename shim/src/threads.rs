//! The shim's own threads: they have names, small stacks, and take no signals.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::counters::{self, Trouble};

/// The runtime's functions need less, and its callbacks do not run on threads of the shim.
const STACK_BYTES: usize = 1 << 20;

/// Bytes of a thread's name, with the zero at its end.
const NAME_BYTES: usize = 16;

/// What a new thread is given.
struct Start {
    name: [u8; NAME_BYTES],
    work: Box<dyn FnOnce() + Send>,
}

/// Starts a thread. An application's signal handlers run on the application's threads only.
///
/// Not by the standard library, which ends the process if it gets no memory for a thread.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _blocked = SignalsBlocked::new();
    let mut start = Start { name: [0; NAME_BYTES], work: Box::new(work) };
    let len = name.len().min(NAME_BYTES - 1);
    start.name[..len].copy_from_slice(&name.as_bytes()[..len]);
    let start = Box::into_raw(Box::new(start));
    let (mut thread, mut attributes) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the attributes are initialised before anything else is done with them; the new thread alone uses `start`.
    let code = unsafe {
        match libc::pthread_attr_init(attributes.as_mut_ptr()) {
            0 => {
                libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
                libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
                let code =
                    libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), begin, start.cast());
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
                code
            }
            code => code,
        }
    };
    if code == 0 {
        return Ok(());
    }
    // SAFETY: made above, and there is no thread that has it.
    drop(unsafe { Box::from_raw(start) });
    Err(io::Error::from_raw_os_error(code))
}

/// A thread's first function.
extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `start` has given it to this thread alone.
    let Start { name, work } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: a name with a zero at its end.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        counters::trouble(Trouble::Panic);
    }
    ptr::null_mut()
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
