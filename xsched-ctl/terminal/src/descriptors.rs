//! The limit of open files: raised for this process as far as it may be, and as before for the commands that it starts.

use std::fs::File;
use std::io;

/// Descriptors that starting a command needs while the limit is as before, and those without which nothing works.
const TO_START: usize = 4;
const LEAST: usize = 16;

/// The raised limit.
pub struct Descriptors {
    before: libc::rlimit,
    /// The lowest numbers, as long as no command starts.
    kept: Vec<File>,
}

impl Descriptors {
    /// Raises the limit: each processor, each probe of older kernels and each process of a controller takes some.
    ///
    /// # Errors
    ///
    /// If there are not even a few descriptors. That the limit stays is none.
    pub fn raise() -> io::Result<Self> {
        let mut kept = (0..LEAST).map(|_| File::open("/dev/null")).collect::<io::Result<Vec<_>>>()?;
        kept.truncate(TO_START);
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: there is space for the limit.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) } != 0 {
            return Err(io::Error::last_os_error());
        }
        set(libc::rlimit { rlim_cur: before.rlim_max, ..before });
        Ok(Self { before, kept })
    }

    /// Starts a command, which has the limit as it was: some programs use no descriptors above that.
    pub fn give_back<T>(&mut self, start: impl FnOnce() -> T) -> T {
        self.kept.clear();
        set(self.before);
        let started = start();
        set(libc::rlimit { rlim_cur: self.before.rlim_max, ..self.before });
        started
    }
}

/// Sets the limit. If that fails, the present one stays.
fn set(limit: libc::rlimit) {
    // SAFETY: the limit is only read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}
