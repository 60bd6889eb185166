//! Tracing a process that only launches: time for one launch with and without `xsched-ctl trace` attached.
//!
//! This process makes the launches itself, through a library, on the simulated runtime's null mode. So the
//! work takes next to no time, and the added time is the tracer's: a probe at entry and return, and the
//! processor time that the tracer takes to read, resolve and encode the records.
//!
//! Then the same in a process with the shim that has joined a controller. It writes events about its scheduling while it is recorded,
//! and that costs time of its own. So launches that probes record, and launches that the process records itself, are compared
//! with a recording of no launch. That part counts the processor time of the thread that launches: the shim's watcher and the
//! tracer need a processor each besides.

use std::env;
use std::error::Error;
use std::ffi::c_void;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libloading::Library;
use rustix::time::{ClockId, clock_gettime};
use xsched_tests::artifacts;
use xsched_tests::bench::{Goal, Row, Samples, paired};
use xsched_tests::serving::Serving;
use xsched_tests::tracer::{Running, xsched_ctl};

const BENCH: &str = "trace";
const ROUNDS: usize = 9;
const LAUNCHES_PER_ROUND: u32 = 50_000;

/// Size of the vectors, with which no kernel computes.
const SIZE: u32 = 64;

/// `demo_blas_mix(size, x, y, stream)`: one launch.
type Mix = unsafe extern "C" fn(u32, *const c_void, *mut c_void, *mut c_void) -> i32;

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: no other thread exists yet.
    unsafe { env::set_var("HIP_SIM_NULL", "1") };
    if env::var_os(JOINED).is_some() {
        return joined();
    }
    let library = Launcher::load()?;
    let mut lost = Vec::new();
    let pair = paired(
        ROUNDS,
        || Ok::<_, Box<dyn Error>>(library.time_ns()),
        || {
            let (time_ns, _, outcome) = traced(&library, Launcher::time_ns, &[]);
            lost.push(lost_calls(&outcome));
            Ok(time_ns)
        },
    )?;
    Row::compared(BENCH, "time per launch, traced", "ns", &pair).print()?;
    Row::single(BENCH, "added per launch", "ns", &pair.difference).print()?;
    Row::single(BENCH, "launches a second, traced", "1/s", &pair.subject.map(|ns| 1e9 / ns)).print()?;
    Row::single(BENCH, "launches lost", "%", &Samples::new(lost).map(percent)).print()?;

    let controller = Serving::start("")?;
    let mut again = Command::new(env::current_exe()?);
    again.env("LD_PRELOAD", artifacts::shim()).env("XSCHED_SOCKET_DIR", controller.folder()).env(JOINED, "1");
    if again.status()?.success() { Ok(()) } else { Err(controller.log().into()) }
}

/// Set in the process that has the shim.
const JOINED: &str = "BENCH_TRACE_JOINED";

/// Launches without a pause, and the pause behind them, in which the tracer reads all.
const BURST: u32 = 2500;
const PAUSE: Duration = Duration::from_millis(15);

/// Launches before a measurement: until the tracer knows the program's walks.
const WARM_UP: Duration = Duration::from_millis(500);

/// Records calls that the program does not make.
const NO_LAUNCH: [&str; 2] = ["--api", "hipMalloc"];

/// The part with the shim.
fn joined() -> Result<(), Box<dyn Error>> {
    let library = Launcher::load()?;
    // It joins at its first launches.
    let started = Instant::now();
    while started.elapsed() < WARM_UP {
        library.processor_ns();
    }
    let pair = paired(
        ROUNDS,
        || Ok::<_, Box<dyn Error>>(library.processor_ns()),
        || Ok(traced(&library, Launcher::processor_ns, &NO_LAUNCH).0),
    )?;
    Row::added(
        BENCH,
        "processor time added per launch, with the shim, by events about its scheduling",
        "ns",
        &pair,
    )
    .print()?;
    for (what, options, goal) in [
        ("with the shim, by probes", &["--probe-all"][..], None),
        ("with the shim, by itself", &[][..], Some(Goal::ValueAtMost(300.0))),
    ] {
        let (mut lost, mut own) = (Vec::new(), Vec::new());
        let pair = paired(
            ROUNDS,
            || Ok::<_, Box<dyn Error>>(traced(&library, Launcher::processor_ns, &NO_LAUNCH).0),
            || {
                let (time_ns, launches, outcome) = traced(&library, Launcher::processor_ns, options);
                lost.push(lost_calls(&outcome));
                own.push(own_calls(&outcome) / launches);
                Ok(time_ns)
            },
        )?;
        let row = Row::added(BENCH, format!("processor time added per launch, {what}"), "ns", &pair);
        goal.map_or(row.clone(), |goal| row.with_goal(goal)).print()?;
        let metric = |of: &str| format!("launches {of}, {what}");
        Row::single(
            BENCH,
            metric("recorded by the process"),
            "%",
            &Samples::new(own).map(|part| 100.0 * part),
        )
        .print()?;
        Row::single(BENCH, metric("lost"), "%", &Samples::new(lost).map(percent)).print()?;
    }
    Ok(())
}

/// The library that launches.
struct Launcher(Library);

impl Launcher {
    fn load() -> Result<Self, Box<dyn Error>> {
        // SAFETY: the library's initialisers register its kernels with the runtime that it loads, and do nothing
        // else.
        Ok(Self(unsafe { Library::new(artifacts::app("libdemo_blas.so"))? }))
    }

    /// Time of a launch.
    fn time_ns(&self) -> f64 {
        let started = Instant::now();
        self.launch(LAUNCHES_PER_ROUND);
        started.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES_PER_ROUND)
    }

    /// Processor time of a launch, of those that come in bursts. A process that launches faster than the tracer reads leaves
    /// launches to the probes when the memory for its own is half full.
    fn processor_ns(&self) -> f64 {
        let mut time = Duration::ZERO;
        for _ in 0..LAUNCHES_PER_ROUND / BURST {
            let started = processor_time();
            self.launch(BURST);
            time += processor_time().saturating_sub(started);
            thread::sleep(PAUSE);
        }
        time.as_secs_f64() * 1e9 / f64::from(LAUNCHES_PER_ROUND)
    }

    fn launch(&self, count: u32) {
        // SAFETY: the type is that of the declaration in demo_blas.h.
        let mix = unsafe { self.0.get::<Mix>(b"demo_blas_mix") }.expect("the library has it");
        for _ in 0..count {
            // SAFETY: in null mode no kernel runs, so the pointers are not dereferenced.
            let status = unsafe { mix(SIZE, std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut()) };
            assert_eq!(status, 0, "the launch was refused");
        }
    }
}

/// Time of a launch while this process is traced with these options, how many it made meanwhile, and what the tracer said at the
/// end.
fn traced(library: &Launcher, time: fn(&Launcher) -> f64, options: &[&str]) -> (f64, f64, String) {
    let own_pid = std::process::id().to_string();
    let mut command = xsched_ctl(["trace", "--pid", &own_pid, "-o", "/dev/null"]);
    command.args(options).env("XSCHED_CTL_LOG", "info").env_remove("LD_PRELOAD");
    let mut tracer = Running::start(&mut command);
    tracer.wait_for_stderr("recording process");
    let started = Instant::now();
    let mut launches = 0.0;
    loop {
        launches += f64::from(LAUNCHES_PER_ROUND);
        // From one place: the tracer has to know this walk.
        let time_ns = time(library);
        if env::var_os(JOINED).is_none() || started.elapsed() > WARM_UP {
            return (time_ns, launches, tracer.interrupt().stderr);
        }
    }
}

/// What the calling thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

fn percent(launches: f64) -> f64 {
    launches * 100.0 / f64::from(LAUNCHES_PER_ROUND)
}

/// The count in the message `processes have recorded N launches themselves`.
fn own_calls(stderr: &str) -> f64 {
    let counts =
        stderr.lines().filter_map(|line| line.split_once("processes have recorded ")?.1.split(' ').next());
    counts.filter_map(|count| count.parse::<f64>().ok()).sum()
}

/// The count in the final message `incomplete: N calls lost: …`, or none.
fn lost_calls(stderr: &str) -> f64 {
    stderr
        .lines()
        .filter_map(|line| line.strip_prefix("incomplete: ")?.split_once(" calls lost"))
        .filter_map(|(count, _)| count.parse::<f64>().ok())
        .sum()
}
