//! The process that makes the calls and prints their times: one line per finding, `name<TAB>nanoseconds`, and
//! one for each library that was entered.

use std::{
    cell::Cell,
    error::Error,
    hint::black_box,
    io,
    ptr::null_mut,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use xsched_tests::bench::Samples;

use crate::{
    clock::Clock,
    hip::{Handle, Hip, HipError, NOT_READY, check},
    process::Scenario,
};

/// The calls timed while nothing is suspended: one that the shim ignores, one that waits for a stream, a
/// fill, a launch; and the shortest use of a device.
pub(crate) const FUNCTIONS: [&str; 4] =
    ["hipGetDevice", "hipStreamSynchronize", "hipMemsetAsync", "hipModuleLaunchKernel"];
pub(crate) const LAUNCH_AND_SYNCHRONIZE: &str = "launch + synchronize";
/// The timer's own time, which is subtracted from all other findings.
pub(crate) const TIMER: &str = "nothing at all";
/// A launch on a created stream.
pub(crate) const STREAM_LAUNCH: &str = "launch on a created stream";
/// A launch by each of several threads at once, each on a stream of its own.
pub(crate) const THREADS_LAUNCH: &str = "4 threads that launch";

/// The same of many threads.
pub(crate) const MANY_THREADS_LAUNCH: &str = "16 threads that launch";

/// First word of the line that names an entered library.
pub(crate) const ENTERED: &str = "entered";

/// Calls without timestamps, in pieces short enough that few of them are interrupted.
const CALLS: u32 = 2_000;
const PIECES: usize = 50;
/// Calls that are timed one by one: back to back, and at this distance.
const TIMED: usize = 20_000;
const TIMED_APART: usize = 2_000;
const APART: Duration = Duration::from_micros(20);
const WARM_UP_CALLS: u32 = 1_000;

/// Launches between two synchronisations, many fewer than a queue holds, and number of batches.
const LAUNCHES: usize = 1_000;
const BATCHES: usize = 8;

const THREADS: usize = 4;
const MANY_THREADS: usize = 16;
/// Streams of all these threads together, where they have many.
const MANY_STREAMS: usize = 1000;
/// Of all threads together.
const THREADS_CALLS: u32 = 200_000;

pub(crate) fn run(scenario: Scenario) -> Result<(), Box<dyn Error>> {
    let hip = Hip::open()?;
    match scenario {
        Scenario::Calls => calls(&hip)?,
        Scenario::Launches => launches(&hip, |_| Ok(()), |_| true)?,
        Scenario::LaunchesWhenSignalled => {
            wait_with_a_queue(&hip)?;
            launches(&hip, |_| Ok(()), |_| true)?;
        }
        Scenario::IdleNeighbour => wait_with_a_queue(&hip)?,
        Scenario::DeferredLaunches => {
            launches(
                &hip,
                |stream| wait_until_deferred(&hip, stream),
                |stream| hip.query(stream) == NOT_READY,
            )?;
        }
        Scenario::DeferredLaunchesBesideOthers => {
            // Its claim competes with the other stream's like a claim of another process.
            check(hip.launch(hip.urgent_stream()?))?;
            launches(
                &hip,
                |stream| wait_until_deferred(&hip, stream),
                |stream| hip.query(stream) == NOT_READY,
            )?;
        }
        Scenario::Threads => finding(THREADS_LAUNCH, "mean", threads(&hip, THREADS, 1)?),
        Scenario::ManyThreads | Scenario::ManyThreadsAndStreams => {
            wait_with_a_queue(&hip)?;
            let is_many = scenario == Scenario::ManyThreadsAndStreams;
            let each = if is_many { MANY_STREAMS / MANY_THREADS } else { 1 };
            finding(MANY_THREADS_LAUNCH, "mean", threads(&hip, MANY_THREADS, each)?);
        }
        Scenario::ThreadsBesideSuspendedStream => {
            let held = hip.stream()?;
            wait_until_only_deferred(&hip, held, hip.stream()?)?;
            finding(THREADS_LAUNCH, "mean", threads(&hip, THREADS, 1)?);
            if hip.query(held) != NOT_READY {
                return Err("the stream was resumed too early: the threads took too long".into());
            }
        }
    }
    for library in hip.entered()? {
        println!("{ENTERED}\t{}", library.display());
    }
    Ok(())
}

/// Each function on the null stream, from one call site.
fn calls(hip: &Hip) -> Result<(), Box<dyn Error>> {
    let stream = null_mut();
    let clock = Clock::calibrated();
    let timer = Timer::new(&clock);
    let [get_device, synchronize, memset, launch] = FUNCTIONS;
    // Until a process first uses a device, the shim checks all calls on streams more thoroughly.
    check(hip.launch(stream))?;
    time(get_device, &timer, || hip.get_device())?;
    time(synchronize, &timer, || hip.synchronize(stream))?;
    time(memset, &timer, || hip.memset(stream))?;
    time(launch, &timer, || hip.launch(stream))?;
    time(LAUNCH_AND_SYNCHRONIZE, &timer, || match hip.launch(stream) {
        0 => hip.synchronize(stream),
        error => error,
    })
}

/// The clock and its own time, back to back and with pauses; in nanoseconds.
struct Timer<'a> {
    clock: &'a Clock,
    burst_ns: f64,
    apart_ns: f64,
}

impl<'a> Timer<'a> {
    fn new(clock: &'a Clock) -> Self {
        let nothing = || {
            black_box(());
        };
        let burst = clock.each(TIMED, None, nothing);
        let apart = clock.each(TIMED_APART, Some(APART), nothing);
        let (burst_ns, apart_ns) = (burst.median(), apart.median());
        finding(TIMER, "burst p50", burst_ns);
        // The time beyond the median comes from the machine, whatever is called.
        finding(TIMER, "burst p99", burst.quantile(0.99) - burst_ns);
        finding(TIMER, "20 us apart p50", apart_ns);
        finding(TIMER, "20 us apart p99", apart.quantile(0.99) - apart_ns);
        Self { clock, burst_ns, apart_ns }
    }
}

fn time(name: &str, timer: &Timer<'_>, mut call: impl FnMut() -> HipError) -> Result<(), Box<dyn Error>> {
    for _ in 0..WARM_UP_CALLS {
        check(call())?;
    }
    let mut pieces = Vec::with_capacity(PIECES);
    for _ in 0..PIECES {
        let started = Instant::now();
        for _ in 0..CALLS {
            check(call())?;
        }
        pieces.push(started.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    finding(name, "mean", Samples::new(pieces).median());

    let failure = Cell::new(0);
    let mut noted = || failure.set(failure.get() | call());
    let burst = timer.clock.each(TIMED, None, &mut noted);
    let apart = timer.clock.each(TIMED_APART, Some(APART), &mut noted);
    check(failure.get())?;
    finding(name, "burst p50", burst.median() - timer.burst_ns);
    finding(name, "burst p99", burst.quantile(0.99) - timer.burst_ns);
    finding(name, "20 us apart p50", apart.median() - timer.apart_ns);
    finding(name, "20 us apart p99", apart.quantile(0.99) - timer.apart_ns);
    Ok(())
}

/// Launches in batches, each after `begin`. A batch does not count unless all its launches are as
/// `is_as_begun` requires.
fn launches(
    hip: &Hip,
    begin: impl Fn(Handle) -> Result<(), Box<dyn Error>>,
    is_as_begun: impl Fn(Handle) -> bool,
) -> Result<(), Box<dyn Error>> {
    let stream = hip.stream()?;
    let clock = Clock::calibrated();
    let timer_ns = clock.each(TIMED, None, || {
        black_box(());
    });
    let timer_ns = timer_ns.median();
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    while p50.len() < BATCHES {
        // Returns when everything was launched, so that the next suspension is a new one.
        check(hip.synchronize(stream))?;
        begin(stream)?;
        let (failure, started) = (Cell::new(0), Instant::now());
        let taken = clock.each(LAUNCHES, None, || failure.set(failure.get() | hip.launch(stream)));
        check(failure.get())?;
        if is_as_begun(stream) && started.elapsed() < Scenario::HELD / 2 {
            p50.push(taken.median() - timer_ns);
            p99.push(taken.quantile(0.99) - timer_ns);
        }
    }
    finding(STREAM_LAUNCH, "p50", Samples::new(p50).median());
    finding(STREAM_LAUNCH, "p99", Samples::new(p99).median());
    Ok(())
}

/// Launches once, so that a controller knows the process, and waits for the end of its input.
fn wait_with_a_queue(hip: &Hip) -> Result<(), Box<dyn Error>> {
    check(hip.launch(hip.stream()?))?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Whether a launch on the stream is deferred.
fn is_deferred(hip: &Hip, stream: Handle) -> Result<bool, Box<dyn Error>> {
    check(hip.launch(stream))?;
    Ok(hip.query(stream) == NOT_READY)
}

fn wait_until_deferred(hip: &Hip, stream: Handle) -> Result<(), Box<dyn Error>> {
    while !is_deferred(hip, stream)? {
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Waits until work on `held` is deferred and work on `free` is not.
fn wait_until_only_deferred(hip: &Hip, held: Handle, free: Handle) -> Result<(), Box<dyn Error>> {
    wait_until_deferred(hip, held)?;
    while is_deferred(hip, free)? {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The mean time of a launch by several threads, each of which has so many streams of its own and uses them in turn.
fn threads(hip: &Hip, count: usize, streams_each: usize) -> Result<f64, Box<dyn Error>> {
    let streams =
        (0..count * streams_each).map(|_| hip.stream().map(Handle::addr)).collect::<Result<Vec<_>, _>>()?;
    let (start, calls) = (Barrier::new(count), THREADS_CALLS / count as u32);
    let launch = |streams: &[usize]| -> Result<f64, String> {
        let mut streams = streams.iter().cycle();
        let mut launch = || {
            let stream = streams.next().copied().unwrap_or_default();
            hip.launch(std::ptr::with_exposed_provenance_mut(stream))
        };
        for _ in 0..WARM_UP_CALLS {
            check(launch()).map_err(|error| error.to_string())?;
        }
        start.wait();
        let started = Instant::now();
        let failed = (0..calls).fold(0, |failed, _| failed | launch());
        let taken = started.elapsed();
        check(failed).map_err(|error| error.to_string())?;
        Ok(taken.as_secs_f64() * 1e9 / f64::from(calls))
    };
    let taken = thread::scope(|scope| {
        let own = streams.chunks(streams_each);
        let threads: Vec<_> = own.map(|streams| scope.spawn(move || launch(streams))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
            .collect::<Result<Vec<_>, String>>()
    })?;
    Ok(taken.iter().sum::<f64>() / taken.len() as f64)
}

fn finding(name: &str, aspect: &str, time_ns: f64) {
    println!("{name}: {aspect}\t{time_ns}");
}
