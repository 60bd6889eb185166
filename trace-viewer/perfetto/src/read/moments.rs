//! What a trace says, in the order in which it says it, without an allocation for each event.
//!
//! Slices are given as their begins and ends. Texts are whatever the reader's user makes of them, once for each time that
//! the trace defines one: a shared string, a number in a table of the user's own.

use std::{io::Read, ops::Range};

use prost::Message as _;

use super::{
    OwnedAnnotation,
    packet::{self, Packet},
    packets::{Packets, ReadError, Tail},
    sequence::Sequences,
    tracks::Tracks,
    wire::Malformed,
};
use crate::{
    clocks::Clocks,
    identity::{ProcessId, Scope, ThreadId, TrackId},
    schema::{ClockSnapshot, EventType, TrackDescriptor, clock},
    stack::Stack,
};

/// One thing that a trace says. Times are `CLOCK_BOOTTIME` nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment<T> {
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
        name: T,
    },
    /// A slice begins: [`MomentReader::what`].
    Begin {
        /// The uuid of its track, by which its end is found.
        track: u64,
        /// On whose track.
        scope: Scope,
        /// When.
        ts_ns: u64,
    },
    /// The last slice that has begun on a track and not ended ends.
    End {
        /// The uuid of the track.
        track: u64,
        /// When.
        ts_ns: u64,
    },
    /// A slice as a whole, of a queue of a GPU: [`MomentReader::what`].
    Whole {
        /// On whose track.
        scope: Scope,
        /// When it began.
        begin_ns: u64,
        /// When it ended.
        end_ns: u64,
    },
    /// Something happened at one moment: [`MomentReader::what`].
    Instant {
        /// On whose track.
        scope: Scope,
        /// When.
        ts_ns: u64,
    },
    /// A sample of a counter.
    Counter {
        /// Where the counter is shown.
        scope: Scope,
        /// The counter's name.
        name: T,
        /// When.
        ts_ns: u64,
        /// The value.
        value: i64,
    },
}

/// What is said about a slice or an instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct What<T> {
    /// Its category; empty if it has none.
    pub category: T,
    /// Its name; empty if it has none.
    pub name: T,
    /// What is known about it.
    pub annotations: Vec<OwnedAnnotation<T>>,
    /// Arrows that begin here or pass through.
    pub flows: Vec<u64>,
    /// Arrows that end here.
    pub ended_flows: Vec<u64>,
    /// Who called it, if that is said.
    pub stack: Option<Stack<T>>,
}

impl<T: Default> What<T> {
    /// Keeps the memory of the lists.
    pub(super) fn clear(&mut self) {
        (self.category, self.name) = Default::default();
        self.annotations.clear();
        self.flows.clear();
        self.ended_flows.clear();
        self.stack = None;
    }
}

/// Reads a trace, moment by moment.
#[derive(Debug)]
pub struct MomentReader<R, T> {
    packets: Packets<R>,
    said: Said<T>,
    part: Range<u64>,
}

/// What packets have said so far.
#[derive(Debug)]
struct Said<T> {
    sequences: Sequences<T>,
    tracks: Tracks<T>,
    what: What<T>,
    skipped: u64,
}

impl<R: Read, T: Clone + Default> MomentReader<R, T> {
    /// Reads from `input`, which needs no buffer of its own.
    pub fn new(input: R) -> Self {
        Self::part(input, 0..u64::MAX)
    }

    /// Reads what the packets say that begin in this part of `input`, which is given from its beginning: of those before it
    /// only what others lean on is looked at. Parts side by side say what the whole does.
    pub fn part(input: R, part: Range<u64>) -> Self {
        let (sequences, tracks, what) = Default::default();
        Self { packets: Packets::new(input), said: Said { sequences, tracks, what, skipped: 0 }, part }
    }

    /// The next moment, or `None` at the end of the input. `intern` makes something of a text. Not to be called again
    /// after an error.
    pub fn next(&mut self, intern: &mut impl FnMut(&str) -> T) -> Result<Option<Moment<T>>, ReadError> {
        loop {
            let offset = self.packets.offset();
            let body = if offset < self.part.end { self.packets.next()? } else { None };
            let Some(body) = body else { return Ok(None) };
            let moment = if offset < self.part.start {
                self.said.heed(body, intern).map(|()| None)
            } else {
                self.said.packet(body, intern)
            };
            let malformed = |source| ReadError::Malformed { offset: self.packets.offset(), source };
            let moment = moment.map_err(malformed)?;
            self.packets.accept();
            if moment.is_some() {
                return Ok(moment);
            }
        }
    }

    /// What was said about the slice or the instant that was given last. Its lists may be taken away.
    pub fn what(&mut self) -> &mut What<T> {
        &mut self.said.what
    }

    /// How the trace ended, as far as it has been read.
    pub fn tail(&self) -> Tail {
        self.packets.tail()
    }

    /// Bytes of whole packets read so far, from the beginning of the input.
    pub fn bytes_read(&self) -> u64 {
        self.packets.offset()
    }

    /// Events left out so far: on another clock, or on a sequence whose state was lost.
    pub fn skipped(&self) -> u64 {
        self.said.skipped
    }
}

impl<T: Clone + Default> Said<T> {
    /// Takes note of what later packets lean on.
    fn heed(&mut self, body: &[u8], intern: &mut impl FnMut(&str) -> T) -> Result<(), Malformed> {
        let packet = Packet::of(body)?;
        self.sequences.packet(&packet, intern)?;
        if let Some(descriptor) = packet.descriptor {
            self.tracks.describe(TrackDescriptor::decode(descriptor)?, intern);
        }
        Ok(())
    }

    /// `None` if nothing is said that is understood.
    fn packet(
        &mut self,
        body: &[u8],
        intern: &mut impl FnMut(&str) -> T,
    ) -> Result<Option<Moment<T>>, Malformed> {
        let packet = Packet::of(body)?;
        let interned = self.sequences.packet(&packet, intern)?;
        if let Some(snapshot) = packet.clocks {
            return Ok(clocks(&ClockSnapshot::decode(snapshot)?).map(Moment::Clocks));
        }
        if let Some(descriptor) = packet.descriptor {
            return Ok(self.tracks.describe(TrackDescriptor::decode(descriptor)?, intern));
        }
        let what = &mut self.what;
        let moment = match (packet.event, packet.gpu_stage, interned.zip(packet.ts_ns)) {
            (None, None, _) => return Ok(None),
            (_, _, None) => None,
            (Some(body), _, Some((interned, ts_ns))) => {
                let head = packet::event(body, interned, intern, what)?;
                head.and_then(|head| self.moment(head, ts_ns))
            }
            (None, Some(body), Some((interned, begin_ns))) => {
                packet::gpu_stage(body, interned, intern, what)?.map(|(track, duration_ns)| Moment::Whole {
                    scope: Scope::Track(track),
                    begin_ns,
                    end_ns: begin_ns.saturating_add(duration_ns),
                })
            }
        };
        self.skipped += u64::from(moment.is_none());
        Ok(moment)
    }

    fn moment(&self, head: packet::Head, ts_ns: u64) -> Option<Moment<T>> {
        let track = head.track;
        let scope = || self.tracks.scope(track);
        Some(match head.event_type {
            EventType::SliceBegin => Moment::Begin { track, scope: scope(), ts_ns },
            EventType::SliceEnd => Moment::End { track, ts_ns },
            EventType::Instant => Moment::Instant { scope: scope(), ts_ns },
            EventType::Counter => {
                let value = head.counter_value?;
                Moment::Counter { scope: scope(), name: self.tracks.name(track), ts_ns, value }
            }
            EventType::Unspecified => return None,
        })
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
