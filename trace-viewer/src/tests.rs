//! A small recording for tests: an urgent process preempts a batch job on the same device.

use std::path::Path;

use xsched_perfetto::{
    Annotation, Clocks, CounterTrack, Instant, Process, ProcessId, Scope, Slice, StackFrame, ThreadId,
    TraceWriter, Track, TrackId, TrackSlice, Unit, Value,
};

use crate::store::{self, Store};

/// The number of launches in it.
pub(crate) const LAUNCHES: usize = 2 * ROUNDS as usize;
/// A name that is markup if a page does not escape it.
pub(crate) const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

const ROUNDS: u64 = 20;
const ROUND_NS: u64 = 1_000_000;
const BEGIN_NS: u64 = 5_000_000_000;
const CLOCKS: Clocks =
    Clocks { boottime_ns: BEGIN_NS, monotonic_ns: BEGIN_NS, realtime_ns: 1_700_000_000_000_000_000 };
const BATCH: ProcessId = ProcessId { pid: 100, start_ns: 1 };
const URGENT: ProcessId = ProcessId { pid: 200, start_ns: 2 };

/// The recording, read.
pub(crate) fn store() -> Store {
    store::load_at_once(Path::new("sample"), &*trace()).unwrap()
}

/// The recording.
pub(crate) fn trace() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), CLOCKS).unwrap();
    writer.process(&Process { id: BATCH, name: "train.py", cmdline: &["python3", "train.py"] }).unwrap();
    writer.process(&Process { id: URGENT, name: HOSTILE, cmdline: &[] }).unwrap();
    let device = writer.track(&Track { parent: Scope::Global, name: "GPU 0000:c1:00.0" }).unwrap();
    let stream = |writer: &mut TraceWriter<Vec<u8>>, name| {
        writer.track(&Track { parent: Scope::Track(device), name }).unwrap()
    };
    let (batch, urgent) = (stream(&mut writer, "stream 1"), stream(&mut writer, "stream 2"));
    let parent = Scope::Process(BATCH);
    let queue = stream(&mut writer, "train.py 100 XQueue");
    let depth =
        writer.counter_track(&CounterTrack { scope: parent, name: "buffered", unit: Unit::Count }).unwrap();
    for round in 0..ROUNDS {
        let begin_ns = BEGIN_NS + round * ROUND_NS;
        // The batch job launches at 100 us but runs from 600 us on, because the urgent process runs from 150 to 580 us.
        launch(&mut writer, BATCH, begin_ns + 100_000, 2 * round + 1, "gemm");
        launch(&mut writer, URGENT, begin_ns + 140_000, 2 * round + 2, HOSTILE);
        execution(&mut writer, urgent, begin_ns + 150_000..begin_ns + 580_000, 2 * round + 2, HOSTILE);
        execution(&mut writer, batch, begin_ns + 600_000..begin_ns + 900_000, 2 * round + 1, "gemm");
        for (name, from, to) in
            [("buffered", 101_000, 150_000), ("suspended", 150_000, 585_000), ("running", 585_000, 900_000)]
        {
            let (begin_ns, end_ns) = (begin_ns + from, Some(begin_ns + to));
            let state = TrackSlice {
                track: queue,
                begin_ns,
                end_ns,
                category: "xqueue",
                name,
                annotations: &[Annotation::new("pid", BATCH.pid)],
                ended_flow: None,
            };
            writer.track_slice(&state).unwrap();
        }
        let by = format!("{HOSTILE} {}", URGENT.pid);
        let annotations = [
            Annotation::new("pid", BATCH.pid),
            Annotation::new("by_pid", URGENT.pid),
            Annotation::new("by", by.as_str()),
            Annotation::new("by_level", 1_u64),
            Annotation::new("level", 5_u64),
            Annotation::new("reason", "a more urgent level became ready"),
        ];
        writer
            .instant(&Instant {
                scope: Scope::Track(queue),
                ts_ns: begin_ns + 150_000,
                category: "arbiter",
                name: "preempted",
                annotations: &annotations,
            })
            .unwrap();
        writer.counter(depth, begin_ns + 101_000, 1).unwrap();
        writer.counter(depth, begin_ns + 585_000, 0).unwrap();
    }
    writer.finish().unwrap()
}

fn launch(writer: &mut TraceWriter<Vec<u8>>, process: ProcessId, begin_ns: u64, flow: u64, kernel: &str) {
    let annotations = [
        Annotation::new("origin", "librocblas.so.4"),
        Annotation::new("library", "librocblas.so.4"),
        Annotation::new("chain", "librocblas.so.4 < libtorch_hip.so < python3.11"),
        Annotation::new("kernel", kernel),
        Annotation::new("stream", "1"),
        Annotation { name: "function", value: Value::Pointer(0x7fff_1234_5678) },
        Annotation::new("return", 0_u32),
    ];
    let thread = ThreadId { process, tid: process.pid };
    let slice = Slice {
        thread,
        begin_ns,
        end_ns: Some(begin_ns + 1_000),
        category: "hip.launch",
        name: "hipLaunchKernel",
        annotations: &annotations,
    };
    let frames =
        [("rocblas_sgemm", "librocblas.so.4"), ("at::mm", "libtorch_hip.so"), ("main", "python3.11")];
    let frame =
        |(function, library): (&str, &str)| StackFrame { function: function.into(), library: library.into() };
    writer.slice_with_stack(&slice, &frames.map(frame).into(), Some(flow)).unwrap();
}

fn execution(
    writer: &mut TraceWriter<Vec<u8>>,
    track: TrackId,
    time: std::ops::Range<u64>,
    flow: u64,
    kernel: &str,
) {
    let slice = TrackSlice {
        track,
        begin_ns: time.start,
        end_ns: Some(time.end),
        category: "gpu",
        name: kernel,
        annotations: &[Annotation::new("measured", true)],
        ended_flow: Some(flow),
    };
    writer.track_slice(&slice).unwrap();
}
