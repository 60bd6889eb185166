//! Reads a trace back, event by event, in bounded memory.
//!
//! Made for the traces that [`crate::TraceWriter`] writes. Of others it understands tracks of threads and processes, named
//! and global tracks, with events on `CLOCK_BOOTTIME`, and counts the events it must leave out
//! ([`TraceReader::skipped`]).
//! What is kept: the interned texts of each sequence, the described tracks, and slices not yet ended.

mod input;
mod moments;
mod packet;
mod packets;
mod sequence;
mod stacks;
mod tracks;
mod wire;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
};

pub use self::{
    input::Input,
    moments::{Moment, MomentReader, What},
    packets::{ReadError, Tail},
    wire::Malformed,
};
use crate::{
    clocks::Clocks,
    identity::{ProcessId, Scope, ThreadId, TrackId},
    stack::Stack,
};

/// One thing that a trace says.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Readings of the clocks.
    Clocks(Clocks),
    /// A process was described, perhaps once more.
    Process {
        /// Which one.
        id: ProcessId,
        /// Its name, if given here.
        name: Option<String>,
        /// Its command line; empty if not given here.
        cmdline: Vec<String>,
    },
    /// A thread was described, perhaps once more.
    Thread {
        /// Which one.
        id: ThreadId,
        /// Its name, if given here.
        name: Option<String>,
    },
    /// A track of neither a process, a thread nor a counter was described, perhaps once more.
    Track {
        /// Which one.
        id: TrackId,
        /// Below what it is shown.
        parent: Scope,
        /// Its name; empty if it has none.
        name: Arc<str>,
    },
    /// A slice ended, or the trace did.
    Slice(OwnedSlice),
    /// Something that happened at one moment.
    Instant {
        /// On whose track.
        scope: Scope,
        /// When, `CLOCK_BOOTTIME` nanoseconds.
        ts_ns: u64,
        /// Its category; empty if it has none.
        category: Arc<str>,
        /// Its name; empty if it has none.
        name: Arc<str>,
        /// What is known about it.
        annotations: Vec<OwnedAnnotation>,
    },
    /// A sample of a counter.
    Counter {
        /// Where the counter is shown.
        scope: Scope,
        /// The counter's name.
        name: Arc<str>,
        /// When, `CLOCK_BOOTTIME` nanoseconds.
        ts_ns: u64,
        /// The value.
        value: i64,
    },
}

/// [`crate::Slice`] as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedSlice {
    /// On whose track.
    pub scope: Scope,
    /// When it began, `CLOCK_BOOTTIME` nanoseconds.
    pub begin_ns: u64,
    /// When it ended; `None` if it still ran at the end of the trace.
    pub end_ns: Option<u64>,
    /// Its category; empty if it has none.
    pub category: Arc<str>,
    /// Its name; empty if it has none.
    pub name: Arc<str>,
    /// What is known about it.
    pub annotations: Vec<OwnedAnnotation>,
    /// Arrows that begin here or pass through.
    pub flows: Vec<u64>,
    /// Arrows that end here.
    pub ended_flows: Vec<u64>,
    /// Who called it, if that is said.
    pub stack: Option<Stack>,
}

/// [`crate::Annotation`] as read back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnedAnnotation<T = Arc<str>> {
    /// Its name.
    pub name: T,
    /// Its value.
    pub value: OwnedValue<T>,
}

/// [`crate::Value`] as read back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OwnedValue<T = Arc<str>> {
    /// A text.
    Str(T),
    /// An unsigned number.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// An address or handle.
    Pointer(u64),
    /// A truth value.
    Bool(bool),
    /// A kind of value that the writer does not write, e.g. a dictionary.
    Other,
}

/// Iterates over the events of a trace in the order in which they were written.
///
/// Slices are paired in the order of the file: an end closes the last begin on its track. Perfetto pairs in
/// order of time; for what [`crate::TraceWriter`] writes, begin and end side by side, the results agree, and
/// nothing needs to be sorted.
///
/// After the last event [`TraceReader::tail`] says whether the trace was cut. An error ends the iteration.
#[derive(Debug)]
pub struct TraceReader<R> {
    moments: MomentReader<R, Arc<str>>,
    /// The slices that have begun, by the uuid of their track. Ordered, so that unfinished ones are given in the same
    /// order each time.
    open: BTreeMap<u64, Vec<OwnedSlice>>,
    unfinished: VecDeque<OwnedSlice>,
    /// Ends without a begin.
    unmatched: u64,
    ended: bool,
}

impl<R: io::Read> TraceReader<R> {
    /// Reads from `input`, which needs no buffer of its own.
    pub fn new(input: R) -> Self {
        let (open, unfinished) = Default::default();
        Self { moments: MomentReader::new(input), open, unfinished, unmatched: 0, ended: false }
    }

    /// How the trace ended, as far as it has been read.
    pub fn tail(&self) -> Tail {
        self.moments.tail()
    }

    /// Bytes of whole packets read so far.
    pub fn bytes_read(&self) -> u64 {
        self.moments.bytes_read()
    }

    /// Events left out so far: on another clock, on a sequence whose state was lost, or an end without a
    /// begin. 0 for every trace that [`crate::TraceWriter`] wrote.
    pub fn skipped(&self) -> u64 {
        self.moments.skipped() + self.unmatched
    }

    /// `None` for the begin of a slice, which will be an event when it ends, and for an end of none.
    fn event(&mut self, moment: Moment<Arc<str>>) -> Option<Event> {
        Some(match moment {
            Moment::Clocks(clocks) => Event::Clocks(clocks),
            Moment::Process { id, name, cmdline } => Event::Process { id, name, cmdline },
            Moment::Thread { id, name } => Event::Thread { id, name },
            Moment::Track { id, parent, name } => Event::Track { id, parent, name },
            Moment::Begin { track, scope, ts_ns } => {
                let slice = self.slice(scope, ts_ns, None);
                self.open.entry(track).or_default().push(slice);
                return None;
            }
            Moment::Whole { scope, begin_ns, end_ns } => {
                Event::Slice(self.slice(scope, begin_ns, Some(end_ns)))
            }
            Moment::End { track, ts_ns } => {
                let Some(mut slice) = self.open.get_mut(&track).and_then(Vec::pop) else {
                    self.unmatched += 1;
                    return None;
                };
                slice.end_ns = Some(ts_ns);
                Event::Slice(slice)
            }
            Moment::Instant { scope, ts_ns } => {
                let What { category, name, annotations, .. } = take(self.moments.what());
                Event::Instant { scope, ts_ns, category, name, annotations }
            }
            Moment::Counter { scope, name, ts_ns, value } => Event::Counter { scope, name, ts_ns, value },
        })
    }

    /// The slice that was given last.
    fn slice(&mut self, scope: Scope, begin_ns: u64, end_ns: Option<u64>) -> OwnedSlice {
        let What { category, name, annotations, flows, ended_flows, stack } = take(self.moments.what());
        OwnedSlice { scope, begin_ns, end_ns, category, name, annotations, flows, ended_flows, stack }
    }
}

/// What is said, and room for as much the next time: lists that grow step by step cost more.
fn take(what: &mut What<Arc<str>>) -> What<Arc<str>> {
    let next = What { annotations: Vec::with_capacity(what.annotations.len()), ..What::default() };
    std::mem::replace(what, next)
}

impl<R: io::Read> Iterator for TraceReader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.moments.next(&mut |text| text.into()) {
                Ok(Some(moment)) => {
                    if let Some(event) = self.event(moment) {
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
        self.unfinished.pop_front().map(|slice| Ok(Event::Slice(slice)))
    }
}
