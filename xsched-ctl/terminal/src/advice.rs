//! What an error adds to its message: a hint, and the exit code of the command that it ends.

use std::error::Error;
use std::io;

/// An error that can end a command. Every crate of xsched-ctl implements it for its own errors; the command line prints them
/// and knows none of them.
pub trait Advice: Error {
    /// What to do about it: something to type, if there is anything.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The command's exit code.
    fn exit_code(&self) -> ExitCode;
}

/// Exit codes of xsched-ctl itself: those of sysexits(3) and of shells. A command's own status passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// The command line is wrong (`EX_USAGE`).
    Usage = 64,
    /// A file is damaged or of the wrong kind (`EX_DATAERR`).
    BadData = 65,
    /// The process to trace does not exist or does not use HIP or CUDA, or a file cannot be read (`EX_NOINPUT`).
    NoTarget = 66,
    /// This kernel lacks something, or there is no controller (`EX_UNAVAILABLE`).
    Unavailable = 69,
    /// A fault in xsched-ctl itself (`EX_SOFTWARE`).
    Software = 70,
    /// Descriptors, memory or threads are short (`EX_OSERR`).
    Shortage = 71,
    /// The output cannot be created (`EX_CANTCREAT`).
    CannotCreate = 73,
    /// Writing the output failed (`EX_IOERR`).
    OutputFailed = 74,
    /// A privilege is missing (`EX_NOPERM`).
    NotPermitted = 77,
    /// The command exists but cannot be executed, as in shells.
    NotExecutable = 126,
    /// The command does not exist, as in shells.
    NotFound = 127,
}

impl From<ExitCode> for u8 {
    fn from(code: ExitCode) -> Self {
        code as Self
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// An operation has failed that does not fail in practice.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct Internal {
    /// What was being done.
    what: &'static str,
    /// The system's error.
    #[source]
    cause: io::Error,
}

impl Internal {
    /// For `map_err`: names the operation.
    pub fn at(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self { what, cause }
    }
}

impl Advice for Internal {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Software
    }
}
