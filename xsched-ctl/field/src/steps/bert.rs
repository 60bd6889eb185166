//! BERT in six processes, two of each class. Such a program is bound by its host: it leaves the device idle between its kernels.

use crate::kit::Kit;
use crate::measurement::Participant;
use crate::report::StepReport;
use crate::scripts::Script;
use crate::trouble::Trouble;

const GROUPS: [&str; 3] = ["high", "normal", "low"];
const OF_EACH: usize = 2;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    let seconds = kit.pace.model_s;
    for mode in kit.modes_in_turn() {
        kit.progress(&format!("{:<9} six processes", mode.name()));
        let participants = participants(kit, seconds)?;
        match kit.measure(mode, &participants, seconds).await {
            Ok(findings) => {
                for (group, findings) in GROUPS.iter().zip(findings.chunks(OF_EACH)) {
                    let samples: Vec<_> =
                        findings.iter().map(|found| found.outcome.samples("request").to_vec()).collect();
                    report.figure(&format!("BERT base, batch 1, class {group}"), mode, "ms", &samples);
                    let requests: f64 =
                        findings.iter().filter_map(|found| found.outcome.value("per second")).sum();
                    report.value(&format!("requests a second, class {group}"), mode, "", requests);
                }
                if let Some(origin) = findings.first().and_then(|found| found.outcome.fact("model from")) {
                    report.note(format!("BERT from {origin}, with random weights."));
                }
            }
            Err(failed) => report.failed("BERT base, batch 1", mode, failed)?,
        }
    }
    report.sort_rows();
    report.note(
        "The two means of rounds are those of the two processes of a class. Natively all six are equal.",
    );
    Ok(())
}

fn participants(kit: &Kit<'_>, seconds: f64) -> Result<Vec<Participant>, Trouble> {
    let arguments = ["bert".to_owned(), seconds.to_string(), "1".to_owned()];
    let each = GROUPS.iter().flat_map(|group| std::iter::repeat_n(*group, OF_EACH));
    each.map(|group| kit.script(&format!("BERT ({group})"), group, Script::Model, &arguments)).collect()
}
