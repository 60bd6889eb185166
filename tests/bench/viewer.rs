//! The viewer with a recording of a million launches: the time until it is usable, and frame times while
//! navigating.
//!
//! The recording is synthetic, with an execution for each launch. Chromium has no GPU here, so it also draws
//! on the processor. Frame times are those between animation frames while a key is held: the median and the
//! 99th percentile.

use std::{
    error::Error,
    fs,
    io::{BufRead as _, BufReader, BufWriter},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use serde::Deserialize;
use xsched_tests::{
    artifacts::xsched_ctl,
    bench::{Goal, Row, Samples},
    browser,
    needs::BROWSER,
    processor_time, synthetic_timeline,
};

const BENCH: &str = "viewer";
const LAUNCHES: u64 = 1_000_000;
const ROUNDS: usize = 3;
/// From the command to a usable page.
const USABLE_S: f64 = 3.0;
/// Two frames of a usual screen: one dropped frame is visible.
const FRAME_MS: f64 = 34.0;

/// Output of `tests/viewer/measure.py`.
#[derive(Deserialize)]
struct Measured {
    /// Seconds from opening the address until the timeline is drawn.
    drawn_s: f64,
    /// By action: milliseconds between frames.
    frames_ms: Vec<(String, Vec<f64>)>,
}

/// Results of one round.
struct Round {
    /// Seconds from starting the command until it prints the address.
    served_s: f64,
    /// Processor seconds in that time, all threads together.
    processor_s: f64,
    measured: Measured,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("million.perfetto");
    let launches = synthetic_timeline::write(BufWriter::new(fs::File::create(&file)?), LAUNCHES)?;
    eprintln!("{launches} launches, {} MB", fs::metadata(&file)?.len() / 1_000_000);
    let rounds = (0..ROUNDS).map(|_| round(&file)).collect::<Result<Option<Vec<_>>, _>>()?;
    let Some(rounds) = rounds else { return Ok(()) };

    let samples = |value: &dyn Fn(&Round) -> f64| Samples::new(rounds.iter().map(value).collect());
    Row::single(BENCH, "until served", "s", &samples(&|round| round.served_s)).print()?;
    Row::single(BENCH, "processor time until served", "s", &samples(&|round| round.processor_s)).print()?;
    Row::single(BENCH, "until usable", "s", &samples(&|round| round.served_s + round.measured.drawn_s))
        .with_goal(Goal::ValueAtMost(USABLE_S))
        .print()?;
    for (index, (what, _)) in rounds[0].measured.frames_ms.iter().enumerate() {
        for (name, percent) in [("median", 50), ("p99", 99)] {
            let frame = samples(&|round| percentile(&round.measured.frames_ms[index].1, percent));
            let row = Row::single(BENCH, format!("frame, {what}, {name}"), "ms", &frame);
            row.with_goal(Goal::ValueAtMost(FRAME_MS)).print()?;
        }
    }
    Ok(())
}

/// `None` if there is no browser.
fn round(file: &Path) -> Result<Option<Round>, Box<dyn Error>> {
    if let Some(reason) = (BROWSER.missing)() {
        eprintln!("skipped: {BENCH}: {reason}");
        return Ok(None);
    }
    let mut measure = browser::script("measure.py");
    let started = Instant::now();
    let mut program = Command::new(xsched_ctl())
        .args(["view", "--no-open"])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut url = String::new();
    let stdout = program.stdout.take().ok_or("stdout is not a pipe")?;
    BufReader::new(stdout).read_line(&mut url)?;
    let served_s = started.elapsed().as_secs_f64();
    let processor_s = processor_time::of(program.id())?.as_secs_f64();
    let output = measure.arg(url.trim_end()).stderr(Stdio::inherit()).output();
    program.kill()?;
    program.wait()?;
    let measured = serde_json::from_slice(&output?.stdout)?;
    Ok(Some(Round { served_s, processor_s, measured }))
}

fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}
