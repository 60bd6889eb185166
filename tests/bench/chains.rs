//! The cost of call chains: the time that a walk adds to a traced call, and that a trace with chains adds to
//! an untraced one.
//!
//! This process makes the calls itself, on the simulated runtime's null mode. Two kinds of probes serve as
//! baselines: one that runs no program, as `perf` creates them to count, and the tracer's without chains
//! (`--depth 0`). A *hit* is a call whose walk is cached. For a *miss* the stack is shifted before each call,
//! so that the chain is the same but every word of it is at another address.

use std::error::Error;
use std::ffi::{CString, c_void};
use std::time::Instant;

use libloading::Library;
use perf_event::events::Software;
use xsched_tests::artifacts;
use xsched_tests::bench::{Goal, Row, Samples};
use xsched_tests::tracer::{Running, xsched_ctl};

const BENCH: &str = "chains";
const ROUNDS: usize = 7;
const CALLS: u32 = 20_000;

/// Number of stack shifts for misses: more than the cache has entries.
const SHIFTS: u32 = 16_384;

/// The kernel's file with the type number of uprobe events.
const PROBE_TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";

/// `deep_bench(depth, shift)`
type Call = unsafe extern "C" fn(u32, u32) -> i32;

/// One way to call.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    depth: u32,
    shifts: u32,
    goal: Option<Goal>,
}

const WAYS: [Way; 5] = [
    Way { name: "hit, 7 frames deeper", depth: 7, shifts: 1, goal: Some(Goal::ValueAtMost(200.0)) },
    Way { name: "hit, 40 frames deeper", depth: 40, shifts: 1, goal: None },
    Way { name: "miss, 7 frames deeper", depth: 7, shifts: SHIFTS, goal: None },
    Way { name: "miss, 16 frames deeper", depth: 16, shifts: SHIFTS, goal: Some(Goal::ValueAtMost(900.0)) },
    Way { name: "miss, 40 frames deeper", depth: 40, shifts: SHIFTS, goal: None },
];

/// Calls per timing.
const BATCH: u32 = 500;

/// Nanoseconds per call of each way: the median of all batches, so that other load in some of them does not
/// count.
type Times = [f64; WAYS.len()];

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("HIP_SIM_NULL", "1") };
    // SAFETY: the library's initialisers load the runtime, and do nothing else.
    let library = unsafe { Library::new(artifacts::app("libdeep_bench.so"))? };
    // SAFETY: the type is that of the definition in bench.cpp.
    let call = unsafe { library.get::<Call>(b"deep_bench")? };
    // A thread of its own has as much stack as the shifts need, whatever the first thread's limit is.
    std::thread::scope(|scope| {
        let measure = || measure(*call).map_err(|error| error.to_string());
        std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, measure)?.join().map_or_else(
            |_| Err("the measuring thread has panicked".into()),
            |outcome| outcome.map_err(Into::into),
        )
    })
}

fn measure(call: Call) -> Result<(), Box<dyn Error>> {
    let (mut untraced, mut counted, mut plain, mut chained) = (vec![], vec![], vec![], vec![]);
    let mut around = vec![];
    for _ in 0..ROUNDS {
        untraced.push(times(call));
        let counter = counting_probe()?;
        counted.push(times(call));
        drop(counter);
        plain.push(traced("0", call).0);
        let (times, times_around) = traced("127", call);
        chained.push(times);
        around.push(times_around);
    }
    for (index, way) in WAYS.iter().enumerate() {
        let difference = |of: &[Times], to: &[Times]| {
            Samples::new(of.iter().zip(to).map(|(of, to)| of[index] - to[index]).collect())
        };
        let added = |what: &str, samples: &Samples| {
            Row::single(BENCH, format!("{}: {what}", way.name), "ns", samples)
        };
        let walk = added("added by the walk", &difference(&chained, &plain));
        way.goal.map_or(walk.clone(), |goal| walk.with_goal(goal)).print()?;
        added("against an empty probe", &difference(&chained, &counted)).print()?;
        added("against an untraced call", &difference(&chained, &untraced)).print()?;
    }
    let of = |field: fn(&Around) -> f64| Samples::new(around.iter().map(field).collect());
    Row::single(BENCH, "detaching all probes", "ms", &of(|around| around.detach))
        .with_goal(Goal::ValueAtMost(200.0))
        .print()?;
    Row::single(BENCH, "from the signal to the end of the tracer", "ms", &of(|around| around.end)).print()?;
    Row::single(BENCH, "from the start of the tracer to recording", "ms", &of(|around| around.begin))
        .with_goal(Goal::ValueAtMost(1000.0))
        .print()?;
    Ok(())
}

/// Calls each way.
fn times(call: Call) -> Times {
    WAYS.map(|Way { depth, shifts, .. }| {
        // The first calls request the walk's tables.
        let warm = CALLS / BATCH / 10;
        let mut batches = Vec::new();
        for batch in 0..warm + CALLS / BATCH {
            let started = Instant::now();
            for count in 0..BATCH {
                // SAFETY: the function takes numbers, and the thread has enough stack for them.
                let status = unsafe { call(depth, (batch * BATCH + count) % shifts) };
                assert_eq!(status, 0, "the call was refused");
            }
            if batch >= warm {
                batches.push(started.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
            }
        }
        Samples::new(batches).median()
    })
}

/// The tracer's times besides calls, in milliseconds.
struct Around {
    begin: f64,
    /// To detach the probes: a part of the end.
    detach: f64,
    end: f64,
}

/// The same with the tracer attached.
fn traced(depth: &str, call: Call) -> (Times, Around) {
    let own_pid = std::process::id().to_string();
    let started = Instant::now();
    let arguments = ["trace", "--pid", &own_pid, "--depth", depth, "-o", "/dev/null"];
    let mut tracer =
        Running::start(xsched_ctl(arguments).env("XSCHED_CTL_LOG", "warn,xsched_tracer::session=debug"));
    tracer.wait_for_stderr("recording process");
    let begin = started.elapsed().as_secs_f64() * 1e3;
    // Once, to load the tables of all libraries on the stacks.
    times(call);
    let times = times(call);
    let ending = Instant::now();
    let outcome = tracer.interrupt();
    let end = ending.elapsed().as_secs_f64() * 1e3;
    for line in outcome.stderr.lines().filter(|line| line.starts_with("incomplete")) {
        eprintln!("{line}");
    }
    let detached_us =
        outcome.stderr.lines().find_map(|line| line.split_once("probes taken out took_us=")?.1.parse().ok());
    let detached_us: f64 = detached_us.expect("the tracer's log level includes it");
    let detach = detached_us / 1e3;
    (times, Around { begin, detach, end })
}

/// A probe at the function that the library calls, which counts and runs no program.
fn counting_probe() -> Result<perf_event::Counter, Box<dyn Error>> {
    // SAFETY: looking up a symbol of a library that is loaded.
    let runtime = unsafe { Library::new("libamdhip64.so.6")? };
    // SAFETY: the address is only read.
    let function = *unsafe { runtime.get::<*const c_void>(b"hipStreamSynchronize")? } as u64;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (path, offset) = maps
        .lines()
        .find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let inside = (start..u64::from_str_radix(end, 16).ok()?).contains(&function);
            let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
            inside.then(|| Some((fields.nth(2)?.to_owned(), offset + function - start)))?
        })
        .ok_or("the function is in no mapping")?;
    let path = CString::new(path)?;
    let mut builder = perf_event::Builder::new(Software::DUMMY);
    // The crate's own event type for user space probes cannot be built.
    let attributes = builder.attrs_mut();
    attributes.type_ = std::fs::read_to_string(PROBE_TYPE)?.trim().parse()?;
    attributes.config = 0;
    attributes.uprobe_path = path.as_ptr() as u64;
    attributes.probe_offset = offset;
    let mut counter = builder.build()?;
    counter.enable()?;
    Ok(counter)
}
