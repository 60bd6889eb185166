//! The minimal client: launches that do not commute, and whether their result is right.

use crate::kit::Kit;
use crate::report::StepReport;
use crate::trouble::Trouble;

const LAUNCHES: u32 = 2000;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    let what = format!("{LAUNCHES} launches in order, and their result");
    for mode in kit.modes_in_turn() {
        kit.progress(&format!("{:<9} {what}", mode.name()));
        let client = kit.client("client", "normal", "steps", &[("launches", LAUNCHES.to_string())]);
        match kit.measure(mode, &[client], 5.0).await {
            Ok(findings) => {
                let ms = findings.first().and_then(|finding| finding.outcome.value("ms")).unwrap_or(f64::NAN);
                report.value(&what, mode, "ms", ms);
            }
            Err(failed) => report.failed(&what, mode, failed)?,
        }
    }
    report.note("Each launch computes with the result of the one before: a lost, repeated or reordered launch is noticed.");
    report.sort_rows();
    Ok(())
}
