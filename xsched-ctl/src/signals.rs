//! Signals to a recording: to end in good order, or to dump what it keeps.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
}

/// One of them has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Ctrl-C. The terminal sends it to everything in the foreground, a traced command included.
    Interrupt,
    /// Somebody wants this process to end.
    Terminate,
    /// Somebody wants to see what is kept (`SIGUSR1`).
    Dump,
}

impl Signals {
    /// Catches them from here on.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(Failure::internal("catching signals"));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: catch(SignalKind::hangup())?,
            user1: catch(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.interrupt.recv() => Request::Interrupt,
            _ = self.terminate.recv() => Request::Terminate,
            _ = self.hangup.recv() => Request::Terminate,
            _ = self.user1.recv() => Request::Dump,
        }
    }
}
