//! Traces of `xsched-perfetto`, read by Perfetto's own trace processor.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{fs::File, path::PathBuf};

use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use xsched_perfetto::{
    Annotation, Clocks, CounterTrack, GpuStage, Instant, Limits, Process, ProcessId, Scope, Slice, Stack,
    StackFrame, ThreadId, TraceWriter, Unit, Value,
};
use xsched_tests::sql::{Sql, SqlError};

const CLOCKS: Clocks =
    Clocks { boottime_ns: 1_000_000, monotonic_ns: 900_000, realtime_ns: 1_700_000_000_000_000_000 };
const PROCESS: ProcessId = ProcessId { pid: 4_100, start_ns: 500_000 };
const MAIN: ThreadId = ThreadId { process: PROCESS, tid: 4_100 };
const WORKER: ThreadId = ThreadId { process: PROCESS, tid: 4_101 };

/// A trace file that a test writes, and its folder, which exists until the test ends.
struct Recording {
    writer: TraceWriter<File>,
    path: PathBuf,
    folder: TempDir,
}

impl Recording {
    fn new(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.perfetto");
        let writer = TraceWriter::with_limits(File::create(&path).unwrap(), CLOCKS, limits).unwrap();
        Self { writer, path, folder }
    }

    fn slice(&mut self, thread: ThreadId, name: &str, begin_ns: u64, end_ns: impl Into<Option<u64>>) {
        let end_ns = end_ns.into();
        self.writer
            .slice(&Slice { thread, begin_ns, end_ns, category: "hip", name, annotations: &[] })
            .unwrap();
    }

    fn open(self) -> (Sql, TempDir) {
        self.writer.finish().unwrap();
        (Sql::open(&self.path).unwrap(), self.folder)
    }
}

/// A slice as SQL shows it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Row {
    tid: u32,
    ts: u64,
    dur: i64,
    depth: u32,
    name: String,
    parent: Option<String>,
}

const ROWS: &str = "
    select tid, s.ts, s.dur, s.depth, s.name, parent.name as parent
    from slice s join thread_track t on s.track_id = t.id join thread using (utid)
    left join slice parent on s.parent_id = parent.id
    order by tid, s.ts, s.depth";

fn row(thread: ThreadId, ts: u64, dur: i64, name: &str, parents: &[&str]) -> Row {
    let parent = parents.last().map(ToString::to_string);
    Row { tid: thread.tid, ts, dur, depth: parents.len() as u32, name: name.to_owned(), parent }
}

/// Inner calls return first, threads run concurrently, and one call never returns.
#[test]
fn calls_nest_although_inner_calls_are_written_first() {
    let mut recording = Recording::new(Limits::default());
    recording.slice(MAIN, "innermost", 2_000_200, 2_000_300);
    recording.slice(WORKER, "launch", 2_000_150, 2_000_250);
    recording.slice(MAIN, "inner", 2_000_100, 2_000_400);
    recording.slice(MAIN, "sibling", 2_000_500, 2_000_600);
    recording.slice(WORKER, "synchronize", 2_000_260, 2_000_900);
    recording.slice(MAIN, "outer", 2_000_000, 2_000_700);
    recording.slice(MAIN, "inside the running one", 2_000_900, 2_000_950);
    recording.slice(MAIN, "running", 2_000_800, None);

    let (mut sql, _folder) = recording.open();
    sql.assert_clean();
    assert!(sql.engine().starts_with("Perfetto v"), "{}", sql.engine());
    let expected = [
        row(MAIN, 2_000_000, 700, "outer", &[]),
        row(MAIN, 2_000_100, 300, "inner", &["outer"]),
        row(MAIN, 2_000_200, 100, "innermost", &["outer", "inner"]),
        row(MAIN, 2_000_500, 100, "sibling", &["outer"]),
        row(MAIN, 2_000_800, -1, "running", &[]),
        row(MAIN, 2_000_900, 50, "inside the running one", &["running"]),
        row(WORKER, 2_000_150, 100, "launch", &[]),
        row(WORKER, 2_000_260, 640, "synchronize", &[]),
    ];
    assert_eq!(sql.query_as::<Row>(ROWS).unwrap(), expected);
}

/// The clock is so coarse that several events have the same time.
#[test]
fn slices_with_equal_times_stay_separate() {
    let mut recording = Recording::new(Limits::default());
    recording.slice(MAIN, "ends with its caller", 100, 200);
    recording.slice(MAIN, "caller", 50, 200);

    recording.slice(MAIN, "begins with its caller", 1_000, 1_100);
    recording.slice(MAIN, "second", 1_150, 1_200);
    recording.slice(MAIN, "caller", 1_000, 1_300);

    recording.slice(MAIN, "begins and ends with both", 2_000, 2_100);
    recording.slice(MAIN, "its caller", 2_000, 2_100);
    recording.slice(MAIN, "the caller of that", 2_000, 2_100);

    recording.slice(MAIN, "took no time", 3_000, 3_000);
    recording.slice(MAIN, "caller", 3_000, 3_100);

    recording.slice(MAIN, "before", 4_000, 4_100);
    recording.slice(MAIN, "at the seam", 4_100, 4_100);
    recording.slice(MAIN, "after", 4_100, 4_200);

    recording.slice(MAIN, "recursion", 5_000, 5_100);
    recording.slice(MAIN, "recursion", 5_000, 5_200);

    let (mut sql, _folder) = recording.open();
    sql.assert_clean();
    let expected = [
        row(MAIN, 50, 150, "caller", &[]),
        row(MAIN, 100, 100, "ends with its caller", &["caller"]),
        row(MAIN, 999, 301, "caller", &[]),
        row(MAIN, 1_000, 100, "begins with its caller", &["caller"]),
        row(MAIN, 1_150, 50, "second", &["caller"]),
        row(MAIN, 1_998, 102, "the caller of that", &[]),
        row(MAIN, 1_999, 101, "its caller", &["the caller of that"]),
        row(MAIN, 2_000, 100, "begins and ends with both", &["the caller of that", "its caller"]),
        row(MAIN, 2_999, 101, "caller", &[]),
        row(MAIN, 3_000, 0, "took no time", &["caller"]),
        row(MAIN, 4_000, 100, "before", &[]),
        row(MAIN, 4_100, 0, "at the seam", &[]),
        row(MAIN, 4_100, 100, "after", &[]),
        row(MAIN, 4_999, 201, "recursion", &[]),
        row(MAIN, 5_000, 100, "recursion", &["recursion"]),
    ];
    assert_eq!(sql.query_as::<Row>(ROWS).unwrap(), expected);
}

/// The reason to move slices apart: without a gap between them the engine cuts the outer one, and reports it.
#[test]
fn a_third_event_at_the_same_time_is_a_visible_fault() {
    let mut recording = Recording::new(Limits::default());
    recording.slice(MAIN, "before", 100, 200);
    recording.slice(MAIN, "inner", 200, 300);
    recording.slice(MAIN, "outer", 200, 500);
    recording.slice(MAIN, "after", 600, 700);
    let (mut sql, _folder) = recording.open();
    let faults = sql.faults().unwrap();
    let names: Vec<_> = faults.iter().map(|fault| (&*fault.severity, &*fault.name, fault.value)).collect();
    assert_eq!(names, [("data_loss", "misplaced_end_event", 1)]);
}

#[test]
fn annotations_of_every_kind_are_arguments() {
    let mut recording = Recording::new(Limits::default());
    let long = "ns::kernel<float, 4>".repeat(400);
    let annotations = [
        Annotation::new("kernel", "saxpy"),
        Annotation::new("long", long.as_str()),
        Annotation::new("u64", 1_u64 << 60),
        Annotation::new("i64", -5_i64),
        Annotation::new("f64", 0.25),
        Annotation::new("stream", Value::Pointer(0x7f00_1234)),
        Annotation::new("blocking", true),
    ];
    let slice = Slice {
        thread: MAIN,
        begin_ns: 10,
        end_ns: Some(20),
        category: "hip",
        name: "a\0b\u{fffd}ü",
        annotations: &annotations,
    };
    recording.writer.slice(&slice).unwrap();
    let (mut sql, _folder) = recording.open();
    sql.assert_clean();
    let arguments = sql
        .query("select key, value_type as type, coalesce(string_value, int_value, real_value) as value from args join slice using (arg_set_id) order by args.id")
        .unwrap();
    let expected = [
        json!({"key": "debug.kernel", "type": "string", "value": "saxpy"}),
        json!({"key": "debug.long", "type": "string", "value": long}),
        json!({"key": "debug.u64", "type": "uint", "value": 1_u64 << 60}),
        json!({"key": "debug.i64", "type": "int", "value": -5}),
        json!({"key": "debug.f64", "type": "real", "value": 0.25}),
        json!({"key": "debug.stream", "type": "pointer", "value": 0x7f00_1234}),
        json!({"key": "debug.blocking", "type": "bool", "value": 1}),
    ];
    assert_eq!(arguments, expected);
    let names = sql.query("select category, name from slice").unwrap();
    assert_eq!(names, [json!({"category": "hip", "name": "a\u{fffd}b\u{fffd}ü"})]);
}

/// The same pid and tid twice: each process keeps its own name and slices, including slices that are written late.
#[test]
fn a_reused_pid_is_another_process() {
    let second = ProcessId { pid: PROCESS.pid, start_ns: 3_000_000 };
    let second_main = ThreadId { process: second, tid: MAIN.tid };
    let mut recording = Recording::new(Limits::default());
    let writer = &mut recording.writer;
    writer.process(&Process { id: PROCESS, name: "first", cmdline: &["first", "--flag"] }).unwrap();
    writer.thread(MAIN, "first-main").unwrap();
    writer.thread(MAIN, "first-renamed").unwrap();
    recording.slice(MAIN, "early", 2_000_000, 2_000_100);
    recording.writer.process(&Process { id: second, name: "second", cmdline: &[] }).unwrap();
    recording.writer.thread(second_main, "second-main").unwrap();
    recording.slice(second_main, "next life", 3_000_100, 3_000_200);
    recording.slice(MAIN, "late", 2_500_000, 2_500_100);
    // A thread without a description.
    recording.slice(WORKER, "unnamed", 2_500_000, 2_500_100);

    let (mut sql, _folder) = recording.open();
    sql.assert_clean();
    let rows = sql
        .query(
            "select s.name, thread.name as thread, tid, process.name as process, pid, process.start_ts
             from slice s join thread_track t on s.track_id = t.id join thread using (utid) join process using (upid)
             order by s.ts, s.name",
        )
        .unwrap();
    let expected = |name, thread, tid, process: (_, u64)| json!({"name": name, "thread": thread, "tid": tid, "process": process.0, "pid": 4_100, "start_ts": process.1});
    let (first, second) = (("first", 500_000), ("second", 3_000_000));
    assert_eq!(
        rows,
        [
            expected("early", Some("first-renamed"), 4_100, first),
            expected("late", Some("first-renamed"), 4_100, first),
            expected("unnamed", None, 4_101, first),
            expected("next life", Some("second-main"), 4_100, second),
        ]
    );
    // The trace starts with its first sample, not with the earlier start of a process.
    assert_eq!(sql.query("select trace_start() as ts").unwrap(), [json!({"ts": CLOCKS.boottime_ns})]);
}

/// The state is cleared repeatedly, by full tables and by losses, without effect on the slices.
#[test]
fn clearing_the_state_loses_nothing() {
    let limits = Limits { interned_bytes: 400, interned_count: 20, track_count: 2 };
    let mut recording = Recording::new(limits);
    for number in 0..1_000_u64 {
        let kernel = format!("kernel {}", number % 70);
        let thread = ThreadId { process: PROCESS, tid: 4_100 + (number % 5) as u32 };
        let annotations = [Annotation::new("kernel", kernel.as_str())];
        let begin_ns = 1_000_000 + 100 * number;
        let end_ns = Some(begin_ns + 50);
        let slice =
            Slice { thread, begin_ns, end_ns, category: "hip", name: &kernel, annotations: &annotations };
        recording.writer.slice(&slice).unwrap();
        if number % 250 == 249 {
            recording.writer.gap(begin_ns + 60, number, "ring buffer full", &[]).unwrap();
        }
    }
    let (mut sql, _folder) = recording.open();
    sql.assert_clean();
    let counts = sql
        .query(
            "select count(*) as slices, count(distinct s.name) as names, sum(s.dur) as dur,
                    sum(s.name = extract_arg(s.arg_set_id, 'debug.kernel')) as agreeing, count(distinct utid) as threads
             from slice s join thread_track t on s.track_id = t.id",
        )
        .unwrap();
    let expected = json!({"slices": 1_000, "names": 70, "dur": 50_000, "agreeing": 1_000, "threads": 5});
    assert_eq!(counts, [expected]);

    let gaps = sql
        .query(
            "select ts, extract_arg(arg_set_id, 'debug.lost') as lost, extract_arg(arg_set_id, 'debug.cause') as cause
             from slice where name = 'events lost' order by ts",
        )
        .unwrap();
    let gap = |lost: u64| json!({"ts": 1_000_060 + 100 * lost, "lost": lost, "cause": "ring buffer full"});
    assert_eq!(gaps, [gap(249), gap(499), gap(749), gap(999)]);
    let samples = sql
        .query("select value from counter join counter_track t on track_id = t.id where t.name = 'lost events' order by ts")
        .unwrap();
    assert_eq!(samples, [0.0, 249.0, 748.0, 1_497.0, 2_496.0].map(|value| json!({"value": value})));
}

#[test]
fn counters_and_instants_are_on_their_tracks() {
    let mut recording = Recording::new(Limits::default());
    let writer = &mut recording.writer;
    for (scope, value) in [(Scope::Global, 1), (Scope::Process(PROCESS), 2), (Scope::Thread(WORKER), 3)] {
        let depth = writer.counter_track(&CounterTrack { scope, name: "depth", unit: Unit::Bytes }).unwrap();
        writer.counter(depth, 2_000_000, value).unwrap();
        let instant = Instant { scope, ts_ns: 2_000_000, category: "note", name: "mark", annotations: &[] };
        writer.instant(&instant).unwrap();
    }
    writer.clock_snapshot(Clocks { boottime_ns: 3_000_000, monotonic_ns: 2_900_000, ..CLOCKS }).unwrap();
    let (mut sql, _folder) = recording.open();
    sql.assert_clean();

    let counters = sql
        .query(
            "select value, t.unit, pt.upid is not null as of_process, tt.utid is not null as of_thread
             from counter join counter_track t on track_id = t.id
             left join process_counter_track pt on pt.id = t.id left join thread_counter_track tt on tt.id = t.id
             where t.name = 'depth' order by value",
        )
        .unwrap();
    let counter = |value: f64, of_process, of_thread| json!({"value": value, "unit": "bytes", "of_process": of_process, "of_thread": of_thread});
    assert_eq!(counters, [counter(1.0, 0, 0), counter(2.0, 1, 0), counter(3.0, 0, 1)]);

    let instants = sql
        .query(
            "select dur, pt.upid is not null as of_process, tt.utid is not null as of_thread
             from slice s left join process_track pt on s.track_id = pt.id left join thread_track tt on s.track_id = tt.id
             where s.name = 'mark' order by 2, 3",
        )
        .unwrap();
    let instant = |of_process, of_thread| json!({"dur": 0, "of_process": of_process, "of_thread": of_thread});
    assert_eq!(instants, [instant(0, 0), instant(0, 1), instant(1, 0)]);

    let clocks = sql
        .query("select clock_name as clock, clock_value - ts as ahead from clock_snapshot order by snapshot_id, 1 limit 6")
        .unwrap();
    let monotonic = json!({"clock": "MONOTONIC", "ahead": -100_000});
    assert_eq!((clocks.len(), clocks.iter().filter(|clock| **clock == monotonic).count()), (6, 2));
}

/// A killed recorder leaves everything up to the last complete packet.
#[test]
fn a_truncated_trace_loads_up_to_its_end() {
    let mut recording = Recording::new(Limits::default());
    for number in 0..100 {
        recording.slice(MAIN, "call", 1_000_000 + 100 * number, 1_000_050 + 100 * number);
    }
    let whole_len = recording.writer.bytes_written();
    File::options().write(true).open(&recording.path).unwrap().set_len(whole_len - 3).unwrap();
    let (mut sql, _folder) = recording.open();
    sql.assert_clean();
    let rows = sql.query("select count(*) as slices, sum(dur = -1) as unfinished from slice").unwrap();
    assert_eq!(rows, [json!({"slices": 100, "unfinished": 1})]);
}

/// The wrapper returns the cause.
#[test]
fn bad_traces_and_bad_queries_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage");
    std::fs::write(&garbage, "this is not a trace").unwrap();
    assert!(matches!(Sql::open(&garbage), Err(SqlError::Load { .. })));

    let (mut sql, _folder) = Recording::new(Limits::default()).open();
    let error = sql.query("select bogus").unwrap_err();
    assert!(error.to_string().contains("no such column: bogus"), "{error}");
    assert_eq!(sql.query("select 1 as one").unwrap(), [json!({"one": 1})], "it continues after an error");
}

/// The value of a field: a number or a message. Other fields are ignored.
enum Field<'a> {
    Number(u64),
    Message(&'a [u8]),
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for place in 0.. {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = number(&mut message);
        match key & 7 {
            0 => fields.push((key >> 3, Field::Number(number(&mut message)))),
            1 => message = &message[8..],
            2 => {
                let len = number(&mut message) as usize;
                let (inside, rest) = message.split_at(len);
                message = rest;
                fields.push((key >> 3, Field::Message(inside)));
            }
            layout => panic!("a field of layout {layout}"),
        }
    }
    fields
}

fn push_varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

fn push_number(message: &mut Vec<u8>, field: u64, value: u64) {
    push_varint(message, field << 3);
    push_varint(message, value);
}

fn push_message(message: &mut Vec<u8>, field: u64, inside: &[u8]) {
    push_varint(message, field << 3 | 2);
    push_varint(message, inside.len() as u64);
    message.extend(inside);
}

/// The trace with a `PerfSample` (field 66) behind each event that names a call stack (field 56 of field 11), which names
/// the same one.
///
/// The engine of the tests is older than call stacks of slices, but the tables of mappings, frames and call stacks are
/// those of sampling profilers, which it has always known.
fn with_samples(trace: &[u8], thread: ThreadId) -> Vec<u8> {
    let mut sampled = Vec::new();
    for (_, packet) in fields(trace) {
        let Field::Message(packet) = packet else { panic!("a trace consists of messages") };
        push_message(&mut sampled, 1, packet);
        let (mut time, mut stack) = (0, None);
        for (field, value) in fields(packet) {
            match (field, value) {
                (8, Field::Number(ns)) => time = ns,
                (11, Field::Message(event)) => {
                    stack = fields(event).into_iter().find_map(|field| match field {
                        (56, Field::Number(iid)) => Some(iid),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        if let Some(iid) = stack {
            let (mut sample, mut packet) = (Vec::new(), Vec::new());
            for (field, value) in [(2, thread.process.pid.into()), (3, thread.tid.into()), (4, iid)] {
                push_number(&mut sample, field, value);
            }
            for (field, value) in [(8, time), (10, 1), (13, 2)] {
                push_number(&mut packet, field, value);
            }
            push_message(&mut packet, 66, &sample);
            push_message(&mut sampled, 1, &packet);
        }
    }
    sampled
}

/// One frame of a call stack as SQL shows it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct FrameRow {
    ts: u64,
    function: String,
    library: String,
}

const FRAMES: &str = "
    with recursive caller(ts, id, place) as (
        select ts, callsite_id, 0 from perf_sample
        union all
        select ts, parent_id, place + 1 from caller join stack_profile_callsite using (id)
        where parent_id is not null)
    select ts, frame.name as function, mapping.name as library
    from caller join stack_profile_callsite site using (id)
    join stack_profile_frame frame on site.frame_id = frame.id
    join stack_profile_mapping mapping on frame.mapping = mapping.id
    order by ts, place";

/// Also when the tables are full and everything is defined again.
#[test]
fn call_stacks_equal_those_of_a_profiler() {
    let frame =
        |function: &str, library: &str| StackFrame { function: function.into(), library: library.into() };
    let stacks: [Stack; 3] = [
        [
            frame("rocblas_sgemm", "librocblas.so.4"),
            frame("at::mm", "libtorch_hip.so"),
            frame("main", "python3"),
        ]
        .into(),
        [frame("at::mm", "libtorch_hip.so"), frame("main", "python3")].into(),
        [frame("main", "python3"), frame("…", "")].into(),
    ];
    for limits in [Limits::default(), Limits { interned_bytes: 100, interned_count: 8, track_count: 2 }] {
        let mut recording = Recording::new(limits);
        let mut expected = Vec::new();
        for number in 0..30 {
            let stack = &stacks[number % stacks.len()];
            let ts = 2_000_000 + number as u64 * 100;
            let slice = Slice {
                thread: MAIN,
                begin_ns: ts,
                end_ns: Some(ts + 50),
                category: "hip",
                name: "hipLaunchKernel",
                annotations: &[],
            };
            recording.writer.slice_with_stack(&slice, stack, None).unwrap();
            expected.extend(stack.iter().map(|frame| FrameRow {
                ts,
                function: frame.function.to_string(),
                // Perfetto joins the parts of a path; here there is one.
                library: format!("/{}", frame.library),
            }));
        }
        recording.writer.flush().unwrap();
        let path = recording.folder.path().join("sampled.perfetto");
        std::fs::write(&path, with_samples(&std::fs::read(&recording.path).unwrap(), MAIN)).unwrap();
        let mut sql = Sql::open(&path).unwrap();
        sql.assert_clean();
        assert_eq!(sql.query_as::<FrameRow>(FRAMES).unwrap(), expected);
        assert_eq!(sql.query("select * from slice").unwrap().len(), 30);
    }
}

/// Executions on a GPU as their own kind of event: a table and a track of its own, and no other slice.
#[test]
fn gpu_render_stages_are_in_the_table_that_tools_read() {
    let mut recording = Recording::new(Limits::default());
    let annotations = [Annotation::new("timing", "measured"), Annotation::new("host_ns", 700_u64)];
    for number in 0..4_u32 {
        let begin_ns = 2_000_000 + u64::from(number) * 1_000;
        let stage = GpuStage {
            gpu: number % 2,
            gpu_name: ["GPU 0000:c1:00.0", "GPU 0000:c6:00.0"][number as usize % 2],
            queue: "train.py 4100 stream 0x0",
            pid: PROCESS.pid,
            begin_ns,
            end_ns: begin_ns + 600,
            name: ["gemm", "softmax"][number as usize / 2],
            annotations: &annotations,
            ended_flow: Some(number.into()),
        };
        recording.writer.gpu_stage(&stage).unwrap();
    }
    let (mut sql, _folder) = recording.open();
    sql.assert_clean();
    let rows = sql
        .query(
            "select s.ts, s.dur, s.name, t.name as queue, s.hw_queue_id is not null as has_queue,
                extract_arg(s.arg_set_id, 'timing') as timing, extract_arg(s.arg_set_id, 'host_ns') as host
             from gpu_slice s join gpu_track t on s.track_id = t.id order by s.ts",
        )
        .unwrap();
    let row = |number: u64, name: &str| {
        json!({"ts": 2_000_000 + number * 1_000, "dur": 600, "name": name, "queue": "train.py 4100 stream 0x0",
               "has_queue": 1, "timing": "measured", "host": "700"})
    };
    assert_eq!(rows, [row(0, "gemm"), row(1, "gemm"), row(2, "softmax"), row(3, "softmax")]);
    let all = sql.query("select count(*) as slices, count(distinct track_id) as tracks from slice").unwrap();
    assert_eq!(all, [json!({"slices": 4, "tracks": 2})]);
}
