//! Signals to a recording: to end in good order, or to dump what it keeps.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Internal;

/// The signals.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None: it is somebody else's, or ignored.
    hangup: Option<Signal>,
    user1: Signal,
}

/// One of them has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ctrl-C. The terminal sends it to everything in the foreground, a traced command included.
    Interrupt,
    /// Somebody wants this process to end.
    Terminate,
    /// Somebody wants to see what is kept (`SIGUSR1`).
    Dump,
}

impl Signals {
    /// Catches them from here on. Who was started to live on when the terminal goes, as by nohup(1), does, and so does what it
    /// starts: SIGHUP stays ignored.
    pub fn catch() -> Result<Self, Internal> {
        let hangup = if is_ignored(libc::SIGHUP) {
            None
        } else {
            Some(signal(SignalKind::hangup()).map_err(Internal::at("catching signals"))?)
        };
        Ok(Self { hangup, ..Self::catch_for_service()? })
    }

    /// Likewise, but for SIGHUP, which tells a service to read its files again.
    pub fn catch_for_service() -> Result<Self, Internal> {
        let catch = |kind| signal(kind).map_err(Internal::at("catching signals"));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: None,
            user1: catch(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.interrupt.recv() => Request::Interrupt,
            _ = self.terminate.recv() => Request::Terminate,
            () = hung_up(self.hangup.as_mut()) => Request::Terminate,
            _ = self.user1.recv() => Request::Dump,
        }
    }
}

/// Whether a signal is ignored, as whoever has started this process may have arranged.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed, and there is room for what holds.
    let outcome = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: it has been written if that has succeeded.
    outcome == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

async fn hung_up(hangup: Option<&mut Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}
