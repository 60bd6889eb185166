//! A synthetic recording of two processes under the policy `priority`, of any length.
//!
//! `serve.py` has bursts of urgent work; `train.py` launches all the time and is preempted by it. The device runs one kernel
//! after the other. The names of tracks, slices and annotations are those that `xsched-ctl trace` writes.

use std::{collections::HashMap, io::Write, ops::Range};

use xsched_perfetto::{
    Annotation, Clocks, CounterId, CounterTrack, Instant, Process, ProcessId, Scope, Slice, Stack,
    StackFrame, ThreadId, TraceWriter, Track, TrackId, TrackSlice, Unit, Value, WriteError,
};

const BEGIN_NS: u64 = 3_600_000_000_000;
const REALTIME_NS: u64 = 1_790_000_000_000_000_000;
const BURST_EVERY_NS: u64 = 10_000_000;
const BURST: u64 = 20;
/// How many commands the batch job keeps in flight.
const AHEAD_NS: u64 = 2_000_000;
const BATCH: ProcessId = ProcessId { pid: 4711, start_ns: 3_500_000_000_000 };
const URGENT: ProcessId = ProcessId { pid: 4822, start_ns: 3_550_000_000_000 };

/// One kind of launch: library, chain, functions, kernel, time on the device in microseconds.
struct Way {
    origin: &'static str,
    chain: &'static str,
    callers: &'static str,
    kernel: &'static str,
    device_us: u64,
}

const TRAINING: &[Way] = &[
    Way {
        origin: "libhipblaslt.so.0",
        chain: "libhipblaslt.so.0 < libtorch_hip.so < libtorch_python.so < python3.11",
        callers: "hipblasLtMatmul < at::cuda::blas::gemm_and_bias < at::native::addmm < THPVariable_linear < PyEval",
        kernel: "Cijk_Ailk_Bljk_BBS_BH_Bias_MT128x128x64",
        device_us: 74,
    },
    Way {
        origin: "librocblas.so.4",
        chain: "librocblas.so.4 < libtorch_hip.so < libtorch_python.so < python3.11",
        callers: "rocblas_gemm_ex < at::cuda::blas::gemm < at::native::bmm < THPVariable_matmul < PyEval",
        kernel: "Cijk_Alik_Bljk_HB_MT64x64x32",
        device_us: 41,
    },
    Way {
        origin: "libtorch_hip.so",
        chain: "libtorch_hip.so < libtorch_python.so < python3.11",
        callers: "at::native::gpu_kernel_impl < at::native::add_kernel < THPVariable_add < PyEval",
        kernel: "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        device_us: 12,
    },
    Way {
        origin: "libtorch_hip.so",
        chain: "libtorch_hip.so < libtorch_python.so < python3.11",
        callers: "at::native::layer_norm_kernel < THPVariable_layer_norm < PyEval",
        kernel: "at::native::vectorized_layer_norm_kernel<float, float>",
        device_us: 19,
    },
];

const SERVING: &[Way] = &[
    Way {
        origin: "libMIOpen.so.1",
        chain: "libMIOpen.so.1 < libtorch_hip.so < libtorch_python.so < python3.11",
        callers: "miopenConvolutionForward < at::native::miopen_convolution < THPVariable_conv2d < PyEval",
        kernel: "miopenSp3AsmConv_v30_3_1_gfx9_f3x2_stride1",
        device_us: 96,
    },
    Way {
        origin: "libtorch_hip.so",
        chain: "libtorch_hip.so < libtorch_python.so < python3.11",
        callers: "at::native::relu_kernel < THPVariable_relu < PyEval",
        kernel: "at::native::vectorized_elementwise_kernel<4, at::native::relu>",
        device_us: 8,
    },
];

/// Writes a recording with about this number of launches; returns the exact number.
///
/// # Errors
///
/// If writing to `out` fails.
pub fn write(out: impl Write, launches: u64) -> Result<u64, WriteError> {
    let clocks = Clocks { boottime_ns: BEGIN_NS, monotonic_ns: BEGIN_NS, realtime_ns: REALTIME_NS };
    let mut recording = Recording::begin(TraceWriter::new(out, clocks)?)?;
    let mut burst = 0;
    while recording.launches < launches {
        recording.burst(BEGIN_NS + burst * BURST_EVERY_NS)?;
        burst += 1;
    }
    recording.writer.finish()?;
    Ok(recording.launches)
}

struct Recording<W: Write> {
    writer: TraceWriter<W>,
    launches: u64,
    streams: [TrackId; 2],
    queue: TrackId,
    arbiter: TrackId,
    depth: CounterId,
    /// By the functions of a kind of launch.
    stacks: HashMap<&'static str, Stack>,
    /// When the batch job launches next, and when its launches so far are complete.
    next_ns: u64,
    done_ns: u64,
}

impl<W: Write> Recording<W> {
    fn begin(mut writer: TraceWriter<W>) -> Result<Self, WriteError> {
        writer.process(&Process {
            id: BATCH,
            name: "train.py",
            cmdline: &["python3", "train.py", "--epochs", "90"],
        })?;
        writer.process(&Process {
            id: URGENT,
            name: "serve.py",
            cmdline: &["python3", "serve.py", "--port", "8000"],
        })?;
        writer.thread(main_thread(BATCH), "python3")?;
        writer.thread(main_thread(URGENT), "python3")?;
        let device = writer.track(&Track { parent: Scope::Global, name: "GPU 0000:c1:00.0" })?;
        let parent = Scope::Track(device);
        let arbiter = writer.track(&Track { parent, name: "arbiter" })?;
        let streams = [
            writer.track(&Track { parent, name: "train.py 4711 stream 0x55d0c0ffee40" })?,
            writer.track(&Track { parent, name: "serve.py 4822 stream 0x55d0c0ffee40" })?,
        ];
        let queue = writer.track(&Track { parent, name: "train.py 4711 XQueue" })?;
        let scope = Scope::Process(BATCH);
        let depth = writer.counter_track(&CounterTrack {
            scope,
            name: "deferred 0000:c1:00.0",
            unit: Unit::Count,
        })?;
        let (next_ns, done_ns) = (BEGIN_NS, BEGIN_NS);
        let stacks = HashMap::new();
        Ok(Self { writer, launches: 0, streams, queue, arbiter, depth, stacks, next_ns, done_ns })
    }

    /// A burst of urgent work, the launches of the batch job until the next burst, and how they are deferred.
    fn burst(&mut self, begin_ns: u64) -> Result<(), WriteError> {
        let urgent_ns = begin_ns + 3_000_000 + self.launches % 7 * 100_000;
        let mut free_ns = urgent_ns + 30_000;
        let mut launch_ns = urgent_ns;
        for number in 0..BURST {
            let way = &SERVING[(number % 3 / 2) as usize];
            let end_ns = free_ns + way.device_us * 1_000 + self.launches % 5 * 700;
            free_ns = free_ns.max(launch_ns + 6_000);
            let returned_ns = self.launch(URGENT, way, launch_ns, 0, free_ns..end_ns.max(free_ns))?;
            (launch_ns, free_ns) = (returned_ns + 4_000, end_ns.max(free_ns));
        }
        let held = urgent_ns + 4_000..free_ns + 6_000;
        let mut buffered = 0;
        while self.next_ns < begin_ns + BURST_EVERY_NS {
            let way = &TRAINING[(self.launches % 4) as usize];
            let launch_ns = self.next_ns;
            let ready_ns = self.done_ns.max(launch_ns + 7_000);
            let start_ns = if held.contains(&ready_ns) { held.end } else { ready_ns };
            let is_buffered = held.contains(&launch_ns);
            if is_buffered {
                buffered += 1;
                self.writer.counter(self.depth, launch_ns, buffered)?;
            }
            let held_ns = if is_buffered { held.end - launch_ns } else { 0 };
            let end_ns = start_ns + way.device_us * 1_000 + self.launches % 11 * 500;
            let returned_ns = self.launch(BATCH, way, launch_ns, held_ns, start_ns..end_ns)?;
            self.done_ns = end_ns;
            self.next_ns =
                (returned_ns + 9_000 + self.launches % 3 * 2_000).max(end_ns.saturating_sub(AHEAD_NS));
        }
        self.writer.counter(self.depth, held.end, 0)?;
        self.states(begin_ns, &held)
    }

    /// The states of the queue, the ready level, and the preempted process.
    fn states(&mut self, begin_ns: u64, held: &Range<u64>) -> Result<(), WriteError> {
        let end_ns = begin_ns + BURST_EVERY_NS;
        let queue =
            [("running", begin_ns..held.start), ("suspended", held.clone()), ("running", held.end..end_ns)];
        for (name, time) in queue {
            self.state(self.queue, "xqueue", name, time)?;
        }
        let ready = [
            ("level 8: train.py 4711", begin_ns..held.start),
            ("level 2: serve.py 4822", held.clone()),
            ("level 8: train.py 4711", held.end..end_ns),
        ];
        for (name, time) in ready {
            self.state(self.arbiter, "arbiter", name, time)?;
        }
        self.writer.instant(&Instant {
            scope: Scope::Track(self.queue),
            ts_ns: held.start,
            category: "arbiter",
            name: "preempted",
            annotations: &[
                Annotation::new("pid", BATCH.pid),
                Annotation::new("process", "train.py 4711"),
                Annotation::new("level", 8_u32),
                Annotation::new("reason", "more urgent work"),
                Annotation::new("by", "serve.py 4822"),
                Annotation::new("by_pid", URGENT.pid),
                Annotation::new("by_level", 2_u32),
            ],
        })
    }

    fn state(
        &mut self,
        track: TrackId,
        category: &str,
        name: &str,
        time: Range<u64>,
    ) -> Result<(), WriteError> {
        let (begin_ns, end_ns) = (time.start, Some(time.end));
        self.writer.track_slice(&TrackSlice {
            track,
            begin_ns,
            end_ns,
            category,
            name,
            annotations: &[Annotation::new("pid", BATCH.pid)],
            ended_flow: None,
        })
    }

    /// A call and the command that it starts; returns the time at which the call returns.
    fn launch(
        &mut self,
        process: ProcessId,
        way: &'static Way,
        begin_ns: u64,
        held_ns: u64,
        device: Range<u64>,
    ) -> Result<u64, WriteError> {
        self.launches += 1;
        let flow = self.launches;
        let annotations = [
            Annotation::new("origin", way.origin),
            Annotation::new("library", way.origin),
            Annotation::new("chain", way.chain),
            Annotation::new("kernel", way.kernel),
            Annotation { name: "function", value: Value::Pointer(0x5581_2000_0000 + way.device_us * 64) },
            Annotation::new("grid", "1024 x 1 x 1"),
            Annotation::new("block", "256 x 1 x 1"),
            Annotation::new("shared", 0_i64),
            Annotation::new("stream", "0x55d0c0ffee40"),
            Annotation::new("return", 0_u32),
        ];
        // Some calls take longer.
        let end_ns = begin_ns + 3_000 + flow % 13 * 180 + if flow.is_multiple_of(97) { 21_000 } else { 0 };
        let slice = Slice {
            thread: main_thread(process),
            begin_ns,
            end_ns: Some(end_ns),
            category: "hip.launch",
            name: "hipLaunchKernel",
            annotations: &annotations,
        };
        let stack = self.stacks.entry(way.callers).or_insert_with(|| stack(way));
        self.writer.slice_with_stack(&slice, stack, Some(flow))?;
        let wait_ns = device.start - begin_ns;
        let host_ns = (end_ns - begin_ns).min(wait_ns);
        let held_ns = held_ns.min(wait_ns - host_ns);
        self.writer.track_slice(&TrackSlice {
            track: self.streams[usize::from(process == URGENT)],
            begin_ns: device.start,
            end_ns: Some(device.end),
            category: "gpu",
            name: way.kernel,
            annotations: &[
                Annotation::new("pid", process.pid),
                Annotation::new("timing", "measured"),
                Annotation::new("queue_delay_ns", wait_ns),
                Annotation::new("host_ns", host_ns),
                Annotation::new("buffered_ns", held_ns),
                Annotation::new("suspended_ns", held_ns),
                Annotation::new("behind_ns", wait_ns - host_ns - held_ns),
                Annotation::new("gated_ns", 0_u64),
            ],
            ended_flow: Some(flow),
        })?;
        Ok(end_ns)
    }
}

/// The functions of a kind of launch. Each gets the library at its position in the chain, or the last one.
fn stack(way: &Way) -> Stack {
    let libraries: Vec<&str> = way.chain.split(" < ").collect();
    let frames = way.callers.split(" < ").enumerate().map(|(place, function)| StackFrame {
        function: function.into(),
        library: libraries[place.min(libraries.len() - 1)].into(),
    });
    frames.collect()
}

fn main_thread(process: ProcessId) -> ThreadId {
    ThreadId { process, tid: process.pid }
}
