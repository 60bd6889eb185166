//! Runs the command to be traced or scheduled.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};
use xsched_terminal::{Descriptors, ExitCode, Internal, Request, Signals};
use xsched_tracer::Enlistment;

use crate::failure::Failure;

/// Where the command's standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutput {
    /// The same as the tracer's.
    Inherited,
    /// To standard error, since the trace goes to standard output.
    ToStderr,
}

/// Starts a command: its name, found along `PATH`, and its arguments. With an enlistment it adds itself to the watched
/// processes.
pub(crate) fn spawn(
    command: &[OsString],
    output: CommandOutput,
    signals: &Signals,
    descriptors: &mut Descriptors,
    enlistment: Option<Enlistment>,
) -> Result<Child, Failure> {
    let stdout = match output {
        CommandOutput::Inherited => Stdio::inherit(),
        CommandOutput::ToStderr => io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .map(Stdio::from)
            .map_err(Internal::at("duplicating standard error"))?,
    };
    let mut prepared = prepare(command);
    prepared.stdout(stdout);
    if let Some(enlistment) = enlistment {
        // SAFETY: enlisting is one system call; it allocates nothing and takes no lock.
        unsafe { prepared.pre_exec(move || enlistment.enlist()) };
    }
    start(&mut prepared, signals, descriptors)
}

/// A command: its name, found along `PATH`, and its arguments.
pub(crate) fn prepare(words: &[OsString]) -> Command {
    let (program, arguments) = words.split_first().expect("the command line parser wants at least one word");
    let mut prepared = Command::new(program);
    prepared.args(arguments);
    prepared
}

/// Starts a command, with the signals and the limit of open files that this program was started with.
pub(crate) fn start(
    prepared: &mut Command,
    signals: &Signals,
    descriptors: &mut Descriptors,
) -> Result<Child, Failure> {
    signals.give_back(|| descriptors.give_back(|| prepared.spawn())).map_err(|cause| {
        let command = prepared.as_std().get_program().to_string_lossy().into_owned();
        match cause.kind() {
            io::ErrorKind::NotFound => Failure::CommandNotFound(command),
            _ => Failure::CommandNotExecutable { command, cause },
        }
    })
}

/// Passes a signal on to the command.
pub(crate) fn pass_on(request: Request, child: &Child) {
    let Some(pid) = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) else { return };
    // This fails only if the command has just ended.
    let signal = rustix::process::Signal::from_named_raw(request.passed_on());
    let _ = signal.map(|signal| rustix::process::kill_process(pid, signal));
}

/// The exit code for a command's end, as in shells.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => ExitCode::Software.into(),
    }
}

#[cfg(test)]
mod tests {
    use xsched_terminal::Advice as _;

    use super::*;

    async fn run(words: &[&str]) -> Result<u8, Failure> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        let mut child = spawn(
            &words,
            CommandOutput::Inherited,
            &Signals::catch()?,
            &mut Descriptors::raise().unwrap(),
            None,
        )?;
        Ok(exit_code(child.wait().await.unwrap()))
    }

    #[tokio::test]
    async fn statuses_pass_through() {
        assert_eq!(run(&["sh", "-c", "exit 3"]).await.unwrap(), 3);
        assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).await.unwrap(), 128 + 15);
    }

    #[tokio::test]
    async fn missing_and_unusable_commands_are_told_apart() {
        assert_eq!(run(&["no-such-command-anywhere"]).await.unwrap_err().exit_code(), ExitCode::NotFound);
        assert_eq!(run(&["/etc/hostname"]).await.unwrap_err().exit_code(), ExitCode::NotExecutable);
    }
}
