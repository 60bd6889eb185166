//! The destination of the timeline: an output as it grows, or memory until it is dumped.

use crate::error::TracerError;
use crate::flight_recorder::{FlightRecorder, Item, Written};
use crate::output::{Destination, Format, Output};
use crate::timeline::Timeline;

/// The destination.
pub enum Sink {
    /// To a file or a pipe.
    Output(Output),
    /// Into memory.
    Kept(FlightRecorder),
}

/// What must happen after something has been written into the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    GoOn,
    /// No more calls.
    End,
    /// The collected part must be kept as a segment.
    Close,
}

impl Sink {
    /// Opens `destination`, to be written as `format` says.
    pub fn open(destination: Destination, format: Format) -> Result<Self, TracerError> {
        match (format.kept, destination) {
            (None, destination) => Output::open(destination, format).map(Self::Output),
            (Some(kept), Destination::File(path)) => {
                FlightRecorder::new(path, format.compression, kept).map(Self::Kept)
            }
            (Some(_), Destination::Stdout) => Err(TracerError::NoFileForRing),
        }
    }

    /// Decides what happens after something was written, with `len` bytes collected.
    pub(super) fn after(&mut self, item: Item<'_>, len: usize) -> After {
        let (is_over, what_then) = match self {
            Self::Output(output) => (output.is_full_with(len), After::End),
            Self::Kept(recorder) => (recorder.written(item, len), After::Close),
        };
        if is_over { what_then } else { After::GoOn }
    }

    /// Passes the timeline on once there is enough of it, or all of it with `all`. Begins a requested dump.
    pub(super) async fn pass_on(
        &mut self,
        timeline: &mut Timeline,
        now_ns: u64,
        all: bool,
    ) -> Result<(), TracerError> {
        match self {
            Self::Output(output) => output.pass_on(timeline.collected(), all).await,
            Self::Kept(recorder) => {
                if let Some(reason) = recorder.take_wanted().await {
                    timeline.dumped(now_ns, &reason, recorder.let_go()).map_err(super::memory_write)?;
                    recorder.dump(timeline.collected(), reason);
                }
                Ok(())
            }
        }
    }

    /// Waits until everything is written; returns further messages for the user.
    pub(super) async fn finish(
        self,
        timeline: &mut Timeline,
        now_ns: u64,
    ) -> Result<(Written, Vec<String>), TracerError> {
        match self {
            Self::Output(mut output) => {
                output.pass_on(timeline.collected(), true).await?;
                let destination = output.destination().clone();
                Ok(((destination, output.finish().await?), Vec::new()))
            }
            Self::Kept(recorder) => {
                let reason = "recording ends";
                timeline.dumped(now_ns, reason, recorder.let_go()).map_err(super::memory_write)?;
                recorder.finish(timeline.collected()).await
            }
        }
    }
}
