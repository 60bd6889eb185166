//! Random HIP programs with and without the shim: how many ran, how fast, and how many had a finding.
//!
//! Runs as many as fit into the time, `PROGRAMS_PER_BATCH` at a time, on each runtime in turn, with the shim
//! in every mode: suspended, with random verdicts, with streams scheduled among each other, and beside a more
//! urgent process. Findings go to stderr, the first ones with the smallest program that still shows them.

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use xsched_differential::campaign::{self, Finding, Reports};
use xsched_differential::mode::{Mode, Paths};
use xsched_differential::planted;
use xsched_tests::small_controller::SmallController;
use xsched_tests::{
    artifacts,
    bench::{Goal, Row, Samples},
};

const BENCH: &str = "differential";
const MAJORS: [u32; 3] = [6, 7, 5];
const PROGRAMS_PER_BATCH: u64 = 200;
/// Clients at a time. They mostly wait, especially with suspended queues.
const WORKERS: usize = 4;
/// Number of findings that are shrunk.
const SHRUNK_MAX: usize = 10;
/// Runs of each candidate, since much depends on time.
const RUNS: u32 = 100;

#[derive(Parser)]
struct Args {
    /// How long to run
    #[arg(long, default_value = "1m")]
    time: humantime::Duration,
    /// Seed of the first program
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Search for the bugs that the shim was compiled with instead
    #[arg(long)]
    planted: bool,
    /// Bugs to search for; all unless some are named
    #[arg(requires = "planted", value_parser = planted::BUGS)]
    bugs: Vec<String>,
}

/// Results of one mode.
#[derive(Default)]
struct Tally {
    programs: u64,
    /// Rates of the batches, in programs per second.
    rates: Vec<f64>,
}

/// State shared by all workers.
struct Shared {
    paths: Paths,
    deadline: Instant,
    first_seed: u64,
    batches: AtomicU64,
    /// By mode, as text.
    tallies: Mutex<std::collections::BTreeMap<String, Tally>>,
    findings: Mutex<Vec<Finding>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if args.planted {
        return look_for_planted(&args.bugs, args.seed);
    }
    let folder = tempfile::tempdir()?;
    let controller = SmallController::start(folder.path())?;
    controller.flap(args.seed);
    let shared = Shared {
        paths: Paths::new(&artifacts::differential(), &artifacts::shim()).with_controller(folder.path()),
        deadline: Instant::now() + *args.time,
        first_seed: args.seed,
        batches: AtomicU64::new(0),
        tallies: Mutex::default(),
        findings: Mutex::default(),
    };
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| work(&shared));
        }
    });
    report(shared, args.seed, *args.time)
}

fn look_for_planted(named: &[String], first_seed: u64) -> Result<(), Box<dyn Error>> {
    let paths = Paths::new(&artifacts::differential(), &artifacts::shim());
    let one = |value: u64| Samples::new(vec![value as f64]);
    let is_wanted = |bug: &&str| named.is_empty() || named.iter().any(|named| named == bug);
    for bug in planted::BUGS.into_iter().filter(is_wanted) {
        let Some(found) = planted::find(bug, &paths, first_seed, RUNS)? else {
            eprintln!("{bug}: not found");
            continue;
        };
        let goal = Goal::ValueAtMost(planted::PROGRAMS_MAX as f64);
        Row::single(BENCH, format!("{bug}: found after"), "programs", &one(found.programs))
            .with_goal(goal)
            .print()?;
        if let Some(smallest) = found.smallest {
            eprintln!("{}\n{smallest}", found.finding);
            let steps = one(smallest.steps.len() as u64);
            Row::single(BENCH, format!("{bug}: smallest program"), "steps", &steps).print()?;
        }
    }
    Ok(())
}

fn work(shared: &Shared) {
    while Instant::now() < shared.deadline {
        let batch = shared.batches.fetch_add(1, Ordering::Relaxed);
        // Programs differ between runtimes too, so that a longer run repeats none.
        let first = shared.first_seed + batch * PROGRAMS_PER_BATCH;
        let seeds = first..first + PROGRAMS_PER_BATCH;
        let major = MAJORS[(batch % MAJORS.len() as u64) as usize];
        let native = Mode::native(major);
        let natively =
            timed(shared, &native, || campaign::native_reports(major, &shared.paths, seeds.clone()));
        let modes = Mode::all().into_iter().chain(Mode::scheduling());
        for mode in modes.filter(|mode| mode.major == major) {
            // Other suspensions for other programs.
            let mode = if mode.suspended.is_some() { mode.suspended(first + 1) } else { mode };
            let with = timed(shared, &mode, || {
                campaign::shim_reports(&mode, &shared.paths, &natively, seeds.clone())
            });
            note(shared, campaign::judge(&mode, &natively, &with, seeds.clone()));
            if Instant::now() >= shared.deadline {
                return;
            }
        }
    }
}

fn timed(shared: &Shared, mode: &Mode, run: impl FnOnce() -> Reports) -> Reports {
    let started = Instant::now();
    let reports = run();
    let rate = PROGRAMS_PER_BATCH as f64 / started.elapsed().as_secs_f64();
    let mut tallies = shared.tallies.lock().expect("no holder panics");
    let tally = tallies.entry(mode.to_string()).or_default();
    tally.programs += PROGRAMS_PER_BATCH;
    tally.rates.push(rate);
    reports
}

fn note(shared: &Shared, findings: Vec<Finding>) {
    for finding in &findings {
        eprintln!("{finding}");
    }
    shared.findings.lock().expect("no holder panics").extend(findings);
}

fn report(shared: Shared, first_seed: u64, time: Duration) -> Result<(), Box<dyn Error>> {
    let tallies = shared.tallies.into_inner().expect("no holder panics");
    let findings = shared.findings.into_inner().expect("no holder panics");
    let mut distinct: Vec<&Finding> = findings.iter().collect();
    distinct.sort_by_key(|finding| finding.seed);
    distinct.dedup_by_key(|finding| finding.seed);
    for finding in distinct.into_iter().take(SHRUNK_MAX) {
        match campaign::minimal(finding, &shared.paths, RUNS)? {
            Some(program) => eprintln!("{finding}\n{program}"),
            None => eprintln!("{finding}\nnot reproduced in {RUNS} runs"),
        }
    }
    let one = |value: u64| Samples::new(vec![value as f64]);
    for (mode, tally) in &tallies {
        let rate = Samples::new(tally.rates.clone());
        Row::single(BENCH, format!("{mode}: rate of a client"), "programs/s", &rate).print()?;
    }
    let (native, with_shim): (Vec<_>, Vec<_>) =
        tallies.iter().partition(|(mode, _)| mode.starts_with("native"));
    let sum = |side: Vec<(&String, &Tally)>| side.iter().map(|(_, tally)| tally.programs).sum::<u64>();
    let with_shim = sum(with_shim);
    let all = Samples::new(vec![with_shim as f64 / time.as_secs_f64()]);
    Row::single(BENCH, "first seed", "", &one(first_seed)).print()?;
    Row::single(BENCH, "programs", "", &one(sum(native))).print()?;
    Row::single(BENCH, "runs with the shim", "", &one(with_shim)).print()?;
    Row::single(BENCH, "rate of all", "runs/s", &all).print()?;
    let count = one(findings.len() as u64);
    Row::single(BENCH, "findings", "", &count).with_goal(Goal::ValueAtMost(0.0)).print()?;
    Ok(())
}
