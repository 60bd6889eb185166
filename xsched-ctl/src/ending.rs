//! How a recording ends: limits at which it does so by itself, and how long the user waits for the rest.

use std::cell::Cell;
use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use xsched_terminal::{Request, Signals, say};
use xsched_tracer::{Recorded, SIZE_REACHED, Session, TracerError};

use crate::failure::Failure;

/// When a recording ends, even if its processes have not.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    duration: Option<Duration>,
    deadline: Option<Instant>,
    is_out_of_time: Cell<bool>,
}

impl Limits {
    /// The time starts now.
    pub(crate) fn begin(duration: Option<Duration>) -> Self {
        // A time beyond the clock's range is never reached.
        let deadline = duration.and_then(|duration| Instant::now().checked_add(duration));
        Self { duration, deadline, is_out_of_time: Cell::new(false) }
    }

    /// The kernel gives this process no more CPU time.
    pub(crate) fn out_of_time(&self) {
        self.is_out_of_time.set(true);
    }

    /// Waits until there is something to do, and does it, but at most until the limit. A caller that stops waiting loses nothing: an
    /// output that no process reads keeps it.
    pub(crate) async fn work(&self, session: &mut Session) -> Result<(), Failure> {
        let work = async {
            session.wait().await;
            session.pump().await
        };
        let worked = match self.deadline {
            // A tick too late is acceptable.
            Some(deadline) => tokio::time::timeout_at(deadline, work).await.unwrap_or(Ok(())),
            None => work.await,
        };
        Ok(worked?)
    }

    /// Whether the recording has reached a limit: notes that in the timeline and returns the message.
    pub(crate) fn reached(&self, session: &mut Session) -> Result<Option<String>, Failure> {
        let reason = match (self.duration, self.deadline) {
            _ if session.has_failed() => "its output cannot be written".to_owned(),
            _ if self.is_out_of_time.get() => "the limit of CPU time is reached (`ulimit -t`)".to_owned(),
            _ if session.is_full() => SIZE_REACHED.to_owned(),
            (Some(duration), Some(deadline)) if Instant::now() >= deadline => {
                format!("{} have passed", humantime::format_duration(duration))
            }
            _ => return Ok(None),
        };
        session.ends_because(&reason)?;
        Ok(Some(reason))
    }
}

/// A recording of which only the rest is to be written.
pub(crate) struct Finishing {
    pub(crate) future: Pin<Box<dyn Future<Output = Result<Recorded, TracerError>>>>,
    hurry: Option<oneshot::Sender<()>>,
}

impl Finishing {
    /// Ends a recording, once it is waited for.
    pub(crate) fn of(session: Box<Session>) -> Self {
        let (hurry, hurried) = oneshot::channel();
        let impatience = async {
            if hurried.await.is_err() {
                pending::<()>().await;
            }
        };
        Self { future: Box::pin(session.finish(impatience)), hurry: Some(hurry) }
    }

    /// Waits until everything is written. After a signal, calls do not wait for their chains; after another one, nothing waits for the
    /// output, which may be a pipe that no process reads, or on a server that is gone.
    pub(crate) async fn wait(mut self, signals: &mut Signals, limits: &Limits) -> Result<Recorded, Failure> {
        loop {
            tokio::select! {
                recorded = &mut self.future => return Ok(recorded?),
                () = wait_for_impatience(signals, limits) => {
                    let Some(hurry) = self.hurry.take() else { return Err(Failure::OutputGivenUp) };
                    // It may wait for nothing but the output already.
                    let _ = hurry.send(());
                    say!("writing what there is; Ctrl-C again does not wait for the output");
                }
            }
        }
    }
}

/// Until the user does not want to wait for the end of a recording.
async fn wait_for_impatience(signals: &mut Signals, limits: &Limits) {
    loop {
        match signals.next().await {
            Request::Interrupt | Request::Terminate => return,
            Request::OutOfTime => limits.out_of_time(),
            Request::Dump | Request::Other => {}
        }
    }
}
