//! Runs clients and reads their output; ends those that hang, and records their stacks.

use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use crate::mode::{Mode, Paths};

/// Longer than any program takes on a machine that is busy with other work.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A client's report on one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed, or the number of the run.
    pub number: u64,
    /// Digest of the outcome.
    pub digest: u64,
    /// Number of impossible return codes.
    pub impossible_codes: u64,
}

/// How a client failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// It printed nothing for too long.
    #[error("hangs\n{0}")]
    Hang(String),
    /// It ended without success.
    #[error("ended with {status}: {stderr}")]
    Ended {
        /// The exit status as the system formats it.
        status: String,
        /// Its output on stderr.
        stderr: String,
    },
    /// It could not be started, or its output could not be read.
    #[error("cannot be run: {0}")]
    NotRun(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::NotRun(error.to_string())
    }
}

/// Runs a client to its end, to the program at which it fails, or to the first report after which nothing is
/// reliable. Returns the reports up to then.
pub fn reports(
    mode: &Mode,
    paths: &Paths,
    words: &[&str],
    is_last: impl Fn(&Report) -> bool,
) -> (Vec<Report>, Result<(), Failure>) {
    let mut reports = Vec::new();
    let result = follow(&mut mode.command(paths, words), |line| {
        let Some(report) = parse(line) else { return ControlFlow::Continue(()) };
        reports.push(report);
        if is_last(&report) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (reports, result)
}

/// Everything that a client prints.
///
/// # Errors
///
/// Fails if the client does.
pub fn output(mode: &Mode, paths: &Paths, words: &[&str]) -> Result<String, Failure> {
    let mut text = String::new();
    follow(&mut mode.command(paths, words), |line| {
        text.push_str(line);
        text.push('\n');
        ControlFlow::Continue(())
    })?;
    Ok(text)
}

fn parse(line: &str) -> Option<Report> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let digest = u64::from_str_radix(words.next()?, 16).ok()?;
    Some(Report { number, digest, impossible_codes: words.next()?.parse().ok()? })
}

fn follow(command: &mut Command, mut on_line: impl FnMut(&str) -> ControlFlow<()>) -> Result<(), Failure> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().expect("it is piped in the line above");
    let mut stderr = child.stderr.take().expect("as stdout");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let complaints = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    loop {
        match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => {
                if on_line(&line).is_break() {
                    child.kill()?;
                    child.wait()?;
                    return Ok(());
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let stacks = stacks(&child);
                child.kill()?;
                child.wait()?;
                return Err(Failure::Hang(stacks));
            }
        }
    }
    let status = child.wait()?;
    let stderr = complaints.join().unwrap_or_default();
    if status.success() { Ok(()) } else { Err(Failure::Ended { status: status.to_string(), stderr }) }
}

/// The stacks of all threads, if gdb is available.
fn stacks(child: &Child) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "thread apply all bt 16", "-p"]);
    match gdb.arg(child.id().to_string()).stderr(Stdio::null()).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_frame = |line: &&str| line.starts_with('#') || line.starts_with("Thread");
            text.lines().filter(is_frame).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("no stacks: gdb: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_line_is_parsed() {
        let report = Report { number: 7, digest: 0xab, impossible_codes: 1 };
        assert_eq!(parse("7 00000000000000ab 1"), Some(report));
        assert_eq!(parse("something else"), None);
    }

    #[test]
    fn a_client_is_ended_after_the_last_needed_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; sleep 1000"]);
        assert!(follow(&mut command, |_| ControlFlow::Break(())).is_ok());
    }

    #[test]
    fn a_client_that_fails_is_reported_with_its_stderr() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo why >&2; exit 3"]);
        let failure = follow(&mut command, |line| {
            lines.push(line.to_owned());
            ControlFlow::Continue(())
        });
        let failure = failure.unwrap_err();
        assert_eq!(lines, ["one"]);
        assert_eq!(failure.to_string(), "ended with exit status: 3: why\n");
    }
}
