//! Reads a trace back, event by event, in bounded memory.
//!
//! Made for the traces that [`crate::TraceWriter`] writes. In other traces it understands tracks of threads and processes,
//! named tracks and global ones, with events on `CLOCK_BOOTTIME`. It counts the events that it leaves out
//! ([`TraceReader::skipped`]).
//! It keeps the interned texts of each sequence, the described tracks, and the slices that have not ended.

mod event;
mod input;
mod packet;
mod packets;
mod raw;
mod sequence;
mod stacks;
mod table;
mod tracks;
mod wire;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
};

pub use self::{
    event::{EventDetails, OwnedAnnotation, OwnedSlice, OwnedValue, RawEvent, TraceEvent},
    input::Input,
    packets::{ReadError, Tail},
    raw::RawEventReader,
    wire::Malformed,
};
use crate::identity::Scope;

/// Iterates over the events of a trace in the order in which they were written.
///
/// Slices are paired in the order of the file: an end closes the last begin on its track. Perfetto pairs them in
/// time order. [`crate::TraceWriter`] writes begin and end of a slice next to each other, so for its traces the
/// results agree, and this reader need not sort.
///
/// After the last event [`TraceReader::tail`] says whether the trace was cut. An error ends the iteration.
#[derive(Debug)]
pub struct TraceReader<R> {
    raw: RawEventReader<R, Arc<str>>,
    /// The slices that have begun, by the uuid of their track. Ordered, so that unfinished slices are returned in the same
    /// order each time.
    open: BTreeMap<u64, Vec<OwnedSlice>>,
    unfinished: VecDeque<OwnedSlice>,
    /// Ends without a begin.
    unmatched: u64,
    ended: bool,
}

impl<R: io::Read> TraceReader<R> {
    /// Reads from `input`, which need not be buffered.
    pub fn new(input: R) -> Self {
        let (open, unfinished) = Default::default();
        Self { raw: RawEventReader::new(input), open, unfinished, unmatched: 0, ended: false }
    }

    /// How the trace ended, as far as it has been read.
    pub fn tail(&self) -> Tail {
        self.raw.tail()
    }

    /// Bytes of whole packets read so far.
    pub fn bytes_read(&self) -> u64 {
        self.raw.bytes_read()
    }

    /// The number of events left out so far: those on another clock or on a sequence that lost its state, and ends
    /// without a begin. 0 for every trace that [`crate::TraceWriter`] wrote.
    pub fn skipped(&self) -> u64 {
        self.raw.skipped() + self.unmatched
    }

    /// `None` for the begin of a slice, which becomes an event when it ends, and for an end without a begin.
    fn event(&mut self, event: RawEvent<Arc<str>>) -> Option<TraceEvent> {
        Some(match event {
            RawEvent::Clocks(clocks) => TraceEvent::Clocks(clocks),
            RawEvent::Process { id, name, cmdline } => TraceEvent::Process { id, name, cmdline },
            RawEvent::Thread { id, name } => TraceEvent::Thread { id, name },
            RawEvent::Track { id, parent, name } => TraceEvent::Track { id, parent, name },
            RawEvent::Begin { track, scope, ts_ns } => {
                let slice = self.slice(scope, ts_ns, None);
                self.open.entry(track).or_default().push(slice);
                return None;
            }
            RawEvent::Whole { scope, begin_ns, end_ns } => {
                TraceEvent::Slice(self.slice(scope, begin_ns, Some(end_ns)))
            }
            RawEvent::End { track, ts_ns } => {
                let Some(mut slice) = self.open.get_mut(&track).and_then(Vec::pop) else {
                    self.unmatched += 1;
                    return None;
                };
                slice.end_ns = Some(ts_ns);
                TraceEvent::Slice(slice)
            }
            RawEvent::Instant { scope, ts_ns } => {
                let EventDetails { category, name, annotations, .. } = take(self.raw.details());
                TraceEvent::Instant { scope, ts_ns, category, name, annotations }
            }
            RawEvent::Counter { scope, name, ts_ns, value } => {
                TraceEvent::Counter { scope, name, ts_ns, value }
            }
        })
    }

    /// The slice of the last raw event.
    fn slice(&mut self, scope: Scope, begin_ns: u64, end_ns: Option<u64>) -> OwnedSlice {
        let EventDetails { category, name, annotations, flows, ended_flows, stack } =
            take(self.raw.details());
        OwnedSlice { scope, begin_ns, end_ns, category, name, annotations, flows, ended_flows, stack }
    }
}

/// Takes the details, and leaves a list with capacity for as many annotations: growing a list step by step costs more.
fn take(details: &mut EventDetails<Arc<str>>) -> EventDetails<Arc<str>> {
    let next = EventDetails {
        annotations: Vec::with_capacity(details.annotations.len()),
        ..EventDetails::default()
    };
    std::mem::replace(details, next)
}

impl<R: io::Read> Iterator for TraceReader<R> {
    type Item = Result<TraceEvent, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.raw.next(&mut |text| text.into()) {
                Ok(Some(event)) => {
                    if let Some(event) = self.event(event) {
                        return Some(Ok(event));
                    }
                }
                Ok(None) => {
                    self.ended = true;
                    self.unfinished = std::mem::take(&mut self.open).into_values().flatten().collect();
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        self.unfinished.pop_front().map(|slice| Ok(TraceEvent::Slice(slice)))
    }
}
