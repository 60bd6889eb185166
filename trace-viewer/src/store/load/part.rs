//! Reads one part of a file.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::RandomState;
use xsched_perfetto::{
    EventDetails, LOST_EVENTS, OwnedAnnotation, OwnedValue, ProcessId, RawEvent, RawEventReader, Scope,
    ThreadId, TrackId,
};

use super::Reading;
use crate::store::{
    Mark, Sample,
    arguments::Arguments,
    slices::{Facts, Unsorted},
    stacks::Stacks,
    texts::{TextId, Texts},
};

/// The contents of a part, or of several adjacent ones.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) arguments: Arguments,
    pub(super) stacks: Stacks,
    pub(super) tracks: Vec<UnsortedTrack>,
    /// Slices that have begun and not ended, by the uuid of their track: the index of the track here, and of the slice in it.
    pub(super) open: HashMap<u64, Vec<(usize, usize)>, RandomState>,
    /// Ends of slices that began before this part, if at all: the uuid of the track, and the time.
    pub(super) ends: Vec<(u64, u64)>,
    /// Names and command lines.
    pub(super) processes: HashMap<ProcessId, (String, String)>,
    pub(super) threads: HashMap<ThreadId, String>,
    pub(super) described: HashMap<TrackId, (Scope, TextId)>,
    pub(super) followed: HashSet<ProcessId>,
    pub(super) span_ns: Option<(u64, u64)>,
    /// What to add to a time to get the realtime clock.
    pub(super) realtime_offset_ns: Option<i64>,
    /// Events that the recorder reports as lost, if this part contains such a report.
    pub(super) lost: Option<u64>,
    /// Events that this reader does not understand.
    pub(super) skipped: u64,
    pub(super) reading: Reading,
    names: Names,
    track_indexes: HashMap<TrackKey, usize, RandomState>,
    /// The track of the last event: the next one mostly has the same.
    last_track: Option<(TrackKey, usize)>,
}

/// Identifies a track: events with the same key are drawn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TrackKey {
    Events(Scope),
    Counter(Scope, TextId),
}

/// A track before its slices are sorted.
#[derive(Debug)]
pub(super) struct UnsortedTrack {
    pub(super) key: TrackKey,
    pub(super) slices: Vec<Unsorted>,
    pub(super) marks: Vec<Mark>,
    pub(super) samples: Vec<Sample>,
}

/// Texts with a meaning for the viewer.
#[derive(Debug, Default)]
struct Names {
    kernel: TextId,
    origin: TextId,
    library: TextId,
    lost_events: TextId,
}

impl Part {
    /// Reads to the end of the part, or to an error. `input` begins where the file does.
    pub(super) fn read(input: impl Read, part: Range<u64>, texts: &Mutex<Texts>) -> Self {
        let end = part.end;
        let mut reader = RawEventReader::part(input, part);
        let mut read = Self { names: Names::new(&mut lock(texts)), ..Self::default() };
        // A text is looked up when it is defined, which is rare, so readers hardly ever wait for this lock.
        let mut intern = |text: &str| lock(texts).add(text);
        read.reading.error = loop {
            match reader.next(&mut intern) {
                Ok(Some(event)) => read.event(event, reader.details()),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        read.stacks.forget_addresses();
        read.skipped += reader.skipped();
        read.reading.tail = Some(reader.tail());
        read.reading.bytes = reader.bytes_read();
        read.reading.is_whole = read.reading.bytes >= end;
        read
    }

    fn event(&mut self, event: RawEvent<TextId>, details: &EventDetails<TextId>) {
        match event {
            RawEvent::Begin { track, scope, ts_ns } => {
                let begun = self.slice(scope, ts_ns, None, details);
                self.open.entry(track).or_default().push(begun);
            }
            RawEvent::Whole { scope, begin_ns, end_ns } => {
                self.reach(end_ns);
                self.slice(scope, begin_ns, Some(end_ns), details);
            }
            RawEvent::End { track, ts_ns } => match self.open.get_mut(&track).and_then(Vec::pop) {
                Some((track, index)) => {
                    self.reach(ts_ns);
                    self.tracks[track].slices[index].end_ns = Some(ts_ns);
                }
                None => self.ends.push((track, ts_ns)),
            },
            RawEvent::Instant { scope, ts_ns } => {
                let arguments = self.arguments.push(&details.annotations);
                let mark = Mark { ts_ns, name: details.name, category: details.category, arguments };
                self.reach(ts_ns);
                let track = self.track(TrackKey::Events(scope));
                self.tracks[track].marks.push(mark);
            }
            RawEvent::Counter { scope, name, ts_ns, value } => {
                if scope == Scope::Global && name == self.names.lost_events {
                    self.lost = Some(value.unsigned_abs());
                }
                self.reach(ts_ns);
                let track = self.track(TrackKey::Counter(scope, name));
                self.tracks[track].samples.push(Sample { ts_ns, value });
            }
            RawEvent::Clocks(clocks) => {
                let offset_ns = clocks.realtime_ns.wrapping_sub(clocks.boottime_ns) as i64;
                self.realtime_offset_ns.get_or_insert(offset_ns);
            }
            RawEvent::Process { id, name, cmdline } => {
                self.add_process(id, name.unwrap_or_default(), cmdline.join(" "));
            }
            RawEvent::Thread { id, name } => {
                if let Some(name) = name {
                    self.threads.insert(id, name);
                }
            }
            RawEvent::Track { id, parent, name } => {
                self.described.insert(id, (parent, name));
            }
        }
    }

    /// Adds a slice; returns the index of its track here, and its index in the track.
    fn slice(
        &mut self,
        scope: Scope,
        begin_ns: u64,
        end_ns: Option<u64>,
        details: &EventDetails<TextId>,
    ) -> (usize, usize) {
        let text = |name| text(&details.annotations, name);
        let facts = Facts {
            name: details.name,
            category: details.category,
            kernel: text(self.names.kernel).unwrap_or_default(),
            // The library that the call belongs to, or the calling library in recordings that have only that.
            origin: text(self.names.origin).or_else(|| text(self.names.library)).unwrap_or_default(),
            stack: details.stack.as_ref().map(|stack| self.stacks.add(stack)).unwrap_or_default(),
            arguments: self.arguments.push(&details.annotations),
            flow: details.flows.first().copied().unwrap_or(0),
            ended_flow: details.ended_flows.first().copied().unwrap_or(0),
            is_open: false,
        };
        if let (Scope::Thread(thread), true) = (scope, facts.flow != 0) {
            self.followed.insert(thread.process);
        }
        self.reach(begin_ns);
        let track = self.track(TrackKey::Events(scope));
        let slices = &mut self.tracks[track].slices;
        slices.push(Unsorted { begin_ns, end_ns, facts });
        (track, slices.len() - 1)
    }

    /// The first name of a process is kept, and its last command line.
    pub(super) fn add_process(&mut self, id: ProcessId, name: String, cmdline: String) {
        let known = self.processes.entry(id).or_default();
        if known.0.is_empty() {
            known.0 = name;
        }
        if !cmdline.is_empty() {
            known.1 = cmdline;
        }
    }

    pub(super) fn reach(&mut self, ts_ns: u64) {
        let (first, last) = self.span_ns.unwrap_or((ts_ns, ts_ns));
        self.span_ns = Some((first.min(ts_ns), last.max(ts_ns)));
    }

    /// The index of the track with this key; adds the track if it is new.
    pub(super) fn track(&mut self, key: TrackKey) -> usize {
        if let Some((last, index)) = self.last_track
            && last == key
        {
            return index;
        }
        let index = *self.track_indexes.entry(key).or_insert_with(|| {
            let (slices, marks, samples) = Default::default();
            self.tracks.push(UnsortedTrack { key, slices, marks, samples });
            self.tracks.len() - 1
        });
        self.last_track = Some((key, index));
        index
    }
}

impl Names {
    fn new(texts: &mut Texts) -> Self {
        Self {
            kernel: texts.add("kernel"),
            origin: texts.add("origin"),
            library: texts.add("library"),
            lost_events: texts.add(LOST_EVENTS),
        }
    }
}

/// The value of one argument, if there is one and it is a text.
fn text(annotations: &[OwnedAnnotation<TextId>], name: TextId) -> Option<TextId> {
    match annotations.iter().find(|annotation| annotation.name == name)?.value {
        OwnedValue::Str(text) => Some(text),
        _ => None,
    }
}

/// The texts are consistent even if a reader has panicked: it has either added a text or not.
fn lock(texts: &Mutex<Texts>) -> MutexGuard<'_, Texts> {
    texts.lock().unwrap_or_else(PoisonError::into_inner)
}
