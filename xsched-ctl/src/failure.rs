//! All errors that end the program early, with hints and exit codes.

use std::io;
use std::path::PathBuf;

use xsched_rules::Mistakes;

use crate::bpf::{BpfError, FunctionsError};
use crate::control::answer::Reason;
use crate::control::client::AskError;
use crate::exit;
use crate::filter::FilterError;
use crate::report::ReportError;
use crate::run::RunError;
use crate::say::one_line;
use crate::serve::ServeError;
use crate::session::RuntimeError;
use crate::{namespace, privilege, unreadable};

/// `ENOEXEC`.
const NO_EXECUTABLE: i32 = rustix::io::Errno::NOEXEC.raw_os_error();

/// Why the program ends without having done its task.
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
    /// The process exists, but has no program that could be read.
    #[error("process {pid} cannot be inspected: {why}")]
    NoProgram {
        /// Its id.
        pid: u32,
        /// What it is, or the obstacle.
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
    /// The status of the shim in a process cannot be read.
    #[error("cannot read the shim in process {pid}: {cause}")]
    Shim {
        /// The process.
        pid: u32,
        /// The obstacle.
        cause: String,
    },
    /// The process belongs to another user.
    #[error("process {0} cannot be inspected: it belongs to another user, or is protected")]
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
    /// Options contradict each other.
    #[error("{0}")]
    Usage(String),
    /// Filters contradict each other.
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
    /// A file of rules has mistakes.
    #[error("{}", .cause.of_file(.path))]
    Rules {
        /// The file.
        path: PathBuf,
        /// The mistakes with their lines.
        cause: Mistakes,
    },
    /// The report could not be made.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A recording cannot be shown.
    #[error(transparent)]
    View(#[from] trace_viewer::Failure),
    /// The output could not be created.
    #[error("cannot write {path}: {cause}")]
    OutputNotCreated {
        /// Its destination.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// Writing the output failed.
    #[error("writing the trace to {to} failed: {cause}")]
    OutputFailed {
        /// Its destination.
        to: String,
        /// The system's error.
        cause: io::Error,
        /// Bytes that were written and can be loaded.
        written: u64,
    },
    /// Printing a verb's output failed.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// The kernel side could not be set up.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A copy of the runtime that the user named could not be probed.
    #[error("`--runtime`: {0}")]
    Runtime(#[from] RuntimeError),
    /// `--driver fentry` is not possible.
    #[error("cannot attach to the driver's functions: {0}")]
    DriverFunctions(FunctionsError),
    /// The mappings of processes could not be followed.
    #[error("cannot follow the mappings of processes: {0}")]
    Sideband(#[from] xsched_symbols::SidebandError),
    /// The controller could not be asked, or refused.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The controller could not be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A command cannot be run under the controller.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An unexpected error.
    #[error("{what}: {cause}")]
    Internal {
        /// What was being done.
        what: &'static str,
        /// The system's error.
        cause: io::Error,
    },
}

impl Failure {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotPermitted { .. } if !namespace::user_is_initial() => privilege::OUTSIDE.to_owned(),
            Self::NotPermitted { .. } => {
                "run it as root (`sudo xsched-ctl …`), or grant the missing capabilities".to_owned()
            }
            Self::Shim { .. } => {
                "run it as the process's user or as root; xsched-ctl and the shim must be of one version"
                    .to_owned()
            }
            Self::ForeignProcess(_) => {
                "run it as root (`sudo xsched-ctl …`), or as the process's user".to_owned()
            }
            Self::NoSuchProcess(_) => "`pgrep -af python` lists processes with their ids".to_owned(),
            Self::NoProgram { .. } => "only processes with a program of their own can be traced".to_owned(),
            Self::ForeignProc => {
                "mount this namespace's: `mount -t proc proc /proc`, or `unshare --mount-proc`".to_owned()
            }
            Self::NoRuntime { .. } => {
                "attach once the program has loaded HIP, or start it under `xsched-ctl trace -- CMD`"
                    .to_owned()
            }
            Self::CommandNotFound(_) => "give a path, or the name of a command on PATH".to_owned(),
            Self::CommandNotExecutable { cause, .. } if cause.raw_os_error() == Some(NO_EXECUTABLE) => {
                "it is neither a program of this machine nor a script whose first line begins with `#!`"
                    .to_owned()
            }
            Self::CommandNotExecutable { command, .. } => {
                format!("`ls -l {command}` shows whether it may be executed")
            }
            Self::Usage(_) | Self::Filters(_) => "`xsched-ctl help trace` lists the options".to_owned(),
            Self::InputUnreadable { path, cause } => unreadable::hint(path, cause),
            Self::Rules { .. } => "correct these lines; docs/rules.md has an example".to_owned(),
            Self::Report(error) => error.hint(),
            Self::View(error) => return error.hint(),
            Self::OutputNotCreated { .. } => "choose another file with `-o FILE`".to_owned(),
            Self::OutputFailed { written: 0, cause, .. } if cause.kind() == io::ErrorKind::StorageFull => {
                "there is nothing in it to load: free space (`df -h`), or choose another file with `-o FILE`"
                    .to_owned()
            }
            Self::OutputFailed { written: 0, .. } => {
                "there is nothing in it to load: choose another file with `-o FILE`".to_owned()
            }
            Self::OutputFailed { .. } => "what was written up to then loads in Perfetto".to_owned(),
            Self::Bpf(error) if error.is_permission() => privilege::advice(),
            Self::Sideband(xsched_symbols::SidebandError::NotPermitted) => privilege::advice(),
            Self::Runtime(_) => {
                "give the path of libamdhip64.so.N itself on this machine: `find / -name 'libamdhip64.so*'`"
                    .to_owned()
            }
            Self::DriverFunctions(_) => "`--driver tracepoint` works without this".to_owned(),
            Self::Bpf(_) | Self::Sideband(_) => "`xsched-ctl doctor` says what this kernel lacks".to_owned(),
            Self::Ask(error) => return error.hint(),
            Self::Serve(error) => error.hint(),
            Self::Run(error) => return error.hint(),
            Self::Stdout(_) | Self::Internal { .. } => return None,
        })
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotPermitted { .. }
            | Self::ForeignProcess(_)
            | Self::Sideband(xsched_symbols::SidebandError::NotPermitted)
            | Self::Ask(AskError::Refused { reason: Reason::NotPermitted | Reason::AboveCeiling, .. }) => {
                exit::NOT_PERMITTED
            }
            Self::NoSuchProcess(_)
            | Self::NoProgram { .. }
            | Self::NoRuntime { .. }
            | Self::Shim { .. }
            | Self::Runtime(_)
            | Self::Ask(AskError::Refused { reason: Reason::NotFound, .. }) => exit::NO_TARGET,
            Self::CommandNotFound(_) => exit::NOT_FOUND,
            Self::CommandNotExecutable { .. } => exit::NOT_EXECUTABLE,
            Self::Usage(_)
            | Self::Filters(_)
            | Self::Ask(AskError::Refused { reason: Reason::Malformed, .. }) => exit::USAGE,
            Self::InputUnreadable { cause, .. } => unreadable::exit_code(cause),
            Self::Rules { .. } => exit::BAD_DATA,
            Self::Report(error) => error.exit_code(),
            Self::View(error) => error.exit_code(),
            Self::OutputNotCreated { .. } => exit::CANNOT_CREATE,
            Self::OutputFailed { .. } | Self::Stdout(_) => exit::OUTPUT_FAILED,
            Self::Bpf(error) if error.is_permission() => exit::NOT_PERMITTED,
            Self::Bpf(_) | Self::DriverFunctions(_) | Self::Sideband(_) | Self::ForeignProc => {
                exit::UNAVAILABLE
            }
            Self::Ask(_) => exit::UNAVAILABLE,
            Self::Serve(error) => error.exit_code(),
            Self::Run(error) => error.exit_code(),
            Self::Internal { .. } => exit::SOFTWARE,
        }
    }

    /// For `map_err` at operations that do not fail in practice.
    pub(crate) fn internal(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Internal { what, cause }
    }
}
