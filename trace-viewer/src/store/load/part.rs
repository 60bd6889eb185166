//! What one reader takes in of its part of a file.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::RandomState;
use xsched_perfetto::{
    LOST_EVENTS, Moment, MomentReader, OwnedAnnotation, OwnedValue, ProcessId, Scope, ThreadId, TrackId, What,
};

use super::Reading;
use crate::store::{
    Mark, Sample,
    arguments::Arguments,
    slices::{Facts, Unsorted},
    stacks::Stacks,
    texts::{TextId, Texts},
};

/// What the moments of a part have said.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) arguments: Arguments,
    pub(super) stacks: Stacks,
    pub(super) tracks: Vec<Unfinished>,
    /// Slices that have begun and not ended, by the uuid of their track: which track that is here, and which of its slices.
    pub(super) open: HashMap<u64, Vec<(usize, usize)>, RandomState>,
    /// Ends of slices that have begun before, if at all: the uuid of their track, and when.
    pub(super) ends: Vec<(u64, u64)>,
    /// Names and command lines.
    pub(super) processes: HashMap<ProcessId, (String, String)>,
    pub(super) threads: HashMap<ThreadId, String>,
    pub(super) described: HashMap<TrackId, (Scope, TextId)>,
    pub(super) followed: HashSet<ProcessId>,
    pub(super) span_ns: Option<(u64, u64)>,
    /// What to add to a time to get that of the clock on the wall.
    pub(super) realtime_offset_ns: Option<i64>,
    /// Events that the recorder says it has lost, if it says so here.
    pub(super) lost: Option<u64>,
    /// Events that this reader does not understand.
    pub(super) skipped: u64,
    pub(super) reading: Reading,
    names: Names,
    places: HashMap<Place, usize, RandomState>,
    /// Where the last moment belonged: the next one mostly belongs there, too.
    last_place: Option<(Place, usize)>,
}

/// Where events belong that are drawn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Events(Scope),
    Counter(Scope, TextId),
}

/// A track before its slices are sorted.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) place: Place,
    pub(super) slices: Vec<Unsorted>,
    pub(super) marks: Vec<Mark>,
    pub(super) samples: Vec<Sample>,
}

/// Texts that mean something here.
#[derive(Debug)]
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
        let mut reader = MomentReader::part(input, part);
        let mut said = Self::new(&mut lock(texts));
        // A text is looked up when it is defined, which is rare: readers hardly meet here.
        let mut intern = |text: &str| lock(texts).add(text);
        said.reading.error = loop {
            match reader.next(&mut intern) {
                Ok(Some(moment)) => said.moment(moment, reader.what()),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        said.stacks.forget_addresses();
        said.skipped += reader.skipped();
        said.reading.tail = Some(reader.tail());
        said.reading.bytes = reader.bytes_read();
        said.reading.is_whole = said.reading.bytes >= end;
        said
    }

    fn new(texts: &mut Texts) -> Self {
        Self {
            arguments: Arguments::default(),
            stacks: Stacks::default(),
            tracks: Vec::new(),
            open: HashMap::default(),
            ends: Vec::new(),
            processes: HashMap::new(),
            threads: HashMap::new(),
            described: HashMap::new(),
            followed: HashSet::new(),
            span_ns: None,
            realtime_offset_ns: None,
            lost: None,
            skipped: 0,
            reading: Reading::default(),
            names: Names::new(texts),
            places: HashMap::default(),
            last_place: None,
        }
    }

    fn moment(&mut self, moment: Moment<TextId>, what: &What<TextId>) {
        match moment {
            Moment::Begin { track, scope, ts_ns } => {
                let begun = self.slice(scope, ts_ns, None, what);
                self.open.entry(track).or_default().push(begun);
            }
            Moment::Whole { scope, begin_ns, end_ns } => {
                self.reach(end_ns);
                self.slice(scope, begin_ns, Some(end_ns), what);
            }
            Moment::End { track, ts_ns } => match self.open.get_mut(&track).and_then(Vec::pop) {
                Some((track, index)) => {
                    self.reach(ts_ns);
                    self.tracks[track].slices[index].end_ns = Some(ts_ns);
                }
                None => self.ends.push((track, ts_ns)),
            },
            Moment::Instant { scope, ts_ns } => {
                let arguments = self.arguments.push(&what.annotations);
                let mark = Mark { ts_ns, name: what.name, category: what.category, arguments };
                self.reach(ts_ns);
                let track = self.track(Place::Events(scope));
                self.tracks[track].marks.push(mark);
            }
            Moment::Counter { scope, name, ts_ns, value } => {
                if scope == Scope::Global && name == self.names.lost_events {
                    self.lost = Some(value.unsigned_abs());
                }
                self.reach(ts_ns);
                let track = self.track(Place::Counter(scope, name));
                self.tracks[track].samples.push(Sample { ts_ns, value });
            }
            Moment::Clocks(clocks) => {
                let offset_ns = clocks.realtime_ns.wrapping_sub(clocks.boottime_ns) as i64;
                self.realtime_offset_ns.get_or_insert(offset_ns);
            }
            Moment::Process { id, name, cmdline } => {
                let known = self.processes.entry(id).or_default();
                if let Some(name) = name.filter(|_| known.0.is_empty()) {
                    known.0 = name;
                }
                if !cmdline.is_empty() {
                    known.1 = cmdline.join(" ");
                }
            }
            Moment::Thread { id, name } => {
                if let Some(name) = name {
                    self.threads.insert(id, name);
                }
            }
            Moment::Track { id, parent, name } => {
                self.described.insert(id, (parent, name));
            }
        }
    }

    /// Takes in a slice; returns its track here, and which of its slices it is.
    fn slice(
        &mut self,
        scope: Scope,
        begin_ns: u64,
        end_ns: Option<u64>,
        what: &What<TextId>,
    ) -> (usize, usize) {
        let text = |name| text(&what.annotations, name);
        let facts = Facts {
            name: what.name,
            category: what.category,
            kernel: text(self.names.kernel).unwrap_or_default(),
            // The library to which it belongs; the calling one in recordings that say no more.
            origin: text(self.names.origin).or_else(|| text(self.names.library)).unwrap_or_default(),
            stack: what.stack.as_ref().map(|stack| self.stacks.add(stack)).unwrap_or_default(),
            arguments: self.arguments.push(&what.annotations),
            flow: what.flows.first().copied().unwrap_or(0),
            ended_flow: what.ended_flows.first().copied().unwrap_or(0),
            is_open: false,
        };
        if let (Scope::Thread(thread), true) = (scope, facts.flow != 0) {
            self.followed.insert(thread.process);
        }
        self.reach(begin_ns);
        let track = self.track(Place::Events(scope));
        let slices = &mut self.tracks[track].slices;
        slices.push(Unsorted { begin_ns, end_ns, facts });
        (track, slices.len() - 1)
    }

    fn reach(&mut self, ts_ns: u64) {
        let (first, last) = self.span_ns.unwrap_or((ts_ns, ts_ns));
        self.span_ns = Some((first.min(ts_ns), last.max(ts_ns)));
    }

    /// Which of the tracks events with this place belong to.
    fn track(&mut self, place: Place) -> usize {
        if let Some((last, index)) = self.last_place
            && last == place
        {
            return index;
        }
        let index = *self.places.entry(place).or_insert_with(|| {
            self.tracks.push(Unfinished::new(place));
            self.tracks.len() - 1
        });
        self.last_place = Some((place, index));
        index
    }
}

impl Unfinished {
    pub(super) fn new(place: Place) -> Self {
        Self { place, slices: Vec::new(), marks: Vec::new(), samples: Vec::new() }
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

/// The text of one argument, if it is there and is one.
fn text(annotations: &[OwnedAnnotation<TextId>], name: TextId) -> Option<TextId> {
    match annotations.iter().find(|annotation| annotation.name == name)?.value {
        OwnedValue::Str(text) => Some(text),
        _ => None,
    }
}

/// A reader that panicked has added a text or has not.
fn lock(texts: &Mutex<Texts>) -> MutexGuard<'_, Texts> {
    texts.lock().unwrap_or_else(PoisonError::into_inner)
}
