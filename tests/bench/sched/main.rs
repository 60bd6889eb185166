//! Urgent work beside work that fills the device: its delay, and what the others keep, with and without the
//! scheduler.
//!
//! Clients (`tests/apps/sched_client`) share a simulated device, so every figure is a simulated one. The
//! device's log shows what it did: when each kernel ran does not depend on how late this machine wakes its
//! threads. Latencies that a client sees do depend on it, and the machine's timer lateness is printed beside
//! them. Each round runs the same clients under every regime in turn, so that a busy minute affects all of
//! them.
//!
//! Arguments name the scenarios to run; without any, all but `soak` run. `--rounds=N` sets the number of
//! measurements.

mod client;
mod controller;
mod node;
mod noise;
mod result;
mod scenario;
mod service;

mod arrival;
mod crowd;
mod devices;
mod equals;
mod faults;
mod field;
mod groups;
mod leases;
mod limits;
mod neighbours;
mod policy_step;
mod preemption;
mod shares;
mod soak;
mod threads;

use std::{env, process::ExitCode};

use result::Result;
use scenario::Rounds;

/// A name, and the function that prints its rows.
type Scenario = (&'static str, fn(Rounds) -> Result<()>);

/// In the order of the issue that requests them.
const SCENARIOS: [Scenario; 14] = [
    ("preemption", preemption::run),
    ("priorities", preemption::run_priorities),
    ("neighbours", neighbours::run),
    ("field", field::run),
    ("groups", groups::run),
    ("devices", devices::run),
    ("shares", shares::run),
    ("limits", limits::run),
    ("leases", leases::run),
    ("equals", equals::run),
    ("arrival", arrival::run),
    ("crowd", crowd::run),
    ("faults", faults::run),
    ("policy", |_| policy_step::run()),
];

/// Runs only when named, because it takes as long as all others.
const SOAK: Scenario = ("soak", |_| soak::run());

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-sched: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let (options, wanted): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.starts_with("--"));
    let mut rounds = Rounds::default();
    for option in options {
        let value = option.strip_prefix("--rounds=").ok_or_else(|| format!("no option `{option}`"))?;
        rounds = value.parse()?;
    }
    let all: Vec<_> = SCENARIOS.into_iter().chain([SOAK]).collect();
    if let Some(unknown) = wanted.iter().find(|name| all.iter().all(|(known, _)| known != *name)) {
        let known: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        return Err(format!("no scenario `{unknown}`; there are: {}", known.join(", ")).into());
    }
    noise::at_rest()?;
    for (name, scenario) in all {
        if wanted.is_empty() && name != SOAK.0 || wanted.iter().any(|one| *one == name) {
            scenario(rounds).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}
