//! Why the controller could not start, with the hint and the exit code.

use std::io;
use std::path::PathBuf;

use xsched_arbiter::{ArbiterError, ProgramsError};
use xsched_metrics::MetricsError;
use xsched_rules::Mistakes;
use xsched_terminal::{Advice, ExitCode, Internal, StdoutError, unreadable};

use crate::place::PlaceError;

/// Why the controller could not start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum ServeError {
    #[error(transparent)]
    Config(FileError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Arbiter(#[from] ArbiterError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    Rules(FileError),
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    #[error(transparent)]
    Internal(#[from] Internal),
}

/// Why the configuration or the rules are not available.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{}", .cause.of_file(.path))]
    Wrong { path: PathBuf, cause: Mistakes },
}

impl Advice for ServeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Config(FileError::Wrong { .. }) | Self::Rules(FileError::Wrong { .. }) => {
                format!("{}; `xsched-ctl serve --check` checks the files and starts nothing", self.remedy()?)
            }
            Self::Place(error) => return error.hint(),
            Self::Metrics(error) => return error.hint(),
            Self::Arbiter(ArbiterError::Programs(ProgramsError::Occupied(folder))) => format!(
                "its sockets are in another folder or it runs in a container; stop it first (`fuser -v {folder}` shows its process)"
            ),
            Self::Arbiter(_) => "`--no-bpf` runs without BPF programs".to_owned(),
            Self::Config(FileError::Unreadable { path, cause })
            | Self::Rules(FileError::Unreadable { path, cause }) => unreadable::hint(path, cause),
            Self::Stdout(error) => return error.hint(),
            Self::Internal(error) => return error.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(FileError::Unreadable { cause, .. })
            | Self::Rules(FileError::Unreadable { cause, .. }) => unreadable::exit_code(cause),
            Self::Config(FileError::Wrong { .. }) | Self::Rules(FileError::Wrong { .. }) => ExitCode::BadData,
            Self::Place(error) => error.exit_code(),
            Self::Metrics(error) => error.exit_code(),
            Self::Arbiter(_) => ExitCode::Unavailable,
            Self::Stdout(error) => error.exit_code(),
            Self::Internal(error) => error.exit_code(),
        }
    }
}

impl ServeError {
    /// The hint for a command that has just tried the files.
    pub(crate) fn remedy(&self) -> Option<String> {
        let document = match self {
            Self::Config(FileError::Wrong { .. }) => "docs/configuration.md",
            Self::Rules(FileError::Wrong { .. }) => "docs/rules.md",
            _ => return self.hint(),
        };
        Some(format!("correct these lines; {document} has an example"))
    }
}
