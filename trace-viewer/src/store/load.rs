//! From the moments of a file to a store.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    path::Path,
};

use foldhash::fast::RandomState;
use xsched_perfetto::{
    Input, LOST_EVENTS, Moment, MomentReader, OwnedAnnotation, OwnedValue, ProcessId, ReadError, Scope, Tail,
    ThreadId, TrackId, What,
};

use super::{
    Group, Mark, Sample, SliceId, Store, Track, TrackKind,
    read_ahead::ReadAhead,
    slices::{Facts, Slices, Unsorted},
    texts::{TextId, Texts},
};
use crate::failure::Failure;

/// Tracks inside of tracks that are followed to the top; a file that says more goes in circles.
const ANCESTORS_MAX: usize = 16;

/// Reads a file as far as it can be read.
pub(crate) fn load(path: &Path, file: impl Read + Send) -> Result<Store, Failure> {
    let unreadable = |source| Failure::Input { file: path.to_owned(), source };
    let mut input = Input::open(file).map_err(unreadable)?;
    let mut loading = Loading::default();
    let reading = ReadAhead::while_reading(&mut input, |ahead| loading.read(ahead));
    let is_cut = reading.tail != Tail::Whole || input.is_cut();
    if reading.bytes == 0 {
        let file = path.to_owned();
        return Err(match reading.error {
            Some(ReadError::Io { source, .. }) => Failure::Input { file, source },
            Some(source) => Failure::NotATimeline { file, source },
            None if is_cut => Failure::NothingWhole { file },
            None => Failure::Empty { file },
        });
    }
    let condition = &mut loading.store.condition;
    condition.is_cut = is_cut;
    condition.skipped += reading.skipped;
    condition.damage = reading.error.map(|error| error.to_string());
    Ok(loading.finish())
}

/// How reading went.
struct Reading {
    tail: Tail,
    /// Of whole packets.
    bytes: u64,
    skipped: u64,
    error: Option<ReadError>,
}

/// What moments have said so far.
#[derive(Default)]
struct Loading {
    store: Store,
    names: Names,
    places: HashMap<Place, usize, RandomState>,
    /// Where the last moment belonged: the next one mostly belongs there, too.
    last_place: Option<(Place, usize)>,
    tracks: Vec<Unfinished>,
    /// Slices that have begun, by the uuid of their track: which track that is here, and which of its slices.
    open: HashMap<u64, Vec<(usize, usize)>, RandomState>,
    processes: HashMap<ProcessId, (String, String)>,
    threads: HashMap<ThreadId, String>,
    described: HashMap<TrackId, (Scope, TextId)>,
    followed: HashSet<ProcessId>,
    span_ns: Option<(u64, u64)>,
    /// What to add to a time to get that of the clock on the wall.
    realtime_offset_ns: Option<i64>,
}

/// Where events belong that are drawn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Events(Scope),
    Counter(Scope, TextId),
}

/// Texts that mean something here.
struct Names {
    kernel: TextId,
    origin: TextId,
    library: TextId,
    lost_events: TextId,
}

/// A track before its slices are sorted.
struct Unfinished {
    place: Place,
    slices: Vec<Unsorted>,
    marks: Vec<Mark>,
    samples: Vec<Sample>,
}

/// What a group of tracks belongs to, in the order in which groups are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Root(TrackId),
    /// One whose launches are followed to the device.
    Followed(ProcessId),
    Process(ProcessId),
    Trace,
}

impl Loading {
    /// Reads to the end or to an error.
    fn read(&mut self, input: impl Read) -> Reading {
        let mut reader = MomentReader::new(input);
        self.names = Names::new(&mut self.store.texts);
        let error = loop {
            match reader.next(&mut |text| self.store.texts.add(text)) {
                Ok(Some(moment)) => self.moment(moment, reader.what()),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        self.store.stacks.forget_addresses();
        self.store.condition.unfinished = self.open.values().map(|open| open.len() as u64).sum();
        Reading { tail: reader.tail(), bytes: reader.bytes_read(), skipped: reader.skipped(), error }
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
                None => self.store.condition.skipped += 1,
            },
            Moment::Instant { scope, ts_ns } => {
                let arguments = self.store.arguments.push(&what.annotations);
                let mark = Mark { ts_ns, name: what.name, category: what.category, arguments };
                self.reach(ts_ns);
                let track = self.track(Place::Events(scope));
                self.tracks[track].marks.push(mark);
            }
            Moment::Counter { scope, name, ts_ns, value } => {
                if scope == Scope::Global && name == self.names.lost_events {
                    self.store.condition.lost = value.unsigned_abs();
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
            stack: what.stack.as_ref().map(|stack| self.store.stacks.add(stack)).unwrap_or_default(),
            arguments: self.store.arguments.push(&what.annotations),
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
            let (slices, marks, samples) = (Vec::new(), Vec::new(), Vec::new());
            self.tracks.push(Unfinished { place, slices, marks, samples });
            self.tracks.len() - 1
        });
        self.last_place = Some((place, index));
        index
    }

    fn finish(mut self) -> Store {
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        self.store.span_ns = first_ns..last_ns;
        self.store.realtime_ns =
            self.realtime_offset_ns.map(|offset_ns| first_ns.wrapping_add_signed(offset_ns));
        let parents: HashSet<TrackId> = self
            .described
            .values()
            .filter_map(|(parent, _)| if let Scope::Track(parent) = parent { Some(*parent) } else { None })
            .collect();

        let mut tracks: Vec<(Owner, Track)> = std::mem::take(&mut self.tracks)
            .into_iter()
            .map(|track| {
                let owner = self.owner(&track.place, &parents);
                (owner, self.sorted(track, last_ns))
            })
            .collect();
        tracks.sort_by(|(owner, track), (other_owner, other)| {
            owner.cmp(other_owner).then(track.kind.cmp(&other.kind)).then(track.name.cmp(&other.name))
        });
        let mut owners: Vec<Owner> = Vec::new();
        for (owner, mut track) in tracks {
            if owners.last() != Some(&owner) {
                owners.push(owner);
                self.store.groups.push(self.group(owner));
            }
            track.group = owners.len() - 1;
            self.store.tracks.push(track);
        }
        self.store.link();
        self.store
    }

    fn sorted(&mut self, track: Unfinished, last_ns: u64) -> Track {
        let Unfinished { place, slices, mut marks, mut samples } = track;
        let category = slices.first().map(|slice| self.store.texts.get(slice.facts.category));
        let kind = match (&place, category) {
            (Place::Counter(..), _) => TrackKind::Counter,
            (Place::Events(Scope::Thread(_)), _) => TrackKind::Thread,
            (_, Some("gpu")) => TrackKind::Execution,
            (_, Some("xqueue")) => TrackKind::Queue,
            (_, Some("arbiter")) => TrackKind::Arbiter,
            _ => TrackKind::Other,
        };
        let (slices, too_deep) = Slices::new(slices, last_ns);
        self.store.condition.too_deep += too_deep;
        marks.sort_by_key(|mark| mark.ts_ns);
        samples.sort_by_key(|sample| sample.ts_ns);
        Track { name: self.track_name(&place), group: 0, kind, slices, marks, samples }
    }

    fn track_name(&self, place: &Place) -> String {
        match place {
            Place::Counter(_, name) => self.store.texts.get(*name).to_owned(),
            Place::Events(Scope::Thread(thread)) => match self.threads.get(thread) {
                Some(name) => format!("{name} {}", thread.tid),
                None => format!("thread {}", thread.tid),
            },
            Place::Events(Scope::Track(id)) => self
                .described
                .get(id)
                .map_or_else(String::new, |(_, name)| self.store.texts.get(*name).to_owned()),
            Place::Events(Scope::Process(_) | Scope::Global) => "events".to_owned(),
        }
    }

    /// Follows a track to what it is shown below.
    fn owner(&self, place: &Place, parents: &HashSet<TrackId>) -> Owner {
        let (Place::Events(mut scope) | Place::Counter(mut scope, _)) = *place;
        for _ in 0..ANCESTORS_MAX {
            match scope {
                Scope::Global => break,
                Scope::Process(process) | Scope::Thread(ThreadId { process, .. }) => {
                    let is_followed = self.followed.contains(&process);
                    return if is_followed { Owner::Followed(process) } else { Owner::Process(process) };
                }
                Scope::Track(id) => match self.described.get(&id) {
                    Some((Scope::Global, _)) if parents.contains(&id) => return Owner::Root(id),
                    Some((parent, _)) => scope = *parent,
                    None => break,
                },
            }
        }
        Owner::Trace
    }

    fn group(&self, owner: Owner) -> Group {
        match owner {
            Owner::Followed(process) | Owner::Process(process) => {
                let (name, cmdline) = self.processes.get(&process).cloned().unwrap_or_default();
                let name = if name.is_empty() { "process".to_owned() } else { name };
                Group { name, pid: Some(process.pid), cmdline }
            }
            Owner::Root(id) => {
                let name = self.described.get(&id).map(|(_, name)| self.store.texts.get(*name).to_owned());
                Group { name: name.unwrap_or_default(), pid: None, cmdline: String::new() }
            }
            Owner::Trace => Group { name: "Recording".to_owned(), pid: None, cmdline: String::new() },
        }
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

impl Default for Names {
    /// Names of nothing, until there are texts.
    fn default() -> Self {
        let nothing = TextId::default();
        Self { kernel: nothing, origin: nothing, library: nothing, lost_events: nothing }
    }
}

/// The text of one argument, if it is there and is one.
fn text(annotations: &[OwnedAnnotation<TextId>], name: TextId) -> Option<TextId> {
    match annotations.iter().find(|annotation| annotation.name == name)?.value {
        OwnedValue::Str(text) => Some(text),
        _ => None,
    }
}

impl Store {
    /// Collects the arrows.
    fn link(&mut self) {
        for (track_index, track) in self.tracks.iter().enumerate() {
            for index in 0..track.slices.len() {
                let id = SliceId { track: track_index as u32, index: index as u32 };
                let (begun, ended) = (track.slices.flow(index), track.slices.ended_flow(index));
                if begun != 0 {
                    self.flows_begun.push((begun, id));
                }
                if ended != 0 {
                    self.flows_ended.push((ended, id));
                }
            }
        }
        self.flows_begun.sort_unstable();
        self.flows_ended.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use xsched_perfetto::{
        Annotation, Clocks, CounterTrack, Instant, Process, Slice, TraceWriter, Track as Described,
        TrackSlice, Unit,
    };

    use super::*;
    use crate::store::Condition;

    const CLOCKS: Clocks =
        Clocks { boottime_ns: 1_000, monotonic_ns: 1_000, realtime_ns: 1_700_000_000_000_000_000 };
    const PROCESS: ProcessId = ProcessId { pid: 41, start_ns: 500 };
    const THREAD: ThreadId = ThreadId { process: PROCESS, tid: 42 };

    fn trace() -> Vec<u8> {
        let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
        writer.process(&Process { id: PROCESS, name: "python3", cmdline: &["python3", "x.py"] }).unwrap();
        writer.thread(THREAD, "worker").unwrap();
        let annotations = [Annotation::new("origin", "librocblas.so"), Annotation::new("kernel", "gemm")];
        let launch = Slice {
            thread: THREAD,
            begin_ns: 2_000,
            end_ns: Some(2_100),
            category: "hip.launch",
            name: "hipLaunchKernel",
            annotations: &annotations,
        };
        writer.slice_with_flow(&launch, 9).unwrap();
        writer.slice(&Slice { begin_ns: 2_200, end_ns: None, name: "hipFree", ..launch }).unwrap();
        let device = writer.track(&Described { parent: Scope::Global, name: "GPU 0" }).unwrap();
        let stream = writer.track(&Described { parent: Scope::Track(device), name: "stream 1" }).unwrap();
        let execution = TrackSlice {
            track: stream,
            begin_ns: 2_500,
            end_ns: Some(3_000),
            category: "gpu",
            name: "gemm",
            annotations: &[],
            ended_flow: Some(9),
        };
        writer.track_slice(&execution).unwrap();
        let scope = Scope::Process(PROCESS);
        let depth = writer.counter_track(&CounterTrack { scope, name: "depth", unit: Unit::Count }).unwrap();
        writer.counter(depth, 2_300, 3).unwrap();
        let mark = Instant { scope, ts_ns: 2_400, category: "xqueue", name: "preempted", annotations: &[] };
        writer.instant(&mark).unwrap();
        writer.finish().unwrap()
    }

    fn loaded(trace: &[u8]) -> Store {
        load(Path::new("x"), trace).unwrap()
    }

    #[test]
    fn tracks_are_grouped_by_what_they_belong_to() {
        let store = loaded(&trace());
        let shown: Vec<_> = store
            .tracks
            .iter()
            .map(|track| (store.groups[track.group].name.as_str(), track.name.as_str(), track.kind.name()))
            .collect();
        let expected = [
            ("GPU 0", "stream 1", "execution"),
            ("python3", "worker 42", "thread"),
            ("python3", "events", "other"),
            ("python3", "depth", "counter"),
            ("Recording", "lost events", "counter"),
        ];
        assert_eq!(shown, expected);
        assert_eq!((store.groups[1].pid, store.groups[1].cmdline.as_str()), (Some(41), "python3 x.py"));
        assert_eq!(store.span_ns, 1_000..3_000);
        assert_eq!(store.realtime_ns, Some(CLOCKS.realtime_ns));
        assert_eq!(store.condition, Condition { unfinished: 1, ..Condition::default() });
    }

    #[test]
    fn a_launch_leads_to_what_it_started_and_back() {
        let store = loaded(&trace());
        let (launch, execution) = (SliceId { track: 1, index: 0 }, SliceId { track: 0, index: 0 });
        assert_eq!((store.ends_of(launch), store.begins_of(execution)), (vec![execution], vec![launch]));
        assert_eq!((store.begins_of(launch), store.ends_of(execution)), (vec![], vec![]));
        let (track, index) = store.slices_with(launch).unwrap();
        assert_eq!(store.texts.get(track.slices.kernel(index)), "gemm");
        assert_eq!(store.texts.get(track.slices.origin(index)), "librocblas.so");
        assert_eq!(store.argument_text(track.slices.arguments(index), "kernel"), Some("gemm"));
        assert_eq!(store.slices_with(SliceId { track: 1, index: 99 }).map(|_| ()), None);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let trace = trace();
        assert!(loaded(&trace[..trace.len() - 1]).condition.is_cut);
        let damaged = loaded(&[&trace[..], b"garbage"].concat());
        assert!(damaged.condition.damage.unwrap().contains("find a packet at byte"));
        assert_eq!(damaged.tracks.len(), 5);

        let failure = |bytes: &[u8]| load(Path::new("x"), bytes).unwrap_err();
        assert!(matches!(failure(b""), Failure::Empty { .. }));
        assert!(matches!(failure(b"hello, world"), Failure::NotATimeline { .. }));
        assert!(matches!(failure(&trace[..5]), Failure::NothingWhole { .. }));
    }

    /// A version to come may say more: fields that are not known, and other kinds of packets.
    #[test]
    fn what_a_newer_version_adds_is_passed_over() {
        let trace = trace();
        // Field 1 of the trace, 3 bytes long: field 999 of a packet, a number.
        let newer = [&trace[..], &[0x0a, 3, 0xb8, 0x3e, 1]].concat();
        let (store, plain) = (loaded(&newer), loaded(&trace));
        assert_eq!((store.condition, store.tracks.len()), (plain.condition, plain.tracks.len()));
    }

    #[test]
    fn a_file_without_events_is_a_timeline() {
        let store = loaded(&TraceWriter::new(Vec::new(), CLOCKS).unwrap().finish().unwrap());
        assert_eq!(store.tracks.iter().map(|track| track.slices.len()).sum::<usize>(), 0);
    }
}
