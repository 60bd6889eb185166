//! PyTorch, one call after the other: the first that fails is named.

use crate::kit::Kit;
use crate::measurement::Failed;
use crate::options::Mode;
use crate::report::{Measured, StepReport};
use crate::scripts::Script;
use crate::speech::Rung;
use crate::trouble::Trouble;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    for mode in kit.modes_in_turn() {
        kit.progress(&format!(
            "{:<9} tensor, randn, matmul, convolution, small model, ResNet-18",
            mode.name()
        ));
        let script = kit.script("ladder", "normal", Script::Ladder, &[])?;
        match kit.measure(mode, &[script], 60.0).await {
            Ok(findings) => {
                for finding in findings {
                    enter(report, mode, &finding.rungs);
                    for (name, fact) in &finding.outcome.facts {
                        report.note(format!("{name}: {fact}"));
                    }
                }
            }
            Err(failed) => {
                enter(report, mode, &failed.rungs);
                let Failed { trouble, trying, .. } = &failed;
                let call = trying
                    .clone()
                    .unwrap_or_else(|| trouble.to_string().lines().next().unwrap_or_default().to_owned());
                report.failed(&call, mode, failed)?;
            }
        }
    }
    report.sort_rows();
    report.note("Times are those of the first call, which loads and compiles what it needs.");
    Ok(())
}

fn enter(report: &mut StepReport, mode: Mode, rungs: &[Rung]) {
    for Rung { name, ms, error } in rungs {
        match (error, ms) {
            (Some(error), _) => report.row(name, mode, "", Measured::Failed(error.clone())),
            (None, ms) => report.value(name, mode, "ms", ms.unwrap_or(f64::NAN)),
        }
    }
}
