//! Reads a trace back, event by event, in bounded memory.
//!
//! Made for the traces that [`crate::TraceWriter`] writes. Of others it understands tracks of threads and processes, named
//! and global tracks, with events on `CLOCK_BOOTTIME`, and counts the events it must leave out
//! ([`TraceReader::skipped`]).
//! What is kept: the interned texts of each sequence, the described tracks, and slices not yet ended.

mod input;
mod packets;
mod sequence;
mod tracks;

use std::{collections::VecDeque, io, sync::Arc};

pub use self::{
    input::Input,
    packets::{ReadError, Tail},
};
use self::{packets::Packets, sequence::Sequences, tracks::Tracks};
use crate::{
    clocks::Clocks,
    identity::{ProcessId, Scope, ThreadId, TrackId},
    schema::{ClockSnapshot, EventType, TracePacket, clock},
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
}

/// [`crate::Annotation`] as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedAnnotation {
    /// Its name.
    pub name: Arc<str>,
    /// Its value.
    pub value: OwnedValue,
}

/// [`crate::Value`] as read back.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// A text.
    Str(Arc<str>),
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
/// After the last event [`TraceReader::tail`] says whether the trace was cut. An error ends the iteration.
#[derive(Debug)]
pub struct TraceReader<R> {
    packets: Packets<R>,
    sequences: Sequences,
    tracks: Tracks,
    ready: VecDeque<Event>,
    skipped: u64,
    ended: bool,
}

impl<R: io::Read> TraceReader<R> {
    /// Reads from `input`, which needs no buffer of its own.
    pub fn new(input: R) -> Self {
        Self {
            packets: Packets::new(input),
            sequences: Sequences::default(),
            tracks: Tracks::default(),
            ready: VecDeque::new(),
            skipped: 0,
            ended: false,
        }
    }

    /// How the trace ended, as far as it has been read.
    pub fn tail(&self) -> Tail {
        self.packets.tail()
    }

    /// Bytes of whole packets read so far.
    pub fn bytes_read(&self) -> u64 {
        self.packets.offset()
    }

    /// Events left out so far: on another clock, on a sequence whose state was lost, or an end without a
    /// begin. 0 for every trace that [`crate::TraceWriter`] wrote.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        if let Some(packet) = self.packets.next()? {
            self.packet(packet);
        } else {
            self.ended = true;
            self.ready.extend(self.tracks.take_unfinished().map(Event::Slice));
        }
        Ok(())
    }

    fn packet(&mut self, packet: TracePacket) {
        self.sequences.packet(&packet);
        if let Some(clocks) = packet.clock_snapshot.as_ref().and_then(clocks) {
            self.ready.push_back(Event::Clocks(clocks));
        }
        if let Some(descriptor) = packet.track_descriptor {
            self.ready.extend(self.tracks.describe(descriptor));
        } else if packet.track_event.is_some() {
            match self.track_event(&packet) {
                Some(Outcome::Event(event)) => self.ready.push_back(event),
                Some(Outcome::Begun) => {}
                None => self.skipped += 1,
            }
        }
    }

    /// `None` if the event cannot be understood.
    fn track_event(&mut self, packet: &TracePacket) -> Option<Outcome> {
        let texts = self.sequences.texts(packet)?;
        let event = packet.track_event.as_ref()?;
        let ts_ns = packet.timestamp?;
        let uuid = event.track_uuid?;
        let scope = self.tracks.scope(uuid);
        match event.event_type() {
            EventType::SliceBegin => {
                let slice = OwnedSlice {
                    scope,
                    begin_ns: ts_ns,
                    end_ns: None,
                    category: texts.category(event)?,
                    name: texts.name(event)?,
                    annotations: texts.annotations(event)?,
                    flows: event.flow_ids.clone(),
                    ended_flows: event.terminating_flow_ids.clone(),
                };
                self.tracks.begin(uuid, slice);
                Some(Outcome::Begun)
            }
            EventType::SliceEnd => {
                let slice = self.tracks.end(uuid, ts_ns)?;
                Some(Outcome::Event(Event::Slice(slice)))
            }
            EventType::Instant => Some(Outcome::Event(Event::Instant {
                scope,
                ts_ns,
                category: texts.category(event)?,
                name: texts.name(event)?,
                annotations: texts.annotations(event)?,
            })),
            EventType::Counter => Some(Outcome::Event(Event::Counter {
                scope,
                name: self.tracks.name(uuid),
                ts_ns,
                value: event.counter_value?,
            })),
            EventType::Unspecified => None,
        }
    }
}

/// What became of a track event that was understood.
enum Outcome {
    Event(Event),
    /// A slice that will be an event when it ends.
    Begun,
}

impl<R: io::Read> Iterator for TraceReader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.advance() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}

fn clocks(snapshot: &ClockSnapshot) -> Option<Clocks> {
    let reading = |id| snapshot.clocks.iter().find(|reading| reading.clock_id == Some(id))?.timestamp;
    Some(Clocks {
        boottime_ns: reading(clock::BOOTTIME)?,
        monotonic_ns: reading(clock::MONOTONIC)?,
        realtime_ns: reading(clock::REALTIME)?,
    })
}
