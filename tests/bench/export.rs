//! Writing a timeline into memory: time and bytes per launch as the tracer writes it, alone, with its call
//! stack, and with its scheduling data.
//!
//! The target is memory, so that no disk is measured; the writer, its encoder and its tables are the real
//! ones. Times are processor times, so waiting for other processes does not count.

use std::{convert::Infallible, error::Error, fs, hint::black_box, io};

use rustix::time::{ClockId, clock_gettime};
use xsched_perfetto::{
    Annotation, Clocks, ProcessId, Scope, Slice, Stack, StackFrame, ThreadId, TraceWriter, Track, TrackId,
    TrackSlice, Value,
};
use xsched_tests::bench::{Goal, Row, Samples, repeated};

const BENCH: &str = "export";
const ROUNDS: usize = 15;
const LAUNCHES_PER_ROUND: u64 = 100_000;

/// Launches per second that one processor should write.
const RATE_MIN: f64 = 2e6;

/// An hour at a thousand launches a second.
const HOUR: u64 = 3_600_000;

/// The work of a busy process: few threads, kernels and libraries, every slice different.
const THREADS: u32 = 4;
const KERNELS: [&str; 3] =
    ["gemm_f16_128x128", "void vector_add<float>(float*, float const*, int)", "softmax"];
const LIBRARIES: [&str; 3] = ["librocblas.so.4", "libMIOpen.so.1", "app"];

/// Number of different call stacks, and their frames.
const STACKS: u64 = 64;
const FRAMES: u64 = 16;

/// The parts written for a launch.
#[derive(Clone, Copy)]
struct Written {
    stack: bool,
    execution: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let kinds = [
        ("launch", Written { stack: false, execution: false }),
        ("launch with its call stack", Written { stack: true, execution: false }),
        ("launch with its execution", Written { stack: false, execution: true }),
        ("launch with its call stack and execution", ALL),
    ];
    for (name, written) in kinds {
        let mut trace = Vec::new();
        let mut bytes = 0.0;
        let Ok(time_ns) = repeated(ROUNDS, || {
            trace.clear();
            let mut writer = Launches::begin(&mut trace);
            let started_ns = processor_ns();
            (0..LAUNCHES_PER_ROUND).for_each(|launch| writer.write(launch, written));
            let elapsed_ns = (processor_ns() - started_ns) as f64;
            drop(writer);
            bytes = black_box(&trace).len() as f64 / LAUNCHES_PER_ROUND as f64;
            Ok::<_, Infallible>(elapsed_ns / LAUNCHES_PER_ROUND as f64)
        });
        Row::single(BENCH, format!("{name}: time"), "ns", &time_ns).print()?;
        let rate = Row::single(BENCH, format!("{name}: rate"), "1/s", &time_ns.map(|ns| 1e9 / ns));
        rate.with_goal(Goal::ValueAtLeast(RATE_MIN)).print()?;
        // Identical in every round: the trace is a function of its contents.
        Row::single(BENCH, format!("{name}: size"), "B", &Samples::new(vec![bytes])).print()?;
    }
    memory_of_an_hour()
}

/// Processor time of this thread so far.
fn processor_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Growth of the process's memory between the first launch and an hour's launches.
fn memory_of_an_hour() -> Result<(), Box<dyn Error>> {
    let mut writer = Launches::begin(io::sink());
    (0..LAUNCHES_PER_ROUND).for_each(|launch| writer.write(launch, ALL));
    let before = resident_bytes()?;
    (LAUNCHES_PER_ROUND..HOUR).for_each(|launch| writer.write(launch, ALL));
    let more = resident_bytes()?.saturating_sub(before) as f64;
    Row::single(
        BENCH,
        "memory after an hour of 1000 launches a second, more",
        "B",
        &Samples::new(vec![more]),
    )
    .print()?;
    Ok(())
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).ok_or("no such field in statm")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}

const ALL: Written = Written { stack: true, execution: true };

/// A trace of launches.
struct Launches<W: io::Write> {
    writer: TraceWriter<W>,
    stream: TrackId,
    stacks: Vec<Stack>,
}

const PROCESS: ProcessId = ProcessId { pid: 4711, start_ns: 1_000_000_000 };
const BEGIN_NS: u64 = 2_000_000_000;

impl<W: io::Write> Launches<W> {
    fn begin(out: W) -> Self {
        let clocks = Clocks { boottime_ns: BEGIN_NS, monotonic_ns: BEGIN_NS, realtime_ns: 0 };
        let mut writer = TraceWriter::new(out, clocks).expect(MEMORY);
        let stream = writer.track(&Track { parent: Scope::Global, name: "stream null" }).expect(MEMORY);
        Self { writer, stream, stacks: (0..STACKS).map(stack).collect() }
    }

    /// A launch every 10 us that takes 5 us, round robin over the threads; its execution takes 8 us.
    fn write(&mut self, launch: u64, written: Written) {
        let begin_ns = BEGIN_NS + launch * 10_000;
        let kernel = KERNELS[launch as usize % KERNELS.len()];
        let call = Slice {
            thread: ThreadId { process: PROCESS, tid: 4711 + launch as u32 % THREADS },
            begin_ns,
            end_ns: Some(begin_ns + 5_000),
            category: "hip.launch",
            name: "hipLaunchKernel",
            annotations: &[
                Annotation::new("library", LIBRARIES[launch as usize % LIBRARIES.len()]),
                Annotation::new("kernel", kernel),
                Annotation::new("stream", Value::Pointer(0x7f00_dead_0000 + launch % 8 * 64)),
                Annotation::new("grid", launch % 512),
                Annotation::new("block", 256_u64),
                Annotation::new("result", 0_i64),
            ],
        };
        let flow = written.execution.then_some(launch + 1);
        let written_call = match (written.stack, flow) {
            (true, flow) => {
                self.writer.slice_with_stack(&call, &self.stacks[(launch % STACKS) as usize], flow)
            }
            (false, Some(flow)) => self.writer.slice_with_flow(&call, flow),
            (false, None) => self.writer.slice(&call),
        };
        written_call.expect(MEMORY);
        if !written.execution {
            return;
        }
        self.writer
            .track_slice(&TrackSlice {
                track: self.stream,
                begin_ns: begin_ns + 1_000,
                end_ns: Some(begin_ns + 9_000),
                category: "gpu",
                name: kernel,
                annotations: &[
                    Annotation::new("pid", PROCESS.pid),
                    Annotation::new("timing", "measured"),
                    Annotation::new("queue_delay_ns", 1_000_u64),
                    Annotation::new("host_ns", 1_000_u64),
                    Annotation::new("buffered_ns", 0_u64),
                    Annotation::new("behind_ns", 0_u64),
                    Annotation::new("gated_ns", 0_u64),
                ],
                ended_flow: Some(launch + 1),
            })
            .expect(MEMORY);
    }
}

/// A stack that shares its outer frames with others.
fn stack(number: u64) -> Stack {
    let frame = |depth: u64| StackFrame {
        function: format!("function {depth} of {}", number >> depth.min(63)).into(),
        library: LIBRARIES[depth as usize % LIBRARIES.len()].into(),
    };
    (0..FRAMES).map(frame).collect()
}

const MEMORY: &str = "writing to memory cannot fail";
