//! How many launches per second are recorded without loss, their cost to the tracer, and its loop's longest turn. Threads of this
//! process launch on the simulated runtime's null mode, at a steady rate and at full speed, while `xsched-ctl
//! trace` records them into a file.
//!
//! Each launch must be recorded or counted as lost: a run whose numbers do not add up is an error. Rates
//! depend as much on the machine's other load as on the tracer, so that load is printed. The tracer's
//! processor time per recorded launch depends little on it.
//!
//! Last, a library of a gigabyte launches, which the tracer has never seen, and one with as many symbols as those of PyTorch.

mod large_library;
mod many_symbols;

use std::error::Error;
use std::ffi::c_void;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use libloading::Library;
use xsched_tests::artifacts;
use xsched_tests::bench::{Goal, Row, Samples};
use xsched_tests::processor_time;
use xsched_tests::tracer::{Running, xsched_ctl};

const BENCH: &str = "rate";
const ROUNDS: usize = 3;
const SECONDS_PER_ROUND: u32 = 5;

/// Requested launches per second, all threads together.
const RATES: [u32; 3] = [50_000, 100_000, 200_000];
/// The rate at which no launch may be lost.
const GOAL_RATE: u32 = 200_000;
const THREADS: u32 = 4;

/// The same of the large library, whose first calls wait until it has been read.
const LARGE_RATE: u32 = 20_000;

/// The default size holds a fifth of a second at the highest rate, and a busy machine keeps the tracer off
/// its processor for longer than that.
const RING_SIZE: &str = "64M";

/// Launches of a round at full speed.
const FULL_SPEED_LAUNCHES: u32 = 1_000_000;

/// Launches are made in bursts of this size, as frameworks make them; the threads sleep between bursts.
const BURST: u32 = 50;

/// Size of the vectors, with which no kernel computes.
const SIZE: u32 = 64;

/// `demo_blas_mix(size, x, y, stream)`: one launch.
type Mix = unsafe extern "C" fn(u32, *const c_void, *mut c_void, *mut c_void) -> i32;

/// `large_launch(stream)`: one launch.
type LargeLaunch = unsafe extern "C" fn(*mut c_void) -> i32;

/// `call(function)` of the library with many symbols.
type Call = unsafe extern "C" fn(extern "C" fn() -> i32) -> i32;

/// What the library with many symbols calls for others.
static MIX: OnceLock<Mix> = OnceLock::new();

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("HIP_SIM_NULL", "1") };
    // SAFETY: the library's initialisers register its kernels with the runtime that it loads, and do nothing
    // else.
    let library = unsafe { Library::new(artifacts::app("libdemo_blas.so"))? };
    // SAFETY: the type is that of the declaration in demo_blas.h.
    let mix = unsafe { library.get::<Mix>(b"demo_blas_mix")? };
    // SAFETY: in null mode no kernel runs, so the pointers are not dereferenced.
    let launch = || unsafe { mix(SIZE, std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut()) };
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("run.perfetto");
    for rate in RATES.map(Some).into_iter().chain([None]) {
        let round = |_| record(rate, &trace, || Ok(launch));
        let rounds = (0..ROUNDS).map(round).collect::<Result<Vec<_>, _>>()?;
        let speed = rate.map_or_else(|| "at full speed".to_owned(), |rate| format!("at {rate} a second"));
        print(&rounds, &speed, rate == Some(GOAL_RATE))?;
    }
    let rounds = (0..ROUNDS).map(|_| record_large_library(&trace)).collect::<Result<Vec<_>, _>>()?;
    print(&rounds, &format!("with a library of 1 GB, at {LARGE_RATE} a second"), true)?;
    let _ = MIX.set(*mix);
    let rounds = (0..ROUNDS).map(|_| record_many_symbols(&trace)).collect::<Result<Vec<_>, _>>()?;
    print(&rounds, &format!("with {} symbols, at {LARGE_RATE} a second", many_symbols::COUNT), true)?;
    Ok(())
}

fn print(rounds: &[Round], what: &str, has_goals: bool) -> io::Result<()> {
    let row = |of_what: &str, unit, of: fn(&Round) -> f64| {
        let samples = Samples::new(rounds.iter().map(of).collect());
        let row = Row::single(BENCH, format!("{of_what} {what}"), unit, &samples);
        move |goal: Option<Goal>| goal.map_or(row.clone(), |goal| row.clone().with_goal(goal)).print()
    };
    let at_most = |goal: f64| has_goals.then_some(Goal::ValueAtMost(goal));
    row("launches", "1/s", |round| f64::from(round.made) / round.seconds)(None)?;
    row("lost", "%", |round| 100.0 * round.lost as f64 / f64::from(round.made))(at_most(0.0))?;
    row("tracer's processor time per launch", "ns", |round| round.tracer_ns)(None)?;
    row("program's own processor time per launch", "ns", |round| round.program_ns)(None)?;
    row("longest turn of the tracer's loop", "ms", |round| round.longest_turn_ms)(at_most(50.0))?;
    row("runnable threads", "", |round| round.load)(None)
}

/// A new library in each round: the tracer keeps what it has learnt of a file.
fn record_large_library(trace: &Path) -> Result<Round, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = large_library::link(folder.path())?;
    record(Some(LARGE_RATE), trace, || {
        // SAFETY: as for the other library.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(&path)? }));
        // SAFETY: the type is that of the definition in large_step.hip.
        let launch = unsafe { library.get::<LargeLaunch>(b"large_launch")? };
        // SAFETY: in null mode no kernel runs.
        Ok(move || unsafe { launch(std::ptr::null_mut()) })
    })
}

/// A new library in each round, as above.
fn record_many_symbols(trace: &Path) -> Result<Round, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = many_symbols::build(folder.path())?;
    record(Some(LARGE_RATE), trace, || {
        // SAFETY: the library has no initialisers.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(&path)? }));
        // SAFETY: the type is that of the definition in many_symbols.rs.
        let call = unsafe { library.get::<Call>(b"call")? };
        // SAFETY: it calls its argument and returns.
        Ok(move || unsafe { call(mix_once) })
    })
}

extern "C" fn mix_once() -> i32 {
    let Some(mix) = MIX.get() else { return -1 };
    // SAFETY: in null mode no kernel runs, so the pointers are not dereferenced.
    unsafe { mix(SIZE, std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut()) }
}

/// Results of a round.
struct Round {
    made: u32,
    lost: u64,
    /// Duration of the launches.
    seconds: f64,
    /// Processor time of the tracer for each recorded launch, in user space and in the kernel.
    tracer_ns: f64,
    /// Processor time of the launching threads for each launch, including that of the probes.
    program_ns: f64,
    /// For so long the tracer did not read its ring buffer, at most.
    longest_turn_ms: f64,
    /// Runnable threads on the machine over the last minute.
    load: f64,
}

/// Launches while the tracer records, by what `load` returns once it does.
fn record<L: Fn() -> i32 + Sync>(
    rate: Option<u32>,
    trace: &Path,
    load: impl FnOnce() -> Result<L, Box<dyn Error>>,
) -> Result<Round, Box<dyn Error>> {
    let own = std::process::id();
    let waited_for = processor_time::of_ended_children(own)?;
    let mut command = xsched_ctl(["trace", "--ring-size", RING_SIZE, "--pid", &own.to_string(), "-o"]);
    command.arg(trace).env("XSCHED_CTL_LOG", "warn,xsched_tracer::turns=info");
    let mut tracer = Running::start(&mut command);
    tracer.wait_for_stderr("recording process");
    let tracer_start = processor_time::of(tracer.pid())?;
    let program_start = processor_time::of(own)?;
    let (made, seconds) = launch(load()?, rate);
    let program = processor_time::of(own)?.saturating_sub(program_start);
    let program_ns = program.as_nanos() as f64 / f64::from(made);
    let stderr = tracer.interrupt().stderr;
    let tracer = processor_time::of_ended_children(own)?.saturating_sub(waited_for + tracer_start);

    let longest_turn_ms =
        longest_turn_ms(&stderr).ok_or_else(|| format!("no longest turn of the loop: {stderr}"))?;
    let recorded = recorded_launches(&stderr).ok_or_else(|| format!("no closing words: {stderr}"))?;
    let lost = lost_calls(&stderr);
    if recorded + lost != u64::from(made) {
        return Err(format!("{made} launches, but {recorded} recorded and {lost} lost: {stderr}").into());
    }
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default().parse()?;
    let tracer_ns = tracer.as_nanos() as f64 / recorded as f64;
    Ok(Round { made, lost, seconds, tracer_ns, program_ns, longest_turn_ms, load })
}

/// Launches from all threads; returns the number of launches and their duration in seconds.
fn launch(launch: impl Fn() -> i32 + Sync, rate: Option<u32>) -> (u32, f64) {
    let all = rate.map_or(FULL_SPEED_LAUNCHES, |rate| rate * SECONDS_PER_ROUND);
    let bursts = all / THREADS / BURST;
    let burst_time = rate
        .map(|rate| Duration::from_secs_f64(f64::from(BURST * THREADS) / f64::from(rate)))
        .unwrap_or_default();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut due = Instant::now();
                for _ in 0..bursts {
                    for _ in 0..BURST {
                        assert_eq!(launch(), 0, "the launch was refused");
                    }
                    due += burst_time;
                    // A late thread makes its next bursts at once.
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            });
        }
    });
    (bursts * BURST * THREADS, started.elapsed().as_secs_f64())
}

/// The time in the message `the longest turn of the loop took N us`.
fn longest_turn_ms(stderr: &str) -> Option<f64> {
    let (_, time) = stderr.lines().find_map(|line| line.split_once("longest turn of the loop took "))?;
    Some(time.strip_suffix(" us")?.parse::<f64>().ok()? / 1e3)
}

/// The count in the final message `N HIP calls, M launches, …`.
fn recorded_launches(stderr: &str) -> Option<u64> {
    let (_, counts) = stderr.lines().find_map(|line| line.split_once(" HIP calls, "))?;
    counts.split_once(" launches")?.0.parse().ok()
}

/// The counts in the final message `incomplete: N calls lost: …`.
fn lost_calls(stderr: &str) -> u64 {
    stderr
        .lines()
        .filter_map(|line| line.strip_prefix("incomplete: ")?.split_once(" calls lost"))
        .filter_map(|(count, _)| count.parse::<u64>().ok())
        .sum()
}
