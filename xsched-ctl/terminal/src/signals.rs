//! Signals to a recording: to end in an orderly way, or to dump what is kept.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Internal;

/// The signals.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None if it is ignored, or caught elsewhere.
    hangup: Option<Signal>,
    user1: Signal,
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ctrl-C. The terminal sends it to the whole foreground process group, including a traced command.
    Interrupt,
    /// This process should end.
    Terminate,
    /// A dump is requested (`SIGUSR1`).
    Dump,
}

impl Signals {
    /// Catches them from here on. SIGHUP stays ignored if it was ignored before, as by nohup(1): then this process and
    /// its children survive the end of the terminal.
    pub fn catch() -> Result<Self, Internal> {
        let hangup = if is_ignored(libc::SIGHUP) {
            None
        } else {
            Some(signal(SignalKind::hangup()).map_err(Internal::at("catching signals"))?)
        };
        Ok(Self { hangup, ..Self::catch_for_service()? })
    }

    /// The same without SIGHUP, which tells a service to read its files again.
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

/// Whether a signal is ignored; the parent process may have arranged that.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: this changes nothing, and there is space for the current action.
    let outcome = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: it has been written if the call succeeded.
    outcome == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

async fn hung_up(hangup: Option<&mut Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}
