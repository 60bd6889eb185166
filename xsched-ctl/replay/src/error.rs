//! Why a recording cannot be replayed.

use std::io;
use std::path::PathBuf;

use xsched_perfetto::{ReadError, WriteError};
use xsched_terminal::{Advice, ExitCode, StdoutError, unreadable};

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum ReplayError {
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{path} is no Perfetto trace: failed to {cause}")]
    NotATrace { path: PathBuf, cause: ReadError },
    #[error("{0} has no executions: it does not say when the device ran what")]
    NoExecutions(PathBuf),
    #[error("{0} does not say by which policy a controller decided")]
    NoController(PathBuf),
    #[error(
        "{path} was recorded under the policy `{policy}` or with settings that this version does not know"
    )]
    UnknownPolicy { path: PathBuf, policy: String },
    #[error("policy or settings changed while {path} was recorded, from `{was}` to `{then}`")]
    Changed { path: PathBuf, was: String, then: String },
    #[error("the controller deferred nothing while {path} was recorded: it was {state}")]
    Idle { path: PathBuf, state: String },
    #[error("no process `{target}` in the recording, which has: {}", .known.join(", "))]
    NoSuchProcess { target: String, known: Vec<String> },
    #[error("cannot write {path}: {cause}")]
    Unwritable { path: PathBuf, cause: WriteError },
    #[error("cannot write {path}: {cause}")]
    NotCreated {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{0} is the recording itself, which the timeline would replace")]
    IsRecording(PathBuf),
    #[error(transparent)]
    Stdout(#[from] StdoutError),
}

/// How a recording is made that can be replayed.
const RECORD: &str = "run the programs with `xsched-ctl run` beside `sudo xsched-ctl serve`, and record them all: `sudo xsched-ctl \
                      trace --all -o FILE`";

impl Advice for ReplayError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unreadable { path, cause } => unreadable::hint(path, cause),
            Self::NotATrace { .. } | Self::NoExecutions(_) => RECORD.to_owned(),
            Self::NoController(_) => {
                format!("record again with this version, beside its controller: {RECORD}")
            }
            Self::UnknownPolicy { .. } => "replay it with the version that has recorded it".to_owned(),
            Self::Changed { .. } => "record again, and change nothing meanwhile".to_owned(),
            Self::Idle { .. } => {
                "`xsched-ctl on`, or `serve` without `--observe`; then record again".to_owned()
            }
            Self::NoSuchProcess { .. } => {
                "`--set` takes a process id or a name of these, such as `--set 4711:class=high`".to_owned()
            }
            Self::Unwritable { .. } | Self::NotCreated { .. } | Self::IsRecording(_) => {
                "choose another file with `-o FILE`".to_owned()
            }
            Self::Stdout(error) => return error.hint(),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Unreadable { .. } | Self::NoSuchProcess { .. } => ExitCode::NoTarget,
            Self::Unwritable { .. } | Self::NotCreated { .. } | Self::IsRecording(_) => {
                ExitCode::CannotCreate
            }
            Self::NotATrace { .. }
            | Self::NoExecutions(_)
            | Self::NoController(_)
            | Self::UnknownPolicy { .. }
            | Self::Changed { .. }
            | Self::Idle { .. } => ExitCode::BadData,
            Self::Stdout(error) => error.exit_code(),
        }
    }
}
