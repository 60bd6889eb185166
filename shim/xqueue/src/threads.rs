//! Threads of libraries in a foreign process: they have names, small stacks, and take no signals.

#![expect(unsafe_code, reason = "starts threads by the C library")]

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::trouble::Trouble;

/// The stack of a thread. The runtime's functions need less. Functions that a program gives to a queue must do with it, too.
const STACK_BYTES: usize = 1 << 20;

/// Bytes of a thread's name, with the zero at its end.
const NAME_BYTES: usize = 16;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// Names a thread. A name is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadNumber(usize);

impl ThreadNumber {
    /// No thread.
    pub(crate) const NONE: Self = Self(0);

    /// The calling thread. [`Self::NONE`] if it is about to end.
    pub(crate) fn own() -> Self {
        let number = NUMBER.try_with(|number| {
            if number.get() == 0 {
                number.set(1 + THREADS.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        });
        number.map_or(Self::NONE, Self)
    }
}

/// What a new thread starts with.
struct Start {
    name: [u8; NAME_BYTES],
    trouble: fn(Trouble),
    work: Box<dyn FnOnce() + Send>,
}

/// Starts a thread; a panic ends it, and is counted as `trouble`. An application's signal handlers run on the application's threads only.
///
/// It does not use the standard library's threads, which end the process if there is no memory for one.
///
/// # Errors
/// The system gives no thread.
pub fn start(name: &str, trouble: fn(Trouble), work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _blocked = SignalsBlocked::new();
    let mut start = Start { name: [0; NAME_BYTES], trouble, work: Box::new(work) };
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
    let Start { name, trouble, work } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: a name with a zero at its end.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        trouble(Trouble::Panic);
    }
    ptr::null_mut()
}

/// A time slice on a shared processor, for kernels that let a thread choose (from 6.12 on): a thread that asks for a shorter
/// slice gets it sooner. This is the shortest that the kernel allows.
const SLICE_NS: u64 = 100_000;

/// Lets the calling thread sleep precisely: the kernel otherwise adds 50 us. Also lets it run soon after it was woken, even if
/// all processors are busy. It gets no more processor time than before. Threads that it starts inherit this.
pub(crate) fn be_prompt() {
    // SAFETY: sets a number of the calling thread's.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    // A thread of a real-time or background program keeps its class.
    if let Some(mut attributes) = attributes().filter(|own| own.sched_policy == libc::SCHED_OTHER as u32) {
        attributes.sched_runtime = SLICE_NS;
        // SAFETY: the structure lives until it was read.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// How the kernel runs the calling thread, if it says so.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: numbers, of which zero is one; the kernel fills no more than the size that it is given.
    unsafe {
        let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed().assume_init();
        let size = size_of_val(&attributes);
        let known = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0);
        (known == 0).then_some(attributes)
    }
}

/// While this lives, this thread and those that it starts take no signals.
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A new thread of this class: how it runs before and after it was made prompt, and its timer slack after that.
    fn made_prompt(class: i32) -> (libc::sched_attr, libc::sched_attr, i32) {
        let thread = thread::spawn(move || {
            let normal = libc::sched_param { sched_priority: 0 };
            // SAFETY: the structure lives until it was read.
            assert_eq!(unsafe { libc::sched_setscheduler(0, class, &raw const normal) }, 0);
            let before = attributes().unwrap();
            be_prompt();
            // SAFETY: reads a number of the calling thread's.
            (before, attributes().unwrap(), unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) })
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_prompt_thread_has_short_slices_and_precise_timers_and_no_other_priority() {
        let (before, after, slack_ns) = made_prompt(libc::SCHED_OTHER);
        assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, before.sched_nice));
        // Older kernels do not say how long slices are.
        let can_choose = before.sched_runtime > 0;
        assert_eq!(after.sched_runtime, if can_choose { SLICE_NS } else { 0 });
        assert_eq!(slack_ns, 1);
    }

    #[test]
    fn a_background_thread_stays_one() {
        let (before, after, _) = made_prompt(libc::SCHED_IDLE);
        assert_eq!(after.sched_policy, libc::SCHED_IDLE as u32);
        assert_eq!(after.sched_runtime, before.sched_runtime);
    }
}
