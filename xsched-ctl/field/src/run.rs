//! Runs the steps one after the other. An interruption drops the step that runs, and with it the processes that it started.

use std::path::PathBuf;
use std::time::Instant;

use xsched_control_api::client::{AskError, Controller};
use xsched_terminal::{Request, Signals, one_line, print, say};

use crate::error::FieldError;
use crate::kit::Kit;
use crate::machine;
use crate::options::{Include, Mode, Options, Step};
use crate::report::{FORMAT, Fact, Files, Private, Report, StepReport, Text, Verdict};
use crate::steps;
use crate::trouble::Trouble;

/// The shim's files begin with this.
const SHIM_PREFIX: &str = "libxsched_";
/// Exit codes of an interrupted kit: those of shells.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Tries and measures, and writes the report. Returns the exit code: 0 for a whole report.
pub async fn run(options: &Options) -> Result<u8, FieldError> {
    refuse_where_nothing_can_be_compared().await?;
    let mut signals = Signals::catch()?;
    let mut kit = Kit::new(options)?;
    let controller = tokio::select! {
        tried = try_controller(&mut kit) => tried?,
        request = interruption(&mut signals) => return Ok(exit_code(request)),
    };
    let begun = jiff::Timestamp::now();
    let base = options
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("xsched-field-{}", begun.strftime("%Y%m%d-%H%M%S"))));
    let files = Files::create(&base)?;
    let private = (!options.include.contains(&Include::Names)).then(Private::of_this_machine);
    let mut report = Report {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        begun: begun.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        seconds: 0.0,
        quick: options.quick,
        cut: Some("the kit was killed, or still runs".to_owned()),
        machine: machine::of_this_machine(),
        steps: Vec::new(),
    };
    report.machine.push(controller);
    files.write(&report, private.as_ref())?;
    let clock = Instant::now();
    let write = |report: &Report| files.write(report, private.as_ref());
    let interrupted = tokio::select! {
        done = all_steps(&mut kit, &mut report, clock, &write) => { done?; None }
        request = interruption(&mut signals) => Some(request),
    };
    // Ends the controller, and removes the kit's folder.
    drop(kit);
    report.seconds = clock.elapsed().as_secs_f64();
    report.cut =
        interrupted.map(|request| format!("interrupted after {:.0} s by {}", report.seconds, name(request)));
    write(&report)?;
    say!("{}", verdicts(&report));
    say!("the report, also to send back: {} and {}", files.html.display(), files.json.display());
    let _ = print(&format!("{}\n{}\n", files.html.display(), files.json.display()));
    Ok(interrupted.map_or(0, exit_code))
}

fn exit_code(interruption: Request) -> u8 {
    if interruption == Request::Interrupt { INTERRUPTED } else { TERMINATED }
}

/// Whether the kit's controller starts here. It does not beside another one, wherever that has its sockets.
async fn try_controller(kit: &mut Kit<'_>) -> Result<Fact, FieldError> {
    if kit.modes() == [Mode::Native] {
        return Ok(Fact::new("controller", "not wanted"));
    }
    let tried = kit.enter_mode(Mode::Scheduled).await;
    // Most steps begin without one.
    kit.leave_mode();
    Ok(Fact::new(
        "controller",
        match tried {
            Ok(()) => "starts".to_owned(),
            Err(trouble) if trouble.to_string().contains("another controller") => {
                return Err(FieldError::ControllerUnclear(trouble.to_string()));
            }
            Err(trouble) => trouble.to_string(),
        },
    ))
}

/// A controller would schedule what is to be measured without one.
async fn refuse_where_nothing_can_be_compared() -> Result<(), FieldError> {
    if std::env::var_os("LD_PRELOAD").is_some_and(|list| list.to_string_lossy().contains(SHIM_PREFIX)) {
        return Err(FieldError::Preloaded);
    }
    match Controller::connect().await {
        Ok(controller) => Err(FieldError::ControllerRuns(controller.peer.pid)),
        Err(AskError::NoController) => Ok(()),
        Err(error) => Err(FieldError::ControllerUnclear(error.to_string())),
    }
}

/// The first signal that is meant to end this program.
async fn interruption(signals: &mut Signals) -> Request {
    loop {
        match signals.next().await {
            Request::Dump | Request::Other => {}
            request => return request,
        }
    }
}

fn name(request: Request) -> &'static str {
    match request {
        Request::Interrupt => "Ctrl-C",
        Request::OutOfTime => "the limit of CPU time",
        _ => "a signal",
    }
}

async fn all_steps(
    kit: &mut Kit<'_>,
    report: &mut Report,
    clock: Instant,
    write: &impl Fn(&Report) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    let facts = machine::ask(kit).await;
    report.machine.extend(facts);
    let steps: Vec<Step> = Step::ALL
        .into_iter()
        .filter(|step| kit.options.steps.is_empty() || kit.options.steps.contains(step))
        .collect();
    for (index, step) in steps.iter().enumerate() {
        kit.enter_step(*step, index, steps.len());
        // If the kit is interrupted, this is what the step has.
        report.steps.push(StepReport {
            verdict: Verdict::Cut("the kit was interrupted here".to_owned()),
            ..StepReport::new(*step)
        });
        let current = report.steps.last_mut().expect("it was just added");
        one_step(kit, current).await;
        kit.progress(&summary(current));
        report.seconds = clock.elapsed().as_secs_f64();
        write(report)?;
    }
    Ok(())
}

async fn one_step(kit: &mut Kit<'_>, report: &mut StepReport) {
    let begun = Instant::now();
    let limit = kit.options.step_limit;
    let done = tokio::time::timeout(limit, steps::run(kit, report)).await;
    report.verdict = match done {
        Err(_) => Verdict::Failed(format!("it took longer than {} s (--step-limit)", limit.as_secs())),
        Ok(Err(Trouble::Absent(what))) => Verdict::Skipped(what),
        Ok(Err(trouble)) => Verdict::Failed(trouble.to_string()),
        Ok(Ok(())) => steps::verdict(report),
    };
    report.seconds = begun.elapsed().as_secs_f64();
    let log = kit.controllers_log();
    if matches!(report.verdict, Verdict::Failed(_)) && !log.is_empty() {
        report.texts.push(Text { title: "the controller's last lines".to_owned(), text: log });
    }
}

/// What became of a step, in a line.
fn summary(report: &StepReport) -> String {
    let seconds = report.seconds;
    let line = |text: &str| one_line(text.lines().next().unwrap_or_default()).into_owned();
    match &report.verdict {
        Verdict::Done => format!("done, {seconds:.0} s"),
        Verdict::Failed(reason) => format!("FAILED, {seconds:.0} s: {}", line(reason)),
        Verdict::Skipped(reason) => format!("skipped: {}", line(reason)),
        Verdict::Cut(reason) => line(reason),
    }
}

fn verdicts(report: &Report) -> String {
    let count = |is: fn(&Verdict) -> bool| report.steps.iter().filter(|step| is(&step.verdict)).count();
    format!(
        "{} steps done, {} failed, {} skipped{}",
        count(|verdict| *verdict == Verdict::Done),
        count(|verdict| matches!(verdict, Verdict::Failed(_))),
        count(|verdict| matches!(verdict, Verdict::Skipped(_))),
        report.cut.as_ref().map(|cut| format!("; cut: {cut}")).unwrap_or_default(),
    )
}
