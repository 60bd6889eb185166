//! An online service beside a batch job: ResNet-18 at 20 requests a second, and ResNet-50 in large batches.

use crate::kit::Kit;
use crate::options::Mode;
use crate::report::StepReport;
use crate::scripts::Script;
use crate::trouble::Trouble;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    let (seconds, images) = (kit.pace.model_s, kit.pace.images);
    let service_at = |name: &str| [name.to_owned(), seconds.to_string(), images.to_string()];
    for (what, has_batch_job) in
        [("ResNet-18 at 20/s, alone", false), ("ResNet-18 at 20/s, beside ResNet-50", true)]
    {
        // Alone, only the comparison without the shim is of interest.
        for mode in kit.modes_in_turn().into_iter().filter(|mode| has_batch_job || *mode == Mode::Native) {
            kit.progress(&format!("{:<9} {what}", mode.name()));
            let mut participants =
                vec![kit.script("ResNet-18", "high", Script::Model, &service_at("r18"))?];
            if has_batch_job {
                participants.push(kit.script("ResNet-50", "low", Script::Model, &service_at("r50"))?);
            }
            match kit.measure(mode, &participants, seconds).await {
                Ok(findings) => {
                    if let Some(service) = findings.first() {
                        report.figure(what, mode, "ms", &[service.outcome.samples("request").to_vec()]);
                        if let Some(origin) = service.outcome.fact("model from") {
                            report.note(format!("ResNet from {origin}, with random weights."));
                        }
                    }
                    if let Some(job) = findings.get(1) {
                        let value = |name| job.outcome.value(name).unwrap_or(f64::NAN);
                        let batch = value("batch");
                        report.value(
                            &format!("ResNet-50's images a second, batch {batch}"),
                            mode,
                            "",
                            value("per second"),
                        );
                    }
                }
                Err(failed) => report.failed(what, mode, failed)?,
            }
        }
    }
    report.sort_rows();
    Ok(())
}
