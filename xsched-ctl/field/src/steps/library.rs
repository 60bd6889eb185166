//! A call of a vendor's library, from the minimal client.

use crate::kit::Kit;
use crate::report::StepReport;
use crate::trouble::Trouble;

pub(super) async fn run(
    kit: &mut Kit<'_>,
    report: &mut StepReport,
    client_mode: &str,
    what: &str,
) -> Result<(), Trouble> {
    let seconds = kit.pace.client_s.min(2.0);
    for mode in kit.modes_in_turn() {
        kit.progress(&format!("{:<9} {what}", mode.name()));
        let settings = [("seconds", seconds.to_string()), kit.folders()];
        let client = kit.client("client", "normal", client_mode, &settings);
        match kit.measure(mode, &[client], seconds).await {
            Ok(findings) => {
                for finding in findings {
                    report.figure(what, mode, "ms", &[finding.outcome.samples("call").to_vec()]);
                    if let Some(library) = finding.outcome.fact("library") {
                        report.note(format!(
                            "By {library}; every element of the result is right, before and after."
                        ));
                    }
                }
            }
            Err(failed) => report.failed(what, mode, failed)?,
        }
    }
    report.sort_rows();
    Ok(())
}
