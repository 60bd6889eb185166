//! Why the kit ends without a report.

use std::io;
use std::path::PathBuf;

use xsched_terminal::{Advice, ExitCode, Internal};

use crate::trouble::Trouble;

/// What keeps the kit from beginning, or from writing.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum FieldError {
    #[error("a controller is running (process {0}); the kit measures beside none, and starts its own")]
    ControllerRuns(u32),
    #[error("the kit's controller cannot start beside another: {0}")]
    ControllerUnclear(String),
    #[error("the shim is preloaded into this process, so nothing would be measured without it")]
    Preloaded,
    #[error("cannot write the report to {path}: {cause}")]
    Output {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot make the report: {0}")]
    Report(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot make a folder for the controller's sockets: {0}")]
    Folder(#[source] io::Error),
    #[error(transparent)]
    Internal(#[from] Internal),
}

impl FieldError {
    pub(crate) fn report(trouble: Trouble) -> Self {
        Self::Report(Box::new(trouble))
    }
}

impl Advice for FieldError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ControllerRuns(_) => {
                "end it first (`sudo systemctl stop xsched`, or Ctrl-C where `xsched-ctl serve` runs), and start it again afterwards"
                    .to_owned()
            }
            Self::ControllerUnclear(_) => "end every `xsched-ctl serve` on this machine first; `xsched-ctl doctor` says more".to_owned(),
            Self::Preloaded => "run it without `xsched-ctl run`, and without LD_PRELOAD".to_owned(),
            Self::Output { cause, .. } if cause.kind() == io::ErrorKind::AlreadyExists => {
                "`-o NAME` gives another name".to_owned()
            }
            Self::Output { .. } => "`-o NAME` gives a path in a folder where you may write".to_owned(),
            Self::Folder(_) => "set TMPDIR to a folder where you may write".to_owned(),
            Self::Report(_) => return None,
            Self::Internal(internal) => return internal.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::ControllerRuns(_) | Self::ControllerUnclear(_) => ExitCode::Unavailable,
            Self::Preloaded => ExitCode::Usage,
            Self::Output { .. } => ExitCode::CannotCreate,
            Self::Report(_) | Self::Folder(_) => ExitCode::Software,
            Self::Internal(internal) => internal.exit_code(),
        }
    }
}
