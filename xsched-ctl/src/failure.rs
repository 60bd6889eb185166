//! All errors that end the program early, with hints and exit codes.

use std::io;
use std::path::PathBuf;

use xsched_control_api::client::AskError;
use xsched_controller::ServeError;
use xsched_field::FieldError;
use xsched_replay::ReplayError;
use xsched_report::{ReportError, ViewError};
use xsched_rules::Mistakes;
use xsched_terminal::{Advice, ExitCode, Internal, StdoutError, unreadable};
use xsched_tracer::TracerError;

use crate::run::RunError;

/// `ENOEXEC`.
const NO_EXECUTABLE: i32 = rustix::io::Errno::NOEXEC.raw_os_error();

/// Why the program ends without having done its task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Tracer(#[from] TracerError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("cannot read the shim in process {pid}: {cause}")]
    Shim { pid: u32, cause: String },
    #[error("process {0} cannot be inspected: it belongs to another user, or is protected")]
    ForeignProcess(u32),
    #[error("cannot run `{0}`: not found")]
    CommandNotFound(String),
    #[error("cannot run `{command}`: {cause}")]
    CommandNotExecutable {
        command: String,
        #[source]
        cause: io::Error,
    },
    #[error("{0}")]
    Usage(String),
    #[error("`top` needs a terminal, as standard input and output")]
    NoTerminal,
    #[error("cannot read {path}: {cause}")]
    InputUnreadable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot write {path}: {cause}")]
    OutputUnwritable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the rest of the recording is lost: its output took nothing more")]
    OutputGivenUp,
    #[error("{}", .cause.of_file(.path))]
    Rules { path: PathBuf, cause: Mistakes },
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    #[error(transparent)]
    Internal(#[from] Internal),
}

impl Failure {
    /// The error of a crate below, which advises itself.
    fn inner(&self) -> Option<&dyn Advice> {
        Some(match self {
            Self::Tracer(error) => error,
            Self::Serve(error) => error,
            Self::Report(error) => error,
            Self::Replay(error) => error,
            Self::View(error) => error,
            Self::Field(error) => error,
            Self::Ask(error) => error,
            Self::Run(error) => error,
            Self::Stdout(error) => error,
            Self::Internal(error) => error,
            _ => return None,
        })
    }
}

impl Advice for Failure {
    fn hint(&self) -> Option<String> {
        if let Some(inner) = self.inner() {
            return inner.hint();
        }
        Some(match self {
            Self::Shim { .. } => {
                "run it as the process's user or as root; xsched-ctl and the shim must be of one version"
                    .to_owned()
            }
            Self::ForeignProcess(_) => {
                "run it as root (`sudo xsched-ctl …`), or as the process's user".to_owned()
            }
            Self::CommandNotFound(_) => "give a path, or the name of a command on PATH".to_owned(),
            Self::CommandNotExecutable { cause, .. } if cause.raw_os_error() == Some(NO_EXECUTABLE) => {
                "it is neither a program of this machine nor a script whose first line begins with `#!`"
                    .to_owned()
            }
            Self::CommandNotExecutable { command, .. } => {
                format!("`ls -l {command}` shows whether it may be executed")
            }
            Self::Usage(_) => "`xsched-ctl help trace` lists the options".to_owned(),
            Self::NoTerminal => {
                "`xsched-ctl list --watch`, or `list --json`, is for scripts and files".to_owned()
            }
            Self::InputUnreadable { path, cause } => unreadable::hint(path, cause),
            Self::OutputUnwritable { .. } => "give a folder that you may write to".to_owned(),
            Self::OutputGivenUp => {
                "read the pipe to its end, or choose a file on this machine with `-o FILE`; what was written up to then loads in Perfetto"
                    .to_owned()
            }
            Self::Rules { .. } => "correct these lines; docs/rules.md has an example".to_owned(),
            _ => return None,
        })
    }

    fn exit_code(&self) -> ExitCode {
        if let Some(inner) = self.inner() {
            return inner.exit_code();
        }
        match self {
            Self::ForeignProcess(_) => ExitCode::NotPermitted,
            Self::Shim { .. } => ExitCode::NoTarget,
            Self::CommandNotFound(_) => ExitCode::NotFound,
            Self::CommandNotExecutable { .. } => ExitCode::NotExecutable,
            Self::Usage(_) | Self::NoTerminal => ExitCode::Usage,
            Self::InputUnreadable { cause, .. } => unreadable::exit_code(cause),
            Self::OutputUnwritable { .. } => ExitCode::CannotCreate,
            Self::OutputGivenUp => ExitCode::OutputFailed,
            Self::Rules { .. } => ExitCode::BadData,
            _ => ExitCode::Software,
        }
    }
}
