//! Writing to the place that `XSCHED_LOG` names, and nowhere else.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::env::{self, LogTarget};

/// Writes `text`, in one piece so that the lines of processes that share a log do not mix.
///
/// Nothing happens if there is no log or it cannot be written: there is no other place for an error.
pub fn write(text: &str) {
    let Some(target) = env::log_target() else { return };
    let _sigpipe = SigpipeBlocked::new();
    let _ = write_to(target, text);
}

fn write_to(target: LogTarget, text: &str) -> io::Result<()> {
    match target {
        LogTarget::Stderr => write_to_stderr(text),
        LogTarget::File(path) => OpenOptions::new()
            .append(true)
            .create(true)
            // A pipe without a reader must not stop the application.
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?
            .write_all(text.as_bytes()),
    }
}

/// The file that was the program's standard error at its first HIP call: device and inode. Zero: there was none.
static STDERR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Remembers the program's standard error.
pub fn remember_stderr() {
    let [device, inode] = number_two().unwrap_or_default();
    STDERR[0].store(device, Ordering::Relaxed);
    STDERR[1].store(inode, Ordering::Relaxed);
}

/// Writes to the program's standard error, unless the program has closed it and number 2 is another file since, which may be
/// its data.
///
/// # Errors
/// It cannot be written, or is not there any more.
pub fn write_to_stderr(text: &str) -> io::Result<()> {
    let remembered = [&STDERR[0], &STDERR[1]].map(|number| number.load(Ordering::Relaxed));
    if remembered == [0; 2] || number_two() != Some(remembered) {
        return Err(io::ErrorKind::NotFound.into());
    }
    io::stderr().write_all(text.as_bytes())
}

/// The identity of the file that has the number 2.
fn number_two() -> Option<[u64; 2]> {
    rustix::fs::fstat(io::stderr()).ok().map(|file| [file.st_dev, file.st_ino])
}

/// While it lives, writing to a pipe without a reader does not kill the process.
struct SigpipeBlocked {
    sigpipe: libc::sigset_t,
    /// The thread's mask before; None if there is nothing to restore.
    before: Option<libc::sigset_t>,
}

impl SigpipeBlocked {
    fn new() -> Self {
        let mut sigpipe = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        let mut pending = MaybeUninit::uninit();
        // SAFETY: each set is initialised by the call that is given it before another call or `assume_init`
        // reads it.
        unsafe {
            libc::sigemptyset(sigpipe.as_mut_ptr());
            libc::sigaddset(sigpipe.as_mut_ptr(), libc::SIGPIPE);
            let sigpipe = sigpipe.assume_init();
            libc::sigpending(pending.as_mut_ptr());
            let already_pending = libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1;
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const sigpipe, before.as_mut_ptr()) != 0;
            // A signal that was pending is the application's and must stay so.
            let before = (!failed && !already_pending).then(|| before.assume_init());
            Self { sigpipe, before }
        }
    }
}

impl Drop for SigpipeBlocked {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both sets are initialised. Taking the signal that the write has caused leaves none to be
        // delivered.
        unsafe {
            libc::sigtimedwait(&raw const self.sigpipe, ptr::null_mut(), &raw const now);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        }
    }
}
