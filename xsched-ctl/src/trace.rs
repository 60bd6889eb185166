//! `xsched-ctl trace`: records a timeline.

use std::cell::Cell;
use std::ffi::OsString;

use tokio::process::Child;
use xsched_abi::Counter;
use xsched_bpf::Losses;
use xsched_terminal::{Descriptors, Internal, Request, Signals, one_line, say};
use xsched_tracer::{
    Destination, Recorded, Recorder, Session, Sink, Targets, check_privileges, find_process,
};

use crate::cli;
use crate::command::{self, CommandOutput};
use crate::ending::{Finishing, Limits};
use crate::failure::Failure;
use crate::trace_config;

pub(crate) async fn run(arguments: cli::Trace, mut descriptors: Descriptors) -> Result<u8, Failure> {
    let settings = arguments.recording.settings()?;
    let (destination, format) = arguments.recording.output()?;
    check_privileges()?;
    let targets = match arguments.pid {
        Some(pid) => Targets::Process(find_process(pid)?),
        None if arguments.command.is_empty() => Targets::Everybody,
        None => Targets::Children,
    };
    let command_output = match destination {
        Destination::Stdout => CommandOutput::ToStderr,
        Destination::File(_) => CommandOutput::Inherited,
    };
    let mut signals = Signals::catch()?;
    let sink = Sink::open(destination, format)?;
    let mut recorder = Recorder::new(Some(sink), arguments.recording.style())?;
    recorder.configure(trace_config::gather().await)?;
    let session = Session::start(targets, settings, recorder)?;
    let limits = Limits::begin(arguments.recording.duration);
    let (code, recorded) = if targets == Targets::Children {
        record_command(session, &mut signals, &mut descriptors, limits, &arguments.command, command_output)
            .await?
    } else {
        say!("recording {}; Ctrl-C ends it", describe(targets));
        (0, record_running(session, &mut signals, limits).await?)
    };
    conclude(&recorded, targets);
    let Some(failure) = recorded.failure else { return Ok(code) };
    if targets == Targets::Children {
        say!("the command has ended with status {code}");
    }
    Err(failure.into())
}

fn describe(targets: Targets) -> String {
    match targets {
        Targets::Process(pid) => format!("process {pid}"),
        Targets::Everybody | Targets::Children => "every process that uses HIP or CUDA".to_owned(),
    }
}

/// Records until a signal, a limit or the end of the process.
async fn record_running(
    mut session: Box<Session>,
    signals: &mut Signals,
    limits: Limits,
) -> Result<Recorded, Failure> {
    loop {
        tokio::select! {
            request = signals.next() => match request {
                Request::Dump => session.dump(SIGNALLED),
                Request::OutOfTime => limits.out_of_time(),
                Request::Other => {}
                Request::Interrupt | Request::Terminate => break,
            },
            worked = limits.work(&mut session) => worked?,
        }
        tell(session.take_notices());
        if let Some(reason) = limits.reached(&mut session)? {
            say!("recording ends: {reason}");
            break;
        }
        if session.target_has_ended() {
            break;
        }
    }
    Finishing::of(session).wait(signals, &limits).await
}

/// Records a command from its first instruction to its end, or to a limit.
async fn record_command(
    mut session: Box<Session>,
    signals: &mut Signals,
    descriptors: &mut Descriptors,
    limits: Limits,
    words: &[OsString],
    output: CommandOutput,
) -> Result<(u8, Recorded), Failure> {
    let mut child = command::spawn(words, output, signals, descriptors, session.enlistment())?;
    let is_dump_wanted = Cell::new(false);
    let mut end = CommandEnd {
        child: &mut child,
        signals,
        interrupted: false,
        is_dump_wanted: &is_dump_wanted,
        limits: &limits,
    };
    let recording = async {
        loop {
            if is_dump_wanted.take() {
                session.dump(SIGNALLED);
            }
            limits.work(&mut session).await?;
            tell(session.take_notices());
            if let Some(reason) = limits.reached(&mut session)? {
                return Ok::<_, Failure>(reason);
            }
        }
    };
    let outcome = tokio::select! {
        code = end.wait() => {
            let code = code?;
            return Ok((code, Finishing::of(session).wait(end.signals, &limits).await?));
        }
        outcome = recording => outcome,
    };
    // The command belongs to the user: it runs on, and this process still waits for it.
    match outcome {
        Ok(reason) => {
            say!("recording ends: {reason}; waiting for the command to end");
            let mut finishing = Finishing::of(session);
            tokio::select! {
                recorded = &mut finishing.future => Ok((end.wait().await?, recorded?)),
                code = end.wait() => Ok((code?, finishing.wait(end.signals, &limits).await?)),
            }
        }
        Err(failure) => {
            drop(session);
            say!("recording has stopped; waiting for the command to end");
            end.wait().await?;
            Err(failure)
        }
    }
}

/// The end of a command, or of the wait for it.
struct CommandEnd<'a> {
    child: &'a mut Child,
    signals: &'a mut Signals,
    interrupted: bool,
    is_dump_wanted: &'a Cell<bool>,
    limits: &'a Limits,
}

impl CommandEnd<'_> {
    async fn wait(&mut self) -> Result<u8, Failure> {
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    let status = status.map_err(Internal::at("waiting for the command"))?;
                    return Ok(command::exit_code(status));
                }
                request = self.signals.next() => match request {
                    Request::Dump => self.is_dump_wanted.set(true),
                    // The terminal has also sent it to the command, which decides what to do.
                    Request::Interrupt if !self.interrupted => {
                        self.interrupted = true;
                        say!("waiting for the command to end; Ctrl-C again does not wait");
                    }
                    Request::Interrupt => return Ok(INTERRUPTED),
                    Request::OutOfTime => self.limits.out_of_time(),
                    Request::Terminate | Request::Other => command::pass_on(request, self.child),
                },
            }
        }
    }
}

/// The exit code if the command was not waited for, as if the signal had ended it.
const INTERRUPTED: u8 = 128 + 2;

/// The reason of a dump on request.
pub(crate) const SIGNALLED: &str = "SIGUSR1";

/// Prints a session's messages.
pub(crate) fn tell(notices: impl IntoIterator<Item = String>) {
    for notice in notices {
        say!("{}", one_line(&notice));
    }
}

/// Prints the final report.
fn conclude(recorded: &Recorded, targets: Targets) {
    tell(recorded.notices.iter().cloned());
    let summary = &recorded.summary;
    if summary.calls().total() > 0 {
        say!("\n{summary}");
    } else if recorded.left_out.iter().any(|(_, count)| count > 0) {
        say!("no calls passed the filters");
    } else {
        say!("no calls were seen: {}", why_none(targets));
    }
    print_driver_summary(recorded);
    let mut totals = vec![format!("{}, {} launches", summary.calls(), summary.launches())];
    if recorded.driver_summary.calls() > 0 {
        totals.push(format!("{} driver calls", recorded.driver_summary.calls()));
    }
    totals
        .extend(recorded.trace.iter().map(|(destination, bytes)| format!("{bytes} bytes in {destination}")));
    say!("{}", totals.join(", "));
    report_losses(recorded);
}

/// A possible reason for a recording without calls.
fn why_none(targets: Targets) -> &'static str {
    match targets {
        Targets::Children => "neither the command nor what it has started has called libamdhip64 or libcuda",
        Targets::Process(_) => "the process has made none meanwhile",
        Targets::Everybody => "`xsched-ctl doctor` lists the processes that use HIP or CUDA",
    }
}

pub(crate) fn print_driver_summary(recorded: &Recorded) {
    if recorded.driver_summary.calls() > 0 {
        say!("{}", recorded.driver_summary);
    }
}

/// Prints what is missing, and what was filtered out.
pub(crate) fn report_losses(recorded: &Recorded) {
    for (cause, count) in recorded.losses.iter().filter(|(_, count)| *count > 0) {
        say!("incomplete: {count} {}{}", cause.describe(), by_processor(&recorded.losses, cause));
    }
    for (reason, count) in recorded.left_out.iter().filter(|(_, count)| *count > 0) {
        say!("left out: {count} {}", reason.describe());
    }
    if recorded.losses.calls() > 0 {
        say!("hint: a larger `--ring-size` loses less");
    }
}

/// Where the losses of a cause happened: ` (CPU 0: 17, CPU 3: 4)`.
fn by_processor(losses: &Losses, cause: Counter) -> String {
    let parts: Vec<_> = losses
        .parts(cause)
        .filter_map(|(processor, count)| Some(format!("CPU {}: {count}", processor?)))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}
