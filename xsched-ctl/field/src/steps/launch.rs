//! The host's time for a launch: of a process that is alone on its device, and beside another one.

use std::collections::BTreeMap;

use crate::kit::Kit;
use crate::report::StepReport;
use crate::trouble::Trouble;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    let seconds = kit.pace.client_s.min(1.0);
    for (what, has_neighbour) in [("launch, alone", false), ("launch, beside an idle process", true)] {
        let mut rounds = BTreeMap::<_, Vec<_>>::new();
        for _ in 0..kit.pace.rounds {
            for mode in kit.modes_in_turn() {
                kit.progress(&format!("{:<9} {what}", mode.name()));
                let settings = [("seconds", seconds.to_string())];
                let mut clients = vec![kit.client("client", "normal", "launch", &settings)];
                if has_neighbour {
                    clients.push(kit.client("neighbour", "normal", "idle", &settings));
                }
                match kit.measure(mode, &clients, seconds).await {
                    Ok(findings) => {
                        let launches = findings.first().map(|found| found.outcome.samples("launch"));
                        rounds.entry(mode).or_default().extend(launches.map(<[f64]>::to_vec));
                    }
                    Err(failed) => report.failed(what, mode, failed)?,
                }
            }
        }
        for (mode, samples) in rounds {
            report.figure(what, mode, "us", &samples);
        }
    }
    report.sort_rows();
    report.note("Each sample is the mean of 200 launches of an empty kernel in a row.");
    Ok(())
}
