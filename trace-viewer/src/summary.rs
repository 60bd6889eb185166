//! Reads a file through once: whether it is a timeline, and what it contains.

use std::{
    collections::HashSet,
    fmt,
    fs::File,
    io::{Read, Seek as _, SeekFrom},
    path::Path,
};

use xsched_perfetto::{Input, LOST_EVENTS, ProcessId, ReadError, Scope, Tail, TraceEvent, TraceReader};

use crate::failure::Failure;

/// The contents of a timeline. Times are `CLOCK_BOOTTIME` nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    processes: HashSet<ProcessId>,
    slice_count: u64,
    unfinished_count: u64,
    lost_count: u64,
    skipped_count: u64,
    /// The earliest and the latest time of any event.
    span_ns: Option<(u64, u64)>,
    /// Where the file was cut off, if it was.
    cut_at: Option<u64>,
}

/// Opens the file and checks that it is not empty.
pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    let failure = |source| Failure::Input { file: path.to_owned(), source };
    let mut file = File::open(path).map_err(failure)?;
    if file.by_ref().take(1).read_to_end(&mut Vec::new()).map_err(failure)? == 0 {
        return Err(Failure::Empty { file: path.to_owned() });
    }
    file.seek(SeekFrom::Start(0)).map_err(failure)?;
    Ok(file)
}

impl Summary {
    /// Reads `trace` to its end; `path` is its name in errors.
    pub(crate) fn read(path: &Path, trace: &mut impl Read) -> Result<Self, Failure> {
        let unreadable = |source| Failure::Input { file: path.to_owned(), source };
        let mut input = Input::open(trace).map_err(unreadable)?;
        let mut reader = TraceReader::new(&mut input);
        let mut summary = Self::default();
        while let Some(event) = reader.next() {
            summary.event(&event.map_err(|error| failure(path, error, reader.bytes_read()))?);
        }
        summary.skipped_count = reader.skipped();
        if let Tail::Cut { offset, .. } = reader.tail() {
            summary.cut_at = Some(offset);
        }
        if input.is_cut() {
            return Err(Failure::CutCompressed { file: path.to_owned() });
        }
        Ok(summary)
    }

    fn event(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::Process { id, .. } => {
                self.processes.insert(*id);
            }
            TraceEvent::Slice(slice) => {
                self.slice_count += 1;
                self.unfinished_count += u64::from(slice.end_ns.is_none());
                self.reach(slice.begin_ns);
                self.reach(slice.end_ns.unwrap_or(slice.begin_ns));
            }
            TraceEvent::Counter { scope, name, ts_ns, value } => {
                if *scope == Scope::Global && &**name == LOST_EVENTS {
                    self.lost_count = value.unsigned_abs();
                }
                self.reach(*ts_ns);
            }
            TraceEvent::Instant { ts_ns, .. } => self.reach(*ts_ns),
            TraceEvent::Clocks(clocks) => self.reach(clocks.boottime_ns),
            TraceEvent::Thread { .. } | TraceEvent::Track { .. } => {}
        }
    }

    fn reach(&mut self, ts_ns: u64) {
        let (first, last) = self.span_ns.unwrap_or((ts_ns, ts_ns));
        self.span_ns = Some((first.min(ts_ns), last.max(ts_ns)));
    }
}

fn failure(path: &Path, error: ReadError, whole_bytes: u64) -> Failure {
    let file = path.to_owned();
    match error {
        // An error without an OS error code comes from decompression: the file is compressed, and damaged from its beginning.
        ReadError::Io { source, .. } if whole_bytes > 0 || source.raw_os_error().is_some() => {
            Failure::Input { file, source }
        }
        source if whole_bytes == 0 => Failure::NotATimeline { file, source },
        source => Failure::Damaged { file, whole_bytes, source },
    }
}

/// One line, which mentions unusual conditions only where they apply.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        let seconds = (last_ns - first_ns) as f64 / 1e9;
        let processes = counted(self.processes.len() as u64, "process", "processes");
        write!(f, "{processes}, {}, {seconds:.3} s", counted(self.slice_count, "slice", "slices"))?;
        if self.unfinished_count > 0 {
            write!(f, ", {} still running at the end", self.unfinished_count)?;
        }
        if self.lost_count > 0 {
            write!(f, ", {} lost while recording", counted(self.lost_count, "event", "events"))?;
        }
        if self.skipped_count > 0 {
            write!(
                f,
                ", {} of a type that is not counted here",
                counted(self.skipped_count, "event", "events")
            )?;
        }
        if let Some(offset) = self.cut_at {
            write!(f, ", cut off after {offset} bytes")?;
        }
        Ok(())
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use xsched_perfetto::{Clocks, Process, Slice, ThreadId, TraceWriter};

    use super::*;

    const CLOCKS: Clocks = Clocks { boottime_ns: 1_000_000_000, monotonic_ns: 1, realtime_ns: 1 };

    fn trace() -> Vec<u8> {
        let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
        for pid in [7, 8] {
            let id = ProcessId { pid, start_ns: 5 };
            writer.process(&Process { id, name: "python3", cmdline: &[] }).unwrap();
            let thread = ThreadId { process: id, tid: pid };
            let end_ns = (pid == 7).then_some(2_500_000_000);
            let (begin_ns, category, name) = (2_000_000_000, "hip", "hipMalloc");
            writer.slice(&Slice { thread, begin_ns, end_ns, category, name, annotations: &[] }).unwrap();
        }
        writer.gap(2_100_000_000, 17, "ring buffer full", &[]).unwrap();
        writer.finish().unwrap()
    }

    fn shown(mut trace: &[u8]) -> String {
        Summary::read(Path::new("x"), &mut trace).unwrap().to_string()
    }

    #[test]
    fn the_summary_is_one_line() {
        let trace = trace();
        let whole =
            "2 processes, 2 slices, 1.500 s, 1 still running at the end, 17 events lost while recording";
        assert_eq!(shown(&trace), whole);
        let cut = shown(&trace[..trace.len() - 1]);
        assert!(cut.contains(", cut off after "), "{cut}");
        assert_eq!(
            shown(&TraceWriter::new(Vec::new(), CLOCKS).unwrap().finish().unwrap()),
            "0 processes, 0 slices, 0.000 s"
        );
    }

    #[test]
    fn compressed_timelines_are_read() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, &trace()).unwrap();
        assert_eq!(shown(&encoder.finish().unwrap()), shown(&trace()));
    }

    #[test]
    fn damaged_timelines_are_distinguished_from_other_files() {
        let failure = |mut trace: &[u8]| Summary::read(Path::new("x"), &mut trace).unwrap_err();
        assert!(matches!(failure(b"[{\"ph\": \"X\"}]"), Failure::NotATimeline { .. }));
        assert!(matches!(failure(b"\x1f\x8bnot gzip after all"), Failure::NotATimeline { .. }));
        let mut damaged = trace();
        let whole = damaged.len() as u64;
        damaged.extend(b"garbage");
        assert!(matches!(failure(&damaged), Failure::Damaged { whole_bytes, .. } if whole_bytes == whole));
    }
}
