//! From the events of a file to a store.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, SyncSender},
    },
    thread,
};

use foldhash::fast::RandomState;
use xsched_perfetto::{
    Event, Input, LOST_EVENTS, OwnedAnnotation, OwnedSlice, OwnedValue, ProcessId, ReadError, Scope, Tail,
    ThreadId, TraceReader, TrackId,
};

use super::{
    Group, Mark, Sample, SliceId, Store, Track, TrackKind,
    slices::{Facts, Slices, Unsorted},
    texts::{TextId, Texts},
};
use crate::failure::Failure;

/// Tracks inside of tracks that are followed to the top; a file that says more goes in circles.
const ANCESTORS_MAX: usize = 16;

/// Events that are handed over at once, and how many such batches may wait.
const BATCH: usize = 4096;
const BATCHES_MAX: usize = 8;

/// Reads a file as far as it can be read. Decoding and sorting away take as long as each other, so each has a thread.
pub(crate) fn load(path: &Path, file: impl Read + Send) -> Result<Store, Failure> {
    let unreadable = |source| Failure::Input { file: path.to_owned(), source };
    let mut input = Input::open(file).map_err(unreadable)?;
    let mut loading = Loading::default();
    let (sender, receiver) = mpsc::sync_channel(BATCHES_MAX);
    let reading = thread::scope(|scope| {
        let input = &mut input;
        // The sender goes with the thread, and with the sender the end of the batches.
        let reading = scope.spawn(move || Reading::new(input, &sender));
        for batch in receiver {
            for event in batch {
                loading.event(event);
            }
        }
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
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
    (condition.is_cut, condition.skipped) = (is_cut, reading.skipped);
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

impl Reading {
    /// Reads to the end or to an error, and sends what was read.
    fn new(input: &mut impl Read, sender: &SyncSender<Vec<Event>>) -> Self {
        let mut reader = TraceReader::new(input);
        let (mut batch, mut error) = (Vec::with_capacity(BATCH), None);
        for event in reader.by_ref() {
            match event {
                Ok(event) => batch.push(event),
                Err(cause) => error = Some(cause),
            }
            if batch.len() == BATCH {
                let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                sender.send(full).expect("the receiver takes batches for as long as there is a sender");
            }
        }
        sender.send(batch).expect("as above");
        Self { tail: reader.tail(), bytes: reader.bytes_read(), skipped: reader.skipped(), error }
    }
}

/// What events have said so far.
#[derive(Default)]
struct Loading {
    store: Store,
    places: HashMap<Place, usize, RandomState>,
    tracks: Vec<Unfinished>,
    processes: HashMap<ProcessId, (String, String)>,
    threads: HashMap<ThreadId, String>,
    described: HashMap<TrackId, (Scope, Arc<str>)>,
    followed: HashSet<ProcessId>,
    span_ns: Option<(u64, u64)>,
    /// What to add to a time to get that of the clock on the wall.
    realtime_offset_ns: Option<i64>,
}

/// Where events belong that are drawn together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Events(Scope),
    Counter(Scope, Arc<str>),
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
    fn event(&mut self, event: Event) {
        match event {
            Event::Slice(slice) => self.slice(&slice),
            Event::Instant { scope, ts_ns, category, name, annotations } => {
                let arguments = self.store.arguments.push(&mut self.store.texts, &annotations);
                let (name, category) = (self.store.texts.add(&name), self.store.texts.add(&category));
                self.reach(ts_ns);
                self.track(Place::Events(scope)).marks.push(Mark { ts_ns, name, category, arguments });
            }
            Event::Counter { scope, name, ts_ns, value } => {
                if scope == Scope::Global && &*name == LOST_EVENTS {
                    self.store.condition.lost = value.unsigned_abs();
                }
                self.reach(ts_ns);
                self.track(Place::Counter(scope, name)).samples.push(Sample { ts_ns, value });
            }
            Event::Clocks(clocks) => {
                let offset_ns = clocks.realtime_ns.wrapping_sub(clocks.boottime_ns) as i64;
                self.realtime_offset_ns.get_or_insert(offset_ns);
            }
            Event::Process { id, name, cmdline } => {
                let known = self.processes.entry(id).or_default();
                if let Some(name) = name.filter(|_| known.0.is_empty()) {
                    known.0 = name;
                }
                if !cmdline.is_empty() {
                    known.1 = cmdline.join(" ");
                }
            }
            Event::Thread { id, name } => {
                if let Some(name) = name {
                    self.threads.insert(id, name);
                }
            }
            Event::Track { id, parent, name } => {
                self.described.insert(id, (parent, name));
            }
        }
    }

    fn slice(&mut self, slice: &OwnedSlice) {
        let texts = &mut self.store.texts;
        let facts = Facts {
            name: texts.add(&slice.name),
            category: texts.add(&slice.category),
            kernel: text(texts, &slice.annotations, "kernel").unwrap_or_default(),
            origin: origin(texts, &slice.annotations),
            arguments: self.store.arguments.push(texts, &slice.annotations),
            flow: slice.flows.first().copied().unwrap_or(0),
            ended_flow: slice.ended_flows.first().copied().unwrap_or(0),
            is_open: false,
        };
        self.store.condition.unfinished += u64::from(slice.end_ns.is_none());
        if let (Scope::Thread(thread), true) = (slice.scope, facts.flow != 0) {
            self.followed.insert(thread.process);
        }
        self.reach(slice.begin_ns);
        if let Some(end_ns) = slice.end_ns {
            self.reach(end_ns);
        }
        let unsorted = Unsorted { begin_ns: slice.begin_ns, end_ns: slice.end_ns, facts };
        self.track(Place::Events(slice.scope)).slices.push(unsorted);
    }

    fn reach(&mut self, ts_ns: u64) {
        let (first, last) = self.span_ns.unwrap_or((ts_ns, ts_ns));
        self.span_ns = Some((first.min(ts_ns), last.max(ts_ns)));
    }

    fn track(&mut self, place: Place) -> &mut Unfinished {
        let index = *self.places.entry(place).or_insert_with_key(|place| {
            let (slices, marks, samples) = (Vec::new(), Vec::new(), Vec::new());
            self.tracks.push(Unfinished { place: place.clone(), slices, marks, samples });
            self.tracks.len() - 1
        });
        &mut self.tracks[index]
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
            Place::Counter(_, name) => name.to_string(),
            Place::Events(Scope::Thread(thread)) => match self.threads.get(thread) {
                Some(name) => format!("{name} {}", thread.tid),
                None => format!("thread {}", thread.tid),
            },
            Place::Events(Scope::Track(id)) => {
                self.described.get(id).map_or_else(String::new, |(_, name)| name.to_string())
            }
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
                let name = self.described.get(&id).map(|(_, name)| name.to_string());
                Group { name: name.unwrap_or_default(), pid: None, cmdline: String::new() }
            }
            Owner::Trace => Group { name: "Recording".to_owned(), pid: None, cmdline: String::new() },
        }
    }
}

/// The library to which a call belongs; the calling one in recordings that say no more.
fn origin(texts: &mut Texts, annotations: &[OwnedAnnotation]) -> TextId {
    text(texts, annotations, "origin").or_else(|| text(texts, annotations, "library")).unwrap_or_default()
}

/// The text of one argument, if it is there and is one.
fn text(texts: &mut Texts, annotations: &[OwnedAnnotation], name: &str) -> Option<TextId> {
    match &annotations.iter().find(|annotation| &*annotation.name == name)?.value {
        OwnedValue::Str(text) => Some(texts.add(text)),
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
