//! Whether verdicts are right: a million launches through seven libraries with the names of AMD's, along a
//! thousand chains. All use the same call in the library below them. For comparison, the verdicts by the
//! library at the return address.
//!
//! The program (`tests/apps/callers`) computes from a chain's libraries the verdict that the rules give, and
//! reads after each launch the verdict of the controller's programs. The shim counts what was done with the
//! launches. The end-to-end test `seven_libraries` checks fewer of them, one by one on the timeline.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Instant;

use xsched_tests::artifacts::{app_command, shim};
use xsched_tests::bench::{Goal, Row, Samples};
use xsched_tests::chains::RULES;
use xsched_tests::serving::Serving;

const BENCH: &str = "verdicts";

/// Number of launches to check.
const LAUNCHES: u64 = 1_000_000;

/// Seed that selects the chains and their order.
const SEED: u64 = 77;

fn main() -> Result<(), Box<dyn Error>> {
    let found = launch()?;
    let row = |what: &str, unit, value| Row::single(BENCH, what, unit, &Samples::new(vec![value]));
    let percent = |count: u64| 100.0 * count as f64 / LAUNCHES as f64;
    let all = Goal::ValueAtLeast(100.0);
    row("launches through seven libraries", "launches", LAUNCHES as f64).print()?;
    row("right by the whole chain", "%", percent(found.right)).with_goal(all).print()?;
    row("right by the library at the return address", "%", percent(found.right_by_library)).print()?;
    row("treated by the chain's verdict", "%", percent(found.treated)).with_goal(all).print()?;
    row("further launches, before a verdict existed", "launches", found.late as f64).print()?;
    row("time per checked launch", "us", found.seconds * 1e6 / LAUNCHES as f64).print()?;
    Ok(())
}

/// Results of the launches.
struct Found {
    /// Verdicts that were right.
    right: u64,
    /// Verdicts by the library at the return address that would be right.
    right_by_library: u64,
    /// Launches that the shim treated rightly, as far as sums can show.
    treated: u64,
    /// Launches whose chains had no verdict in time.
    late: u64,
    seconds: f64,
}

fn launch() -> Result<Found, Box<dyn Error>> {
    let controller = Serving::start(RULES)?;
    let log = controller.file("shim.log");
    let mut program = app_command("callers", &["verdicts", &LAUNCHES.to_string(), &SEED.to_string()]);
    program
        .env("LD_PRELOAD", shim())
        .env("XSCHED_SOCKET_DIR", controller.folder())
        .env("XSCHED_LOG", &log)
        // Every call is checked, even while no other process uses the device.
        .env("XSCHED_VERBOSE", "1")
        .env("HIP_SIM_SHARED", "off");
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    controller.wait_for_verdict_source(child.id())?;
    child.stdin.take().ok_or("no input")?.write_all(b"\n\n")?;
    let (mut said, mut begin) = (Vec::new(), Instant::now());
    let mut seconds = 0.0;
    for line in BufReader::new(child.stdout.take().ok_or("no output")?).lines() {
        let line = line?;
        if line.starts_with("known ") {
            begin = Instant::now();
        } else if line.starts_with("to_schedule ") {
            seconds = begin.elapsed().as_secs_f64();
        }
        said.push(line);
    }
    let status = child.wait()?;
    let number = |name: &str| -> Result<u64, String> {
        let found = said.iter().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.ok_or_else(|| format!("the program ended with {status} and did not print `{name}`: {said:?}"))
    };
    if number("wrong ")? != 0 {
        return Err(format!("the program computed a wrong result: {said:?}").into());
    }
    let log = fs::read_to_string(log)?;
    let counted = |action: &str| -> u64 {
        let count = log.lines().find_map(|line| line.trim().strip_suffix(action)?.trim().parse().ok());
        count.unwrap_or(0)
    };
    let passed = counted("passed through").abs_diff(number("to_pass ")?);
    let kept = counted("never suspended").abs_diff(number("to_keep ")?);
    Ok(Found {
        right: number("right ")?,
        right_by_library: number("right_by_library ")?,
        late: number("late ")?,
        treated: LAUNCHES.saturating_sub(passed + kept),
        seconds,
    })
}
