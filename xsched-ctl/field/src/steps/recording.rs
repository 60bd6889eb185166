//! A short recording of a scheduled client, and its sums.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::time::{Duration, Instant};

use crate::kit::Kit;
use crate::options::{Include, Mode};
use crate::process::{Order, Process};
use crate::report::{Embedded, StepReport, Text, base64};
use crate::trouble::Trouble;

const PATIENCE: Duration = Duration::from_mins(1);
/// The largest recording that a report has in it.
const EMBEDDED_MAX: u64 = 8 << 20;

pub(super) async fn run(kit: &mut Kit<'_>, report: &mut StepReport) -> Result<(), Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::Absent("only root records: run it as root".to_owned()));
    }
    // Beside a controller, a recording has executions and waits too.
    let mode = if kit.modes().contains(&Mode::Scheduled) { Mode::Scheduled } else { Mode::Native };
    kit.enter_mode(mode).await?;
    kit.progress(&format!("{:<9} a client's requests, recorded", mode.name()));
    let file = kit.file("field.perfetto.gz");
    let settings = [("wait", "false".to_owned()), ("seconds", "0.5".to_owned()), ("hz", "20".to_owned())];
    let client = kit.client("client", "normal", "urgent", &settings);
    let mut words: Vec<OsString> =
        vec![kit.command.clone().into(), "trace".into(), "-o".into(), file.clone().into(), "--".into()];
    words.extend(kit.wrapped(&client, mode));
    let order = Order { name: "trace".to_owned(), words, environment: kit.environment() };
    let output = Process::start(&order)?.output(Instant::now() + PATIENCE).await?;
    if !output.status.success() {
        let said = output.stderr.lines().last().unwrap_or_default().to_owned();
        return Err(Trouble::Failed { name: "trace".to_owned(), error: said });
    }
    let sums: Vec<&OsStr> = vec![kit.command.as_os_str(), "report".as_ref(), file.as_os_str()];
    let sums = Process::start(&kit.plain("report", &sums))?.output(Instant::now() + PATIENCE).await?;
    report.texts.push(Text { title: "xsched-ctl report".to_owned(), text: sums.stdout });
    if kit.options.include.contains(&Include::Recording) {
        let size = fs::metadata(&file).map_err(Trouble::at("reading the recording"))?.len();
        if size > EMBEDDED_MAX {
            report.note(format!("The recording has {size} bytes, too many for this report."));
        } else {
            let bytes = fs::read(&file).map_err(Trouble::at("reading the recording"))?;
            report.files.push(Embedded { name: "field.perfetto.gz".to_owned(), base64: base64(&bytes) });
            report.note("`xsched-ctl view field.perfetto.gz` opens the recording.");
        }
    } else {
        report.note("The recording itself is left out, as it has paths in it: --include recording");
    }
    Ok(())
}
