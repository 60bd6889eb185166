//! Signals that end a recording, in good order.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// One of them has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C. The terminal sends it to everything in the foreground, a traced command included.
    Interrupt,
    /// Somebody wants this process to end.
    Terminate,
}

impl Signals {
    /// Catches them from here on.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(Failure::internal("catching signals"));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hangup: catch(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.hangup.recv() => Stop::Terminate,
        }
    }
}
