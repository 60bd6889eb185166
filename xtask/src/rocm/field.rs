//! The field kit's steps that call libraries of the vendor, with the genuine ones on the simulated runtime.
//!
//! The simulated device does not compute, so the kit finds wrong results. Each call before that must have succeeded.

use std::fs;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::{programs::Program, ways::Stage};
use crate::command;

/// What `cargo xtask test --rocm` calls this.
pub(super) const NAME: &str = "field";

/// hipBLAS and MIOpen.
const STEPS: &str = "blas,convolution";

/// MIOpen compiles for half a minute, in each mode.
const STEP_LIMIT: &str = "4m";

/// The parts of the kit's report that count here.
#[derive(Debug, Deserialize)]
struct Report {
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    reason: Option<String>,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    mode: String,
    failed: Option<String>,
}

/// Runs the steps without the shim and scheduled; an error if a call failed.
pub(super) fn run(stage: &Stage) -> Result<()> {
    // Its release, and its libraries.
    let program = &Program::ALL[0];
    let folder = stage.folder(program, NAME)?;
    let mut kit = stage.inside(program, &folder, "").command(stage.xsched_ctl());
    let report = folder.join("report");
    kit.args([
        "field",
        "--quick",
        "--modes",
        "native,scheduled",
        "--steps",
        STEPS,
        "--step-limit",
        STEP_LIMIT,
    ]);
    kit.arg("--output").arg(&report);
    // It fails if a step does, and the report says why.
    let _ = command::run(&mut kit);
    let report = report.with_extension("json");
    let text = fs::read(&report).with_context(|| format!("failed to read {}", report.display()))?;
    let report: Report = serde_json::from_slice(&text).context("the kit's report is of another form")?;
    let lines = judge(&report)?;
    println!("field kit, calls of genuine libraries on a device that does not compute:");
    for line in lines {
        println!("  {line}");
    }
    Ok(())
}

/// A line for each step and mode; an error if one has not come to its results.
fn judge(report: &Report) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for step in &report.steps {
        if step.rows.is_empty() {
            bail!("{}: {}", step.name, step.reason.as_deref().unwrap_or("it has no rows"));
        }
        for Row { mode, failed } in &step.rows {
            match failed.as_deref() {
                None => lines.push(format!("{} {mode}: every call succeeded, right results", step.name)),
                Some(why) if why.ends_with("results are wrong") => {
                    lines.push(format!("{} {mode}: every call succeeded; {why}", step.name));
                }
                Some(why) => bail!("{} {mode}: {why}", step.name),
            }
        }
    }
    if lines.is_empty() {
        bail!("the kit has made no step");
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(reason: Option<&str>, rows: &[(&str, Option<&str>)]) -> Result<Vec<String>, String> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let rows = rows.iter().map(|(mode, failed)| Row { mode: (*mode).to_owned(), failed: owned(*failed) });
        let step = Step { name: "blas".to_owned(), reason: owned(reason), rows: rows.collect() };
        judge(&Report { steps: vec![step] }).map_err(|error| error.to_string())
    }

    #[test]
    fn a_step_passes_if_each_mode_came_to_its_results() {
        let wrong = Some("client: 4 of 4 results are wrong");
        let lines = judged(None, &[("native", None), ("scheduled", wrong)]).unwrap();
        let expected = [
            "blas native: every call succeeded, right results",
            "blas scheduled: every call succeeded; client: 4 of 4 results are wrong",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_call_that_failed_and_a_step_that_was_skipped_fail() {
        let failed = judged(None, &[("native", Some("client: hipblasCreate failed with 1"))]);
        assert_eq!(failed.unwrap_err(), "blas native: client: hipblasCreate failed with 1");
        assert_eq!(judged(Some("cannot load it"), &[]).unwrap_err(), "blas: cannot load it");
        assert!(judge(&Report { steps: Vec::new() }).is_err());
    }
}
