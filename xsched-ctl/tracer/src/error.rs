//! Why nothing is recorded, or no more.

use std::io;
use std::path::PathBuf;

use xsched_bpf::{BpfError, namespace, privilege};
use xsched_terminal::{Advice, ExitCode, Internal, one_line};

use crate::bpf::FunctionsError;
use crate::filter::FilterError;

/// Why a copy of the runtime could not be probed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum RuntimeError {
    #[error("cannot open {path}: {cause}")]
    Open {
        /// Its path, as the process sees it.
        path: PathBuf,
        cause: xsched_symbols::OpenError,
    },
    /// It was named by the user, but the file does not exist, cannot be opened, or its file system does not answer.
    #[error("cannot open {path}: {cause}")]
    Named {
        /// Its path, as given.
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot read the symbols of {path}: {cause}")]
    Symbols {
        /// Its path, as the process sees it.
        path: PathBuf,
        cause: xsched_symbols::ElfError,
    },
    #[error("{path} exports none of HIP's or CUDA's functions")]
    NoFunctions {
        /// Its path, as the process sees it.
        path: PathBuf,
    },
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// Why a recording cannot begin or go on.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum TracerError {
    #[error("tracing is not permitted: missing {missing}")]
    NotPermitted { missing: String },
    #[error("/proc shows the process ids of another pid namespace than this process is in")]
    ForeignProc,
    #[error("no process has the id {0}")]
    NoSuchProcess(u32),
    #[error("process {pid} cannot be inspected: {why}")]
    NoProgram {
        pid: u32,
        /// What it is, or the obstacle.
        why: &'static str,
    },
    #[error(
        "process {pid} ({}) uses neither HIP nor CUDA: no libamdhip64 or libcuda is mapped into it",
        one_line(name)
    )]
    NoRuntime { pid: u32, name: String },
    /// Its runtime may not be opened, for example.
    #[error("process {pid} cannot be recorded: {cause}")]
    NotProbed {
        pid: u32,
        #[source]
        cause: RuntimeError,
    },
    #[error(transparent)]
    Filters(#[from] FilterError),
    #[error("`--ring` writes files: name one with `-o FILE`")]
    NoFileForRing,
    #[error("cannot write {path}: {cause}")]
    OutputNotCreated {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("writing the trace to {to} failed: {cause}")]
    OutputFailed {
        to: String,
        #[source]
        cause: io::Error,
        /// Bytes that were written and can be loaded.
        written: u64,
    },
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error("`--runtime`: {0}")]
    Runtime(#[from] RuntimeError),
    /// `--driver fentry` is not possible.
    #[error("cannot attach to the driver's functions: {0}")]
    DriverFunctions(FunctionsError),
    #[error("cannot follow the mappings of processes: {0}")]
    Sideband(#[from] xsched_symbols::SidebandError),
    #[error(transparent)]
    Internal(#[from] Internal),
}

impl RuntimeError {
    /// Whether its file system has not answered yet. It may later.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Self::Open { cause, .. } => matches!(cause, xsched_symbols::OpenError::Silent { .. }),
            Self::Named { cause, .. } => cause.kind() == io::ErrorKind::TimedOut,
            _ => false,
        }
    }
}

impl Advice for TracerError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotPermitted { .. } if !namespace::user_is_initial() => privilege::OUTSIDE.to_owned(),
            Self::NotPermitted { .. } => {
                "run it as root (`sudo xsched-ctl …`), or grant the missing capabilities".to_owned()
            }
            Self::ForeignProc => {
                "mount this namespace's: `mount -t proc proc /proc`, or `unshare --mount-proc`".to_owned()
            }
            Self::NoSuchProcess(_) => "`pgrep -af python` lists processes with their ids".to_owned(),
            Self::NoProgram { .. } => "only processes with a program of their own can be traced".to_owned(),
            Self::NoRuntime { .. } => {
                "attach once the program has loaded its runtime, or start it under `xsched-ctl trace -- CMD`"
                    .to_owned()
            }
            Self::Filters(_) | Self::NoFileForRing => "`xsched-ctl help trace` lists the options".to_owned(),
            Self::OutputNotCreated { .. } => "choose another file with `-o FILE`".to_owned(),
            Self::OutputFailed { cause, .. } if cause.kind() == io::ErrorKind::FileTooLarge => {
                "files may not be larger here: `ulimit -f unlimited`, or end before that with `--max-size`; what was written up \
                 to then loads in Perfetto"
                    .to_owned()
            }
            Self::OutputFailed { written: 0, cause, .. } if cause.kind() == io::ErrorKind::StorageFull => {
                "there is nothing in it to load: free space (`df -h`), or choose another file with `-o FILE`"
                    .to_owned()
            }
            Self::OutputFailed { written: 0, .. } => {
                "there is nothing in it to load: choose another file with `-o FILE`".to_owned()
            }
            Self::OutputFailed { .. } => "what was written up to then loads in Perfetto".to_owned(),
            Self::Bpf(error) | Self::NotProbed { cause: RuntimeError::Bpf(error), .. } => return error.hint(),
            Self::NotProbed { .. } => "root can open it, if it can be opened: `sudo xsched-ctl …`".to_owned(),
            Self::Runtime(_) => {
                "give the path of libamdhip64.so.N or libcuda.so.N itself on this machine: `find / -name 'libamdhip64.so*'`"
                    .to_owned()
            }
            Self::DriverFunctions(_) => "`--driver tracepoint` works without this".to_owned(),
            Self::Sideband(xsched_symbols::SidebandError::NotPermitted) => privilege::advice(),
            Self::Sideband(error) => privilege::hint(error),
            Self::Internal(error) => return error.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotPermitted { .. } | Self::Sideband(xsched_symbols::SidebandError::NotPermitted) => {
                ExitCode::NotPermitted
            }
            Self::NoSuchProcess(_) | Self::NoProgram { .. } | Self::NoRuntime { .. } | Self::Runtime(_) => {
                ExitCode::NoTarget
            }
            Self::Filters(_) | Self::NoFileForRing => ExitCode::Usage,
            Self::OutputNotCreated { .. } => ExitCode::CannotCreate,
            Self::OutputFailed { .. } => ExitCode::OutputFailed,
            Self::Bpf(error) | Self::NotProbed { cause: RuntimeError::Bpf(error), .. } => error.exit_code(),
            Self::NotProbed { .. } => ExitCode::NoTarget,
            Self::DriverFunctions(_) | Self::Sideband(_) | Self::ForeignProc => ExitCode::Unavailable,
            Self::Internal(error) => error.exit_code(),
        }
    }
}
