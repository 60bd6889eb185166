//! The steps. Each fills its section while it runs, so that an interrupted one leaves what it has.

mod bert;
mod client;
mod doctor;
mod gate;
mod launch;
mod library;
mod preemption;
mod recording;
mod resnet;
mod torch;

use crate::kit::Kit;
use crate::measurement::Failed;
use crate::options::{Mode, Step};
use crate::report::{Measured, Row, StepReport, Verdict};
use crate::statistics::Figure;
use crate::trouble::Trouble;

/// Runs a step. An error ends it; a mode that fails is a row, and the step goes on.
pub(crate) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    if needs_device(report.step)
        && let Some(why) = &kit.node.no_device
    {
        return Err(Trouble::Absent(format!("GPU: {why}")));
    }
    match report.step {
        Step::Doctor => doctor::run(kit, report).await,
        Step::Client => client::run(kit, report).await,
        Step::Launch => launch::run(kit, report).await,
        Step::Gate => gate::run(kit, report).await,
        Step::Preemption => preemption::run(kit, report).await,
        Step::Blas => library::run(kit, report, "sgemm", "2048 x 2048 SGEMM").await,
        Step::Convolution => {
            library::run(kit, report, "convolution", "3 x 3 convolution, 16 x 64 x 58 x 58").await
        }
        Step::Torch => torch::run(kit, report).await,
        Step::Bert => bert::run(kit, report).await,
        Step::Resnet => resnet::run(kit, report).await,
        Step::Recording => recording::run(kit, report).await,
    }
}

/// PyTorch brings a runtime of its own, so its steps say themselves whether there is a device.
fn needs_device(step: Step) -> bool {
    !matches!(step, Step::Doctor | Step::Torch | Step::Bert | Step::Resnet)
}

/// What became of a step by its rows.
pub(crate) fn verdict(report: &StepReport) -> Verdict {
    let failures: Vec<_> = report
        .rows
        .iter()
        .filter_map(|row| match &row.measured {
            Measured::Failed(why) => Some(format!("{}, {}: {why}", row.what, row.mode.name())),
            _ => None,
        })
        .collect();
    if failures.is_empty() { Verdict::Done } else { Verdict::Failed(failures.join("\n")) }
}

impl StepReport {
    /// A row of samples.
    fn figure(&mut self, what: &str, mode: Mode, unit: &str, rounds: &[Vec<f64>]) {
        match Figure::of(rounds) {
            Some(figure) => self.row(what, mode, unit, Measured::Figure(figure)),
            None => self.row(what, mode, unit, Measured::Failed("no samples".to_owned())),
        }
    }

    fn value(&mut self, what: &str, mode: Mode, unit: &str, value: f64) {
        self.row(what, mode, unit, Measured::Value(value));
    }

    /// A row for a mode without a result. What this node lacks, it lacks in every mode: that ends the step.
    fn failed(&mut self, what: &str, mode: Mode, failed: Failed) -> Result<(), Trouble> {
        match failed.trouble {
            absent @ Trouble::Absent(_) if self.rows.is_empty() => Err(absent),
            trouble => {
                self.row(what, mode, "", Measured::Failed(trouble.to_string()));
                Ok(())
            }
        }
    }

    fn row(&mut self, what: &str, mode: Mode, unit: &str, measured: Measured) {
        self.rows.push(Row { what: what.to_owned(), mode, unit: unit.to_owned(), measured });
    }

    /// Puts rows of one measurement together, in the order of modes.
    fn sort_rows(&mut self) {
        let mut order: Vec<String> = Vec::new();
        for row in &self.rows {
            if !order.contains(&row.what) {
                order.push(row.what.clone());
            }
        }
        self.rows.sort_by_key(|row| (order.iter().position(|what| *what == row.what), row.mode));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_with_a_failed_row_has_failed() {
        let mut report = StepReport::new(Step::Launch);
        report.figure("launch", Mode::Native, "us", &[vec![1.0]]);
        assert_eq!(verdict(&report), Verdict::Done);
        let why = Trouble::NotJoined { name: "client".to_owned() };
        report.failed("launch", Mode::Scheduled, why.into()).unwrap();
        let Verdict::Failed(why) = verdict(&report) else { panic!("not failed") };
        assert_eq!(why, "launch, scheduled: client did not join the controller, so it was not scheduled");
    }

    #[test]
    fn what_a_node_lacks_ends_a_step_at_its_first_mode() {
        let mut report = StepReport::new(Step::Blas);
        let absent = || Failed::from(Trouble::Absent("no libhipblas".to_owned()));
        assert!(report.failed("sgemm", Mode::Native, absent()).is_err());
        report.value("sgemm", Mode::Native, "ms", 1.0);
        assert!(report.failed("sgemm", Mode::Compat, absent()).is_ok());
    }

    #[test]
    fn rows_of_one_measurement_stand_together() {
        use Mode::{Native, Scheduled};
        let mut report = StepReport::new(Step::Bert);
        for mode in [Native, Scheduled] {
            report.value("high", mode, "ms", 1.0);
            report.value("low", mode, "ms", 2.0);
        }
        report.sort_rows();
        let rows: Vec<_> = report.rows.iter().map(|row| (row.what.as_str(), row.mode)).collect();
        assert_eq!(rows, [("high", Native), ("high", Scheduled), ("low", Native), ("low", Scheduled)]);
    }
}
