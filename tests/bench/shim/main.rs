//! Calling HIP with and without the preloaded shim: time per call on a simulated runtime that does next to
//! nothing.
//!
//! Each round starts this program twice more, as a process that makes the calls (`caller`) and prints their
//! times. One of the two has the shim, which is injected in each of its ways in turn. A process whose calls
//! enter the wrong library is an error.
//!
//! Rows called `mean` are of a loop without timestamps: its median over pieces. All others are of single
//! calls, each between two timestamps, less the time of the timestamps in the same process. `nothing at all`
//! shows the machine's noise: the timer without a call.

mod caller;
mod clock;
mod hip;
mod process;

use std::{env, error::Error, process::ExitCode};

use caller::{FUNCTIONS, LAUNCH_AND_SYNCHRONIZE, MANY_THREADS_LAUNCH, STREAM_LAUNCH, THREADS_LAUNCH, TIMER};
use process::{Findings, IdleNeighbour, Scenario, Way, measure, measure_under, pairs};
use xsched_tests::bench::{Goal, Paired, Row, alternate};
use xsched_tests::serving::Serving;

const BENCH: &str = "shim";
const ROUNDS: usize = 21;

/// Limits for the time that the shim adds to a call while nothing is scheduled: nanoseconds by aspect.
const ADDED_NS_MAX: [(&str, f64); 5] = [
    ("mean", 30.0),
    ("burst p50", 30.0),
    ("burst p99", 100.0),
    ("20 us apart p50", 30.0),
    ("20 us apart p99", 100.0),
];
/// The same for a launch with its synchronisation.
const LAUNCH_AND_SYNCHRONIZE_ADDED_NS_MAX: f64 = 300.0;
/// Limit for the time of a deferred launch in its caller.
const DEFERRED_LAUNCH_NS_MAX: f64 = 300.0;

/// The argument that makes this program the calling process; the next argument names the scenario.
const CALLER: &str = "--caller";

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CALLER, scenario] => match Scenario::named(scenario) {
            Some(scenario) => caller::run(scenario),
            None => Err(format!("no scenario `{scenario}`").into()),
        },
        _ => compare(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-shim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A name, and the function that prints its rows for one way, with the ways.
type Part = (&'static str, fn(Way) -> Result<(), Box<dyn Error>>, &'static [Way]);

const PARTS: [Part; 5] = [
    ("calls", calls, &[Way::Symbols, Way::Tables, Way::TablesAlone]),
    ("deferred", deferred_launches, &[Way::Symbols, Way::Tables]),
    ("controller", launches_under_a_controller, &[Way::Symbols, Way::Tables]),
    ("threads", threads, &[Way::Symbols, Way::Tables]),
    ("streams", streams, &[Way::Tables]),
];

/// All parts, or those that are named.
fn compare(wanted: &[String]) -> Result<(), Box<dyn Error>> {
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|(known, ..)| known != *name)) {
        let known: Vec<_> = PARTS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("no part `{unknown}`; there are: {}", known.join(", ")).into());
    }
    for (name, part, ways) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            ways.iter().try_for_each(|&way| part(way))?;
        }
    }
    Ok(())
}

/// The time of a launch by many threads on a thousand streams, with that on one stream for each thread, beside an idle process
/// that is as urgent or more.
fn streams(way: Way) -> Result<(), Box<dyn Error>> {
    [0, 10].into_iter().try_for_each(|priority| streams_beside(way, priority))
}

fn streams_beside(way: Way, priority: i32) -> Result<(), Box<dyn Error>> {
    const RATIO_MAX: f64 = 1.5;
    const ROUNDS: usize = 7;
    let controller = Serving::start("")?;
    let _other = IdleNeighbour::join(&controller, way, priority)?;
    let measure = |scenario| measure_under(&controller, way, scenario, 1);
    let rounds =
        alternate(ROUNDS, || measure(Scenario::ManyThreads), || measure(Scenario::ManyThreadsAndStreams))?;
    let pair = Paired::new(&pairs(&rounds, &format!("{MANY_THREADS_LAUNCH}: mean"))?);
    let urgent = if priority > 0 { "a more urgent" } else { "an" };
    let row = Row::compared(
        BENCH,
        format!("{MANY_THREADS_LAUNCH} on 1000 streams, beside {urgent} idle process"),
        "ns",
        &pair,
    );
    // Below a more urgent process, the limit on what is in flight keeps launches.
    let row = if priority > 0 { row } else { row.with_goal(Goal::RatioAtMost(RATIO_MAX)) };
    row.print()?;
    Ok(())
}

/// The time that the shim adds to calls while nothing is suspended.
fn calls(way: Way) -> Result<(), Box<dyn Error>> {
    let rounds =
        alternate(ROUNDS, || measure(Way::Absent, Scenario::Calls), || measure(way, Scenario::Calls))?;
    // With `tables alone`, calls take the same path as with `tables`.
    let aspects = if way == Way::TablesAlone { &ADDED_NS_MAX[..1] } else { &ADDED_NS_MAX[..] };
    for (aspect, _) in &aspects[1..] {
        let machine = Paired::new(&pairs(&rounds, &format!("{TIMER}: {aspect}"))?);
        Row::compared(BENCH, format!("{TIMER}, {aspect}: {}", way.name()), "ns", &machine).print()?;
    }
    for function in FUNCTIONS {
        for (aspect, bound_ns) in aspects {
            added(&rounds, function, aspect, way, *bound_ns)?;
        }
    }
    for (aspect, _) in aspects {
        added(&rounds, LAUNCH_AND_SYNCHRONIZE, aspect, way, LAUNCH_AND_SYNCHRONIZE_ADDED_NS_MAX)?;
    }
    Ok(())
}

/// The time that the shim adds, with the time without it.
fn added(
    rounds: &[(Findings, Findings)],
    function: &str,
    aspect: &str,
    way: Way,
    bound_ns: f64,
) -> Result<(), Box<dyn Error>> {
    let pair = Paired::new(&pairs(rounds, &format!("{function}: {aspect}"))?);
    Row::added(BENCH, format!("{function}, {aspect}: {}: added", way.name()), "ns", &pair)
        .with_goal(Goal::ValueAtMost(bound_ns))
        .print()?;
    Ok(())
}

/// The time of a deferred launch in its caller, with the time of one that is not deferred, without the shim.
fn deferred_launches(way: Way) -> Result<(), Box<dyn Error>> {
    for (scenario, name) in [
        (Scenario::DeferredLaunches, "launch deferred"),
        (Scenario::DeferredLaunchesBesideOthers, "launch deferred beside others"),
    ] {
        let rounds =
            alternate(ROUNDS, || measure(Way::Absent, Scenario::Launches), || measure(way, scenario))?;
        for aspect in ["p50", "p99"] {
            let pair = Paired::new(&pairs(&rounds, &format!("{STREAM_LAUNCH}: {aspect}"))?);
            let row = Row::compared(BENCH, format!("{name}, {aspect}: {}", way.name()), "ns", &pair);
            if aspect == "p50" { row.with_goal(Goal::ValueAtMost(DEFERRED_LAUNCH_NS_MAX)) } else { row }
                .print()?;
        }
    }
    Ok(())
}

/// The time of a launch that is not deferred, in a process that has a controller.
fn launches_under_a_controller(way: Way) -> Result<(), Box<dyn Error>> {
    for (name, observing, others) in
        [("alone", false, 0), ("beside an idle process", false, 1), ("observed", true, 0)]
    {
        let controller = if observing { Serving::start_observing()? } else { Serving::start("")? };
        let _others: Vec<_> =
            (0..others).map(|_| IdleNeighbour::join(&controller, way, 0)).collect::<Result<_, _>>()?;
        let rounds = alternate(
            ROUNDS,
            || measure(Way::Absent, Scenario::Launches),
            || measure_under(&controller, way, Scenario::LaunchesWhenSignalled, others),
        )?;
        for aspect in ["p50", "p99"] {
            let pair = Paired::new(&pairs(&rounds, &format!("{STREAM_LAUNCH}: {aspect}"))?);
            let metric = format!("launch under a controller, {name}, {aspect}: {}: added", way.name());
            Row::added(BENCH, metric, "ns", &pair).print()?;
        }
    }
    Ok(())
}

/// The time of several threads' launches while none of their streams is suspended.
fn threads(way: Way) -> Result<(), Box<dyn Error>> {
    let name = format!("{THREADS_LAUNCH}: mean");
    for (scenario, with) in [
        (Scenario::Threads, "nothing suspended"),
        (Scenario::ThreadsBesideSuspendedStream, "another stream suspended"),
    ] {
        let rounds =
            alternate(ROUNDS, || measure(Way::Absent, Scenario::Threads), || measure(way, scenario))?;
        let pair = Paired::new(&pairs(&rounds, &name)?);
        Row::compared(BENCH, format!("{THREADS_LAUNCH}: {}, {with}", way.name()), "ns", &pair).print()?;
    }
    Ok(())
}
