//! What `xsched-ctl doctor` says on this node, without a controller.

use std::time::{Duration, Instant};

use crate::kit::Kit;
use crate::options::Mode;
use crate::process::{Process, describe};
use crate::report::{StepReport, Text};
use crate::trouble::Trouble;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    kit.enter_mode(Mode::Native).await?;
    kit.progress("loads programs and tries probes");
    let order = kit.plain("doctor", &[kit.command.as_os_str(), "doctor".as_ref()]);
    let output = Process::start(&order)?.output(Instant::now() + Duration::from_secs(90)).await?;
    report
        .texts
        .push(Text { title: "xsched-ctl doctor".to_owned(), text: [output.stdout, output.stderr].concat() });
    if !output.status.success() {
        report.note(format!(
            "It {}: tracing does not work here, for the reasons above.",
            describe(output.status)
        ));
    }
    Ok(())
}
