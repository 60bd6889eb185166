//! Everything that ends the program early, with what to do about it and the exit code.

use std::io;
use std::path::PathBuf;

use xsched_bpf::BpfError;
use xsched_bpf::{namespace, privilege};
use xsched_control_api::client::AskError;
use xsched_rules::Mistakes;
use xsched_terminal::one_line;
use xsched_terminal::{Advice, ExitCode, Internal, StdoutError, unreadable};

use crate::bpf::FunctionsError;
use crate::filter::FilterError;
use crate::report::ReportError;
use crate::run::RunError;
use crate::serve::ServeError;
use crate::session::RuntimeError;

/// `ENOEXEC`.
const NO_EXECUTABLE: i32 = rustix::io::Errno::NOEXEC.raw_os_error();

/// Why the program ends without having done what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Tracing needs privileges that this process does not have.
    #[error("tracing is not permitted: missing {missing}")]
    NotPermitted {
        /// The missing capabilities.
        missing: String,
    },
    /// No process has this id.
    #[error("no process has the id {0}")]
    NoSuchProcess(u32),
    /// The process exists, and there is no program in it that could be read.
    #[error("process {pid} cannot be looked at: {why}")]
    NoProgram {
        /// Its id.
        pid: u32,
        /// What it is, or what is in the way.
        why: &'static str,
    },
    /// The process exists and has no HIP runtime mapped.
    #[error("process {pid} ({}) does not use HIP: no libamdhip64 is mapped into it", one_line(name))]
    NoRuntime {
        /// Its id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// The shim in a process cannot be asked.
    #[error("cannot read the shim in process {pid}: {cause}")]
    Shim {
        /// The process.
        pid: u32,
        /// What is in the way.
        cause: String,
    },
    /// The process is somebody else's.
    #[error("process {0} cannot be looked at: it belongs to another user, or is protected")]
    ForeignProcess(u32),
    /// `/proc` was mounted in another pid namespace than that of this process.
    #[error("/proc shows the process ids of another pid namespace than this process is in")]
    ForeignProc,
    /// The command does not exist.
    #[error("cannot run `{0}`: not found")]
    CommandNotFound(String),
    /// The command could not be started.
    #[error("cannot run `{command}`: {cause}")]
    CommandNotExecutable {
        /// Its name.
        command: String,
        /// The system's error.
        cause: io::Error,
    },
    /// Options do not go together.
    #[error("{0}")]
    Usage(String),
    /// Filters do not go together.
    #[error(transparent)]
    Filters(#[from] FilterError),
    /// A file could not be read.
    #[error("cannot read {path}: {cause}")]
    InputUnreadable {
        /// Which one.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A file of rules is wrong.
    #[error("{}", .cause.of_file(.path))]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong in which lines.
        cause: Mistakes,
    },
    /// There is no report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A recording cannot be shown.
    #[error(transparent)]
    View(#[from] trace_viewer::Failure),
    /// The output could not be opened.
    #[error("cannot write {path}: {cause}")]
    OutputNotCreated {
        /// Where to.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The output failed while it was written.
    #[error("writing the trace to {to} failed: {cause}")]
    OutputFailed {
        /// Where to.
        to: String,
        /// The system's error.
        cause: io::Error,
        /// Bytes that are there and load.
        written: u64,
    },
    /// What a verb has to say could not be written.
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    /// The kernel's side could not be set up.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A copy of the runtime that was named could not be probed.
    #[error("`--runtime`: {0}")]
    Runtime(#[from] RuntimeError),
    /// Calls to the driver were to be seen at its own functions, which is not possible.
    #[error("cannot attach to the driver's functions: {0}")]
    DriverFunctions(FunctionsError),
    /// Address spaces could not be followed.
    #[error("cannot follow the mappings of processes: {0}")]
    Sideband(#[from] xsched_symbols::SidebandError),
    /// The controller could not be asked, or refuses.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The controller could not be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A command cannot be run under the controller.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Something that should not happen.
    #[error(transparent)]
    Internal(#[from] Internal),
}

impl Advice for Failure {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotPermitted { .. } if !namespace::user_is_initial() => privilege::OUTSIDE.to_owned(),
            Self::NotPermitted { .. } => {
                "run it as root (`sudo xsched-ctl …`), or grant the missing capabilities".to_owned()
            }
            Self::Shim { .. } => {
                "it must be your own process, or be root; and xsched-ctl and the shim be of one version"
                    .to_owned()
            }
            Self::ForeignProcess(_) => "run it as root (`sudo xsched-ctl …`), or as the process's user".to_owned(),
            Self::NoSuchProcess(_) => "`pgrep -af python` lists processes with their ids".to_owned(),
            Self::NoProgram { .. } => "only processes with a program of their own can be traced".to_owned(),
            Self::ForeignProc => {
                "mount this namespace's: `mount -t proc proc /proc`, or `unshare --mount-proc`".to_owned()
            }
            Self::NoRuntime { .. } => {
                "attach once the program has loaded HIP, or start it under `xsched-ctl trace -- CMD`"
                    .to_owned()
            }
            Self::CommandNotFound(_) => "give a path, or a name that is on PATH".to_owned(),
            Self::CommandNotExecutable { cause, .. } if cause.raw_os_error() == Some(NO_EXECUTABLE) => {
                "it is neither a program of this machine nor a script whose first line begins with `#!`".to_owned()
            }
            Self::CommandNotExecutable { command, .. } => {
                format!("`ls -l {command}` shows whether it may be executed")
            }
            Self::Usage(_) | Self::Filters(_) => "`xsched-ctl help trace` lists the options".to_owned(),
            Self::InputUnreadable { path, cause } => unreadable::hint(path, cause),
            Self::Rules { .. } => {
                "change the lines that are named; README.md, section \"Rules\", has an example".to_owned()
            }
            Self::Report(error) => return error.hint(),
            Self::View(error) => return error.hint(),
            Self::OutputNotCreated { .. } => "choose another file with `-o FILE`".to_owned(),
            Self::OutputFailed { written: 0, cause, .. } if cause.kind() == io::ErrorKind::StorageFull => {
                "there is nothing in it to load: make room (`df -h`), or choose another file with `-o FILE`".to_owned()
            }
            Self::OutputFailed { written: 0, .. } => {
                "there is nothing in it to load: choose another file with `-o FILE`".to_owned()
            }
            Self::OutputFailed { .. } => "what was written up to then loads in Perfetto".to_owned(),
            Self::Bpf(error) => return error.hint(),
            Self::Sideband(xsched_symbols::SidebandError::NotPermitted) => privilege::advice(),
            Self::Runtime(_) => {
                "name the file libamdhip64.so.N itself, as this machine sees it: `find / -name 'libamdhip64.so*'`"
                    .to_owned()
            }
            Self::DriverFunctions(_) => "`--driver tracepoint` works without".to_owned(),
            Self::Sideband(_) => "`xsched-ctl doctor` says what this kernel lacks".to_owned(),
            Self::Ask(error) => return error.hint(),
            Self::Serve(error) => return error.hint(),
            Self::Run(error) => return error.hint(),
            Self::Stdout(error) => return error.hint(),
            Self::Internal(error) => return error.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotPermitted { .. }
            | Self::ForeignProcess(_)
            | Self::Sideband(xsched_symbols::SidebandError::NotPermitted) => ExitCode::NotPermitted,
            Self::NoSuchProcess(_)
            | Self::NoProgram { .. }
            | Self::NoRuntime { .. }
            | Self::Shim { .. }
            | Self::Runtime(_) => ExitCode::NoTarget,
            Self::CommandNotFound(_) => ExitCode::NotFound,
            Self::CommandNotExecutable { .. } => ExitCode::NotExecutable,
            Self::Usage(_) | Self::Filters(_) => ExitCode::Usage,
            Self::InputUnreadable { cause, .. } => unreadable::exit_code(cause),
            Self::Rules { .. } => ExitCode::BadData,
            Self::Report(error) => error.exit_code(),
            Self::View(error) => view_exit_code(error),
            Self::OutputNotCreated { .. } => ExitCode::CannotCreate,
            Self::Stdout(error) => error.exit_code(),
            Self::OutputFailed { .. } => ExitCode::OutputFailed,
            Self::Bpf(error) => error.exit_code(),
            Self::DriverFunctions(_) | Self::Sideband(_) | Self::ForeignProc => ExitCode::Unavailable,
            Self::Ask(error) => error.exit_code(),
            Self::Serve(error) => error.exit_code(),
            Self::Run(error) => error.exit_code(),
            Self::Internal(error) => error.exit_code(),
        }
    }
}

/// The viewer is a program of its own, with the same exit codes.
fn view_exit_code(error: &trace_viewer::Failure) -> ExitCode {
    let code = error.exit_code();
    [ExitCode::BadData, ExitCode::NoTarget, ExitCode::Unavailable]
        .into_iter()
        .find(|known| u8::from(*known) == code)
        .unwrap_or(ExitCode::Software)
}
