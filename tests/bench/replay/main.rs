//! How far `xsched-ctl replay` is off: a recorded load under its own policy, and other policies compared with real runs of them.
//!
//! A service at 20 requests a second beside a batch job, on a simulated device. Each round records it under `priority`, and then
//! with other parameters under `fair` and under `partition`. The first recording is replayed as each of the three. A goal is what the
//! model may be off from what was recorded under that policy. It holds on a machine with a processor for each of six threads.

#[path = "../sched/client.rs"]
#[expect(dead_code, reason = "scenarios of `bench sched` use the rest")]
mod client;
#[path = "../sched/controller.rs"]
#[expect(dead_code, reason = "scenarios of `bench sched` use the rest")]
mod controller;
#[path = "../sched/node.rs"]
#[expect(dead_code, reason = "scenarios of `bench sched` use the rest")]
mod node;
#[path = "../sched/result.rs"]
mod result;

use std::path::Path;
use std::process::ExitCode;

use rustix::process::Signal;
use serde_json::Value;
use xsched_tests::bench::{Goal, Row, Samples};
use xsched_tests::tracer::{Running, run, xsched_ctl};

use client::{Client, Parameters, Plan, Until};
use node::{Node, Regime};
use result::Result;

const BENCH: &str = "replay";
const ROUNDS: usize = 3;
const REQUESTS: u32 = 200;
const RATE: f64 = 20.0;
/// In percent, of its own policy and of others.
const OFF_MAX: [f64; 2] = [5.0, 10.0];
const PROCESSES: [&str; 2] = ["service", "batch job"];
const FIGURES: [(&str, &str); 3] =
    [("p50", "p50_ns"), ("p99", "p99_ns"), ("commands a second", "commands_per_second")];

/// A policy, the parameters of the two processes, and the same for `--set`.
struct Case {
    policy: &'static str,
    parameters: [Parameters; 2],
    set: [&'static str; 2],
}

const CASES: [Case; 3] = [
    Case {
        policy: "priority",
        parameters: [Parameters::High, Parameters::Low],
        set: ["class=high", "class=low"],
    },
    Case {
        policy: "fair",
        parameters: [Parameters::Normal, Parameters::Normal],
        set: ["class=normal", "class=normal"],
    },
    Case {
        policy: "partition",
        parameters: [Parameters::Share(30), Parameters::Share(70)],
        set: ["share=30", "share=70"],
    },
];

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-replay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    // By case, process and figure: the deviation in each round.
    let mut off = vec![[const { [const { Vec::new() }; FIGURES.len()] }; PROCESSES.len()]; CASES.len()];
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir()?;
        let recordings = CASES.iter().enumerate().map(|(number, case)| {
            let file = folder.path().join(format!("{number}.perfetto"));
            record(case, &file).map(|pids| (file, pids))
        });
        let recordings = recordings.collect::<Result<Vec<_>>>()?;
        let (first, pids) = &recordings[0];
        for ((case, (file, real_pids)), off) in CASES.iter().zip(&recordings).zip(&mut off) {
            let changes = pids.iter().zip(case.set).map(|(pid, set)| format!("{pid}:{set}"));
            let asked = replay(
                first,
                ["--policy".to_owned(), case.policy.to_owned()]
                    .into_iter()
                    .chain(changes.flat_map(|set| ["--set".to_owned(), set])),
            )?;
            let real = replay(file, [])?;
            for (process, off) in off.iter_mut().enumerate() {
                for ((_, key), off) in FIGURES.iter().zip(off) {
                    let model = figure(&asked, pids[process], "asked", key)?;
                    let real = figure(&real, real_pids[process], "recorded", key)?;
                    off.push((model / real - 1.0).abs() * 100.0);
                }
            }
        }
    }
    for (number, (case, off)) in CASES.iter().zip(off).enumerate() {
        let goal = Goal::ValueAtMost(OFF_MAX[usize::from(number > 0)]);
        for (process, off) in PROCESSES.iter().zip(off) {
            for ((name, _), off) in FIGURES.iter().zip(off) {
                let metric = format!("{}, {process}, {name}: the model is off by", case.policy);
                Row::single(BENCH, metric, "%", &Samples::new(off)).with_goal(goal).print()?;
            }
        }
    }
    Ok(())
}

/// Records a run; returns the two processes.
fn record(case: &Case, file: &Path) -> Result<[u32; 2]> {
    let node = Node::with(Regime::Mode2, case.policy, 1)?;
    let mut trace = xsched_ctl(["trace", "--all", "-o"]);
    trace.arg(file).env("XSCHED_SOCKET_DIR", node.controller()?.folder());
    let mut tracer = Running::start(&mut trace);
    tracer.wait_for_stderr("recording every process");
    let service = Plan::requests(times(60, 5, 200), RATE, Until::Requests(REQUESTS));
    let batch = Plan::saturating(times(32, 1000, 3000), f64::from(REQUESTS) / RATE + 0.1);
    let [high, low] = case.parameters;
    let mut clients = node.start(&[(service, high), (batch, low)])?;
    Client::begin(&mut clients)?;
    let outcomes = clients.into_iter().map(Client::finish).collect::<Result<Vec<_>>>()?;
    tracer.signal(Signal::INT);
    let traced = tracer.finish();
    if traced.code != 0 {
        return Err(format!("the recording failed: {}", traced.stderr).into());
    }
    Ok([outcomes[0].pid, outcomes[1].pid])
}

/// What `replay` prints.
fn replay(file: &Path, options: impl IntoIterator<Item = String>) -> Result<Value> {
    let mut command = xsched_ctl(["replay", "--json"]);
    let replayed = run(command.arg(file).args(options));
    if replayed.code != 0 {
        return Err(format!("the replay failed: {}", replayed.stderr).into());
    }
    Ok(serde_json::from_str(&replayed.stdout)?)
}

fn figure(replayed: &Value, pid: u32, run: &str, key: &str) -> Result<f64> {
    let processes = replayed["processes"].as_array().ok_or("there are no processes")?;
    let process = processes.iter().find(|process| process["pid"] == pid).ok_or("a process is missing")?;
    process[run][key].as_f64().ok_or_else(|| format!("there is no {run} {key}").into())
}

/// Kernel durations between two bounds, identical in every run.
fn times(count: usize, least_us: u32, most_us: u32) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(0x5eed);
    (0..count).map(|_| random.u32(least_us..=most_us)).collect()
}
