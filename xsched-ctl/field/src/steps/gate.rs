//! What a gate costs: the driver's own wait for a word, before each kernel. Nothing of xsched-ctl is in the process.

use crate::kit::Kit;
use crate::options::Mode;
use crate::report::StepReport;
use crate::trouble::Trouble;

use super::preemption::Lengths;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    let lengths = Lengths::calibrated(kit).await?;
    kit.progress("native    kernels with and without a gate before each");
    let seconds = kit.pace.client_s.min(3.0);
    let settings =
        [("seconds", seconds.to_string()), ("count", (lengths.small_per_100us / 5).max(1).to_string())];
    let client = kit.client("client", "normal", "gate", &settings);
    match kit.measure(Mode::Native, &[client], seconds).await {
        Ok(findings) => {
            for series in findings.into_iter().flat_map(|finding| finding.outcome.series) {
                report.figure(&series.name, Mode::Native, "us a kernel", &[series.samples]);
            }
        }
        Err(failed) => report.failed("gates", Mode::Native, failed)?,
    }
    report.note("Each sample is 500 kernels from the first launch to the end of the last, divided by 500.");
    Ok(())
}
