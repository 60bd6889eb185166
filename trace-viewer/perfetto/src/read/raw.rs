//! Reads raw events, in the order of the trace, without an allocation for each event.
//!
//! Begins and ends of slices are separate events. The caller chooses the type of texts, for example a shared string or a number
//! in a table of its own. Its function converts each text once for each definition in the trace.

use std::{io::Read, ops::Range};

use prost::Message as _;

use super::{
    event::{EventDetails, RawEvent},
    packet::{self, Packet},
    packets::{Packets, ReadError, Tail},
    sequence::Sequences,
    tracks::Tracks,
    wire::Malformed,
};
use crate::{
    clocks::Clocks,
    identity::Scope,
    schema::{ClockSnapshot, EventType, TrackDescriptor, clock},
};

/// Reads a trace, event by event.
#[derive(Debug)]
pub struct RawEventReader<R, T> {
    packets: Packets<R>,
    state: ReaderState<T>,
    part: Range<u64>,
}

/// The state that packets have established so far.
#[derive(Debug)]
struct ReaderState<T> {
    sequences: Sequences<T>,
    tracks: Tracks<T>,
    details: EventDetails<T>,
    skipped: u64,
}

impl<R: Read, T: Clone + Default> RawEventReader<R, T> {
    /// Reads from `input`, which need not be buffered.
    pub fn new(input: R) -> Self {
        Self::part(input, 0..u64::MAX)
    }

    /// Reads the packets that begin in this part of `input`, which is given from its beginning. From the packets before the
    /// part it reads only definitions that later packets may refer to. Adjacent parts give the same events as the whole.
    pub fn part(input: R, part: Range<u64>) -> Self {
        let (sequences, tracks, details) = Default::default();
        Self {
            packets: Packets::new(input),
            state: ReaderState { sequences, tracks, details, skipped: 0 },
            part,
        }
    }

    /// The next event, or `None` at the end of the input. `intern` converts a text. Must not be called again after an error.
    pub fn next(&mut self, intern: &mut impl FnMut(&str) -> T) -> Result<Option<RawEvent<T>>, ReadError> {
        loop {
            let offset = self.packets.offset();
            let body = if offset < self.part.end { self.packets.next()? } else { None };
            let Some(body) = body else { return Ok(None) };
            let event = if offset < self.part.start {
                self.state.definitions(body, intern).map(|()| None)
            } else {
                self.state.packet(body, intern)
            };
            let malformed = |source| ReadError::Malformed { offset: self.packets.offset(), source };
            let event = event.map_err(malformed)?;
            self.packets.accept();
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// The details of the last slice or instant. The caller may take the lists.
    pub fn details(&mut self) -> &mut EventDetails<T> {
        &mut self.state.details
    }

    /// How the trace ended, as far as it has been read.
    pub fn tail(&self) -> Tail {
        self.packets.tail()
    }

    /// Bytes of whole packets read so far, from the beginning of the input.
    pub fn bytes_read(&self) -> u64 {
        self.packets.offset()
    }

    /// The number of events left out so far: those on another clock, or on a sequence that lost its state.
    pub fn skipped(&self) -> u64 {
        self.state.skipped
    }
}

impl<T: Clone + Default> ReaderState<T> {
    /// Reads only the definitions that later packets may refer to.
    fn definitions(&mut self, body: &[u8], intern: &mut impl FnMut(&str) -> T) -> Result<(), Malformed> {
        let packet = Packet::of(body)?;
        self.sequences.packet(&packet, intern)?;
        if let Some(descriptor) = packet.descriptor {
            self.tracks.describe(TrackDescriptor::decode(descriptor)?, intern);
        }
        Ok(())
    }

    /// `None` if the packet has no event that this reader understands.
    fn packet(
        &mut self,
        body: &[u8],
        intern: &mut impl FnMut(&str) -> T,
    ) -> Result<Option<RawEvent<T>>, Malformed> {
        let packet = Packet::of(body)?;
        let interned = self.sequences.packet(&packet, intern)?;
        if let Some(snapshot) = packet.clocks {
            return Ok(clocks(&ClockSnapshot::decode(snapshot)?).map(RawEvent::Clocks));
        }
        if let Some(descriptor) = packet.descriptor {
            return Ok(self.tracks.describe(TrackDescriptor::decode(descriptor)?, intern));
        }
        let details = &mut self.details;
        let event = match (packet.event, packet.gpu_stage, interned.zip(packet.ts_ns)) {
            (None, None, _) => return Ok(None),
            (_, _, None) => None,
            (Some(body), _, Some((interned, ts_ns))) => {
                let head = packet::event(body, interned, intern, details)?;
                head.and_then(|head| self.event(head, ts_ns))
            }
            (None, Some(body), Some((interned, begin_ns))) => {
                packet::gpu_stage(body, interned, intern, details)?.map(|(track, duration_ns)| {
                    RawEvent::Whole {
                        scope: Scope::Track(track),
                        begin_ns,
                        end_ns: begin_ns.saturating_add(duration_ns),
                    }
                })
            }
        };
        self.skipped += u64::from(event.is_none());
        Ok(event)
    }

    fn event(&self, head: packet::EventHead, ts_ns: u64) -> Option<RawEvent<T>> {
        let track = head.track;
        let scope = || self.tracks.scope(track);
        Some(match head.event_type {
            EventType::SliceBegin => RawEvent::Begin { track, scope: scope(), ts_ns },
            EventType::SliceEnd => RawEvent::End { track, ts_ns },
            EventType::Instant => RawEvent::Instant { scope: scope(), ts_ns },
            EventType::Counter => {
                let value = head.counter_value?;
                RawEvent::Counter { scope: scope(), name: self.tracks.name(track), ts_ns, value }
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
