//! Limits at which a recording ends by itself.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;
use xsched_tracer::{SIZE_REACHED, Session};

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

    /// Waits until there is something to do, but at most until the limit.
    pub(crate) async fn wait(&self, session: &Session) {
        match self.deadline {
            // A tick too late is acceptable.
            Some(deadline) => drop(tokio::time::timeout_at(deadline, session.wait()).await),
            None => session.wait().await,
        }
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
