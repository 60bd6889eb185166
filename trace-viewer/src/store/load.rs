//! Loads a file into a store, with several readers at once, each of which reads a part of the file.
//!
//! A reader of a later part also scans the packets before it for definitions that later packets refer to (texts and tracks).
//! That takes a fraction of the time of reading them. A compressed file can only be read from its beginning, by one reader.

mod part;
mod whole;

use std::{
    fs::File,
    io::Read,
    num::NonZero,
    ops::Range,
    path::Path,
    sync::{Mutex, PoisonError},
    thread::{self, ScopedJoinHandle},
};

use xsched_perfetto::{Input, ReadError, Tail};

use self::part::Part;
use super::{Store, read_ahead::ReadAhead, texts::Texts};
use crate::{failure::Failure, positioned::PositionedReader};

/// A part gets a reader of its own if it has at least this many bytes.
const PART_LEN_MIN: u64 = 8 << 20;
/// More readers would mostly scan the packets before their parts.
const PARTS_MAX: u64 = 4;

/// Loads a file, up to its end or to the first damage.
pub(crate) fn load(path: &Path, file: &File) -> Result<Store, Failure> {
    let unreadable = |source| Failure::Input { file: path.to_owned(), source };
    let about = file.metadata().map_err(unreadable)?;
    let processors = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let count = (about.len() / PART_LEN_MIN).min(processors).min(PARTS_MAX);
    if about.is_file() && count > 1 {
        let is_compressed = Input::open(PositionedReader::new(file)).map_err(unreadable)?.is_compressed();
        if !is_compressed {
            return store(
                path,
                in_parts(&equal_parts(about.len(), count), || PositionedReader::new(file)),
                false,
            );
        }
    }
    load_at_once(path, file)
}

/// Loads an input with one reader.
pub(crate) fn load_at_once(path: &Path, file: impl Read + Send) -> Result<Store, Failure> {
    let unreadable = |source| Failure::Input { file: path.to_owned(), source };
    let mut input = Input::open(file).map_err(unreadable)?;
    let texts = Mutex::new(Texts::default());
    let part = ReadAhead::while_reading(&mut input, |ahead| Part::read(ahead, 0..u64::MAX, &texts));
    store(path, (texts, vec![part]), input.is_cut())
}

/// Adjacent parts of about the same length. The last has no end, so it includes what is added to the file meanwhile.
fn equal_parts(len: u64, count: u64) -> Vec<Range<u64>> {
    let border = |number| if number == count { u64::MAX } else { len / count * number };
    (0..count).map(|number| border(number)..border(number + 1)).collect()
}

/// Reads all parts at once; each call of `open` gives the input from its beginning.
fn in_parts<R: Read>(parts: &[Range<u64>], open: impl Fn() -> R + Sync) -> (Mutex<Texts>, Vec<Part>) {
    let texts = Mutex::new(Texts::default());
    let read = |part: &Range<u64>| Part::read(open(), part.clone(), &texts);
    let parts = thread::scope(|scope| {
        let readers: Vec<_> = parts.iter().map(|part| scope.spawn(|| read(part))).collect();
        let joined = readers.into_iter().map(ScopedJoinHandle::join);
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    (texts, parts)
}

/// Combines adjacent parts into a store.
fn store(path: &Path, (texts, parts): (Mutex<Texts>, Vec<Part>), is_cut: bool) -> Result<Store, Failure> {
    let mut whole = Part::default();
    for part in parts {
        whole.absorb(part);
        if !whole.reading.is_whole {
            break;
        }
    }
    let reading = std::mem::take(&mut whole.reading);
    let is_cut = is_cut || reading.tail != Some(Tail::Whole);
    if reading.bytes == 0 {
        let file = path.to_owned();
        return Err(match reading.error {
            // An error without an OS error code comes from decompression: the file is compressed and damaged.
            Some(ReadError::Io { source, .. }) if source.raw_os_error().is_some() => {
                Failure::Input { file, source }
            }
            Some(source) => Failure::NotATimeline { file, source },
            None if is_cut => Failure::NothingWhole { file },
            None => Failure::Empty { file },
        });
    }
    let texts = texts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(whole.finish(texts, is_cut, reading.error.map(|error| error.to_string())))
}

/// The outcome of reading a part.
#[derive(Debug, Default)]
struct Reading {
    /// Whether the part was read to its end, where the next part begins.
    is_whole: bool,
    tail: Option<Tail>,
    /// The end of the last whole packet, from the beginning of the file.
    bytes: u64,
    error: Option<ReadError>,
}

#[cfg(test)]
mod tests {
    use xsched_perfetto::{
        Annotation, Clocks, CounterTrack, Instant, Process, ProcessId, Scope, Slice, ThreadId, TraceWriter,
        Track as Described, TrackSlice, Unit,
    };

    use super::*;
    use crate::{
        store::{ArgumentValue, Condition, SliceId, Track},
        tests as sample,
    };

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
        load_at_once(Path::new("x"), trace).unwrap()
    }

    #[test]
    fn tracks_are_grouped_by_owner() {
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
    fn launches_and_executions_are_linked_both_ways() {
        let store = loaded(&trace());
        let (launch, execution) = (SliceId { track: 1, index: 0 }, SliceId { track: 0, index: 0 });
        let both = |id| [store.begins_of(id).collect::<Vec<_>>(), store.ends_of(id).collect()];
        assert_eq!((both(launch), both(execution)), ([vec![], vec![execution]], [vec![launch], vec![]]));
        let (track, index) = store.slices_with(launch).unwrap();
        assert_eq!(store.texts.get(track.slices.facts[index].kernel), "gemm");
        assert_eq!(store.texts.get(track.slices.facts[index].origin), "librocblas.so");
        assert_eq!(store.argument_text(track.slices.facts[index].arguments, "kernel"), Some("gemm"));
        assert_eq!(store.slices_with(SliceId { track: 1, index: 99 }).map(|_| ()), None);
    }

    #[test]
    fn damage_and_cuts_of_a_file_are_reported() {
        let trace = trace();
        assert!(loaded(&trace[..trace.len() - 1]).condition.is_cut);
        let damaged = loaded(&[&trace[..], b"garbage"].concat());
        assert!(damaged.condition.damage.unwrap().contains("find a packet at byte"));
        assert_eq!(damaged.tracks.len(), 5);

        let failure = |bytes: &[u8]| load_at_once(Path::new("x"), bytes).unwrap_err();
        assert!(matches!(failure(b""), Failure::Empty { .. }));
        assert!(matches!(failure(b"hello, world"), Failure::NotATimeline { .. }));
        assert!(matches!(failure(&trace[..5]), Failure::NothingWhole { .. }));
    }

    /// Later versions may add fields and kinds of packets.
    #[test]
    fn unknown_fields_are_skipped() {
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

    /// The contents of a store as texts, with names in place of numbers that may differ.
    fn contents(store: &Store) -> Vec<String> {
        let text = |id| store.texts.get(id);
        let arguments = |at| -> Vec<_> {
            let arguments = store.arguments.at(at);
            arguments.map(|(name, value)| (text(name), argument(store, value))).collect()
        };
        let mut contents = vec![format!(
            "{:?} {:?} {:?} {:?}",
            store.condition, store.span_ns, store.realtime_ns, store.groups
        )];
        for (number, Track { name, group, kind, slices, marks, samples }) in store.tracks.iter().enumerate() {
            let rows: Vec<_> = slices.rows.iter().map(|row| row.range.clone()).collect();
            contents.push(format!("{name} {group} {kind:?} {rows:?} {samples:?}"));
            contents.extend((0..slices.len()).map(|index| {
                let id = SliceId { track: number as u32, index: index as u32 };
                let time = slices.begins_ns[index]..slices.ends_ns[index];
                let facts = &slices.facts[index];
                let texts = [facts.name, facts.category, facts.kernel, facts.origin].map(text);
                let arguments = arguments(facts.arguments);
                let frames = store.stacks.get(facts.stack).iter();
                let functions: Vec<_> = frames.map(|frame| text(frame.function)).collect();
                let arrows = [store.ends_of(id).collect::<Vec<_>>(), store.begins_of(id).collect()];
                let is_open = facts.is_open;
                format!("{time:?} {is_open} {texts:?} {arguments:?} {functions:?} {arrows:?}")
            }));
            contents.extend(marks.iter().map(|mark| {
                let (name, category) = (text(mark.name), text(mark.category));
                format!("{} {name} {category} {:?}", mark.ts_ns, arguments(mark.arguments))
            }));
        }
        contents
    }

    fn argument(store: &Store, value: ArgumentValue) -> String {
        match value {
            ArgumentValue::Str(id) => store.texts.get(id).to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn by_parts(trace: &[u8], borders: &[u64]) -> Result<Store, Failure> {
        let from = [&[0], borders].concat();
        let parts: Vec<_> = from.iter().copied().zip(borders.iter().copied().chain([u64::MAX])).collect();
        let parts: Vec<_> = parts.into_iter().map(|(from, to)| from..to).collect();
        store(Path::new("x"), in_parts(&parts, || trace), false)
    }

    /// Also where a slice begins in one part and ends in another.
    #[test]
    fn two_parts_give_the_same_store_as_the_whole_file() {
        let trace = trace();
        let expected = contents(&loaded(&trace));
        for border in 0..trace.len() as u64 + 2 {
            assert_eq!(contents(&by_parts(&trace, &[border]).unwrap()), expected, "cut at {border}");
        }
    }

    #[test]
    fn any_number_of_parts_gives_the_same_store_as_the_whole_file() {
        // Lost events, a restarted trace, damage, a cut.
        let mut writer = TraceWriter::new(sample::trace(), CLOCKS).unwrap();
        writer.gap(7_000, 3, "a full ring", &[]).unwrap();
        writer.restart(CLOCKS).unwrap();
        writer.thread(THREAD, "restarted").unwrap();
        let twice = [writer.finish().unwrap(), trace()].concat();
        let damaged = [&twice[..], b"garbage", &twice[..]].concat();
        let cut = &twice[..twice.len() - 3];
        for (seed, trace) in [&twice[..], &damaged, cut].into_iter().enumerate() {
            let expected = contents(&loaded(trace));
            let mut rng = fastrand::Rng::with_seed(seed as u64);
            for _ in 0..60 {
                let mut borders: Vec<_> =
                    (0..rng.usize(1..6)).map(|_| rng.u64(..trace.len() as u64)).collect();
                borders.sort_unstable();
                assert_eq!(contents(&by_parts(trace, &borders).unwrap()), expected, "{borders:?}");
            }
        }
    }

    #[test]
    fn unreadable_files_are_refused_when_read_in_parts() {
        let failure = |bytes: &[u8]| by_parts(bytes, &[2, 4]).unwrap_err();
        assert!(matches!(failure(b""), Failure::Empty { .. }));
        assert!(matches!(failure(b"hello, world"), Failure::NotATimeline { .. }));
        assert!(matches!(failure(&trace()[..5]), Failure::NothingWhole { .. }));
    }

    #[test]
    fn equal_parts_are_adjacent() {
        assert_eq!(equal_parts(10, 3), [0..3, 3..6, 6..u64::MAX]);
        assert_eq!(equal_parts(10, 2), [0..5, 5..u64::MAX]);
    }
}
