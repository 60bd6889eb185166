//! Why the controller could not start, with the hint and the exit code.

use xsched_arbiter::{ArbiterError, ProgramsError};
use xsched_terminal::{Advice, ExitCode, Internal, StdoutError, unreadable};

use crate::config::ConfigError;
use crate::place::PlaceError;
use crate::rules::RulesFileError;

/// Why the controller could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is not available.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The sockets could not be made.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The arbiter page could not be made.
    #[error(transparent)]
    Arbiter(#[from] ArbiterError),
    /// The rules are not available.
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    /// Nothing can be printed.
    #[error(transparent)]
    Stdout(#[from] StdoutError),
    /// An unexpected error.
    #[error(transparent)]
    Internal(#[from] Internal),
}

impl Advice for ServeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Config(ConfigError::Wrong { .. }) | Self::Rules(RulesFileError::Wrong { .. }) => {
                format!("{}; `xsched-ctl serve --check` checks the files and starts nothing", self.remedy()?)
            }
            Self::Place(error) => return error.hint(),
            Self::Arbiter(ArbiterError::Programs(ProgramsError::Occupied(folder))) => format!(
                "its sockets are in another folder or it runs in a container; stop it first (`fuser -v {folder}` shows its process)"
            ),
            Self::Arbiter(_) => "`--no-bpf` runs without BPF programs".to_owned(),
            Self::Config(ConfigError::Unreadable { path, cause })
            | Self::Rules(RulesFileError::Unreadable { path, cause }) => unreadable::hint(path, cause),
            Self::Stdout(error) => return error.hint(),
            Self::Internal(error) => return error.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(ConfigError::Unreadable { cause, .. })
            | Self::Rules(RulesFileError::Unreadable { cause, .. }) => unreadable::exit_code(cause),
            Self::Config(ConfigError::Wrong { .. }) | Self::Rules(RulesFileError::Wrong { .. }) => {
                ExitCode::BadData
            }
            Self::Place(error) => error.exit_code(),
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
            Self::Config(ConfigError::Wrong { .. }) => "docs/configuration.md",
            Self::Rules(RulesFileError::Wrong { .. }) => "docs/rules.md",
            _ => return self.hint(),
        };
        Some(format!("correct these lines; {document} has an example"))
    }
}
