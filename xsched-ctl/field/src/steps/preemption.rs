//! An urgent client beside batch jobs: what its requests take, and what the batch jobs keep of the device.

use std::collections::BTreeMap;

use crate::kit::Kit;
use crate::measurement::{Finding, Participant};
use crate::options::Mode;
use crate::report::{Line, Plot, StepReport};
use crate::trouble::Trouble;

/// Lengths of the client's kernels on this device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    filling_per_ms: u32,
    pub(super) small_per_100us: u32,
}

impl Lengths {
    pub(super) async fn calibrated(kit: &mut Kit<'_>) -> Result<Self, Trouble> {
        kit.progress("native    how long the client's kernels take");
        let client = kit.client("client", "normal", "calibrate", &[]);
        let findings = kit.measure(Mode::Native, &[client], 5.0).await.map_err(|failed| failed.trouble)?;
        let value = |name: &str| findings.first().and_then(|found| found.outcome.value(name)).unwrap_or(1.0);
        Ok(Self {
            filling_per_ms: value("filling_per_ms").max(1.0) as u32,
            small_per_100us: value("small_per_100us").max(1.0) as u32,
        })
    }
}

const REQUEST: &str = "requests of 8 kernels of 100 us";
const POINTS_MAX: usize = 250;

/// What the rounds of a mode have given.
#[derive(Default)]
struct Collected {
    requests: Vec<Vec<f64>>,
    /// The part of the device that the batch jobs had together, by round.
    parts: Vec<f64>,
    points: Vec<(f64, f64)>,
}

impl Collected {
    fn add(&mut self, findings: &[Finding]) {
        let Some((urgent, jobs)) = findings.split_first() else { return };
        let requests = urgent.outcome.samples("request");
        if self.points.is_empty() {
            let at = urgent.outcome.samples("at");
            let first = at.first().copied().unwrap_or_default();
            let points = at.iter().map(|at| at - first).zip(requests.iter().copied());
            let stride = requests.len().div_ceil(POINTS_MAX).max(1);
            self.points = points.step_by(stride).collect();
        }
        self.requests.push(requests.to_vec());
        if !jobs.is_empty() {
            self.parts.push(jobs.iter().filter_map(|job| job.outcome.value("part")).sum());
        }
    }
}

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    let lengths = Lengths::calibrated(kit).await?;
    for &jobs in kit.pace.jobs {
        let beside = match jobs {
            0 => "alone".to_owned(),
            1 => "beside one batch job".to_owned(),
            count => format!("beside {count} batch jobs"),
        };
        let what = format!("{REQUEST}, {beside}");
        let mut collected = BTreeMap::<_, Collected>::new();
        for _ in 0..if jobs == 0 { 1 } else { kit.pace.rounds } {
            for mode in kit.modes_in_turn() {
                kit.progress(&format!("{:<9} {beside}", mode.name()));
                let participants = participants(kit, lengths, jobs);
                match kit.measure(mode, &participants, kit.pace.client_s + 1.5).await {
                    Ok(findings) => collected.entry(mode).or_default().add(&findings),
                    Err(failed) => report.failed(&what, mode, failed)?,
                }
            }
        }
        enter(report, &what, &beside, collected);
    }
    report.note("40 requests a second, each timed from its first launch to the end of its last kernel; the first half second is left out.");
    report.note("Batch jobs launch kernels of 1 to 3 ms that fill the device. Scheduled, the urgent client has class high and they have low.");
    Ok(())
}

fn participants(kit: &Kit<'_>, lengths: Lengths, jobs: usize) -> Vec<Participant> {
    let seconds = kit.pace.client_s;
    let settings = [("seconds", seconds.to_string()), ("count", lengths.small_per_100us.to_string())];
    let mut participants = vec![kit.client("urgent client", "high", "urgent", &settings)];
    // They outlast the urgent client, which leaves its first half second out.
    let settings = [("seconds", (seconds + 1.0).to_string()), ("count", lengths.filling_per_ms.to_string())];
    participants.extend((0..jobs).map(|_| kit.client("batch job", "low", "batch", &settings)));
    participants
}

fn enter(report: &mut StepReport, what: &str, beside: &str, collected: BTreeMap<Mode, Collected>) {
    let mut lines = Vec::new();
    for (mode, Collected { requests, parts, points }) in collected {
        report.figure(what, mode, "ms", &requests);
        lines.push(Line { mode, points });
        if !parts.is_empty() {
            let mean = parts.iter().sum::<f64>() / parts.len() as f64;
            report.value(&format!("the batch jobs' part of the device, {beside}"), mode, "", mean);
        }
    }
    report.sort_rows();
    let title = format!("requests over time, {beside}");
    report.plots.push(Plot { title, unit: "ms".to_owned(), lines });
}
