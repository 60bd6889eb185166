//! Why the kernel's side cannot be set up.

use std::io;
use std::path::PathBuf;

use aya::EbpfError;
use aya::programs::ProgramError;
use xsched_terminal::{Advice, ExitCode, is_permission};

use crate::privilege;
use crate::tracefs::NoTracepoints;

/// Why the kernel side could not be set up.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum BpfError {
    #[error("cannot create the BPF maps: {0}")]
    Object(#[from] EbpfError),
    /// The number of possible processors cannot be read.
    #[error("cannot read {path}: {cause}")]
    Processors {
        path: &'static str,
        #[source]
        cause: io::Error,
    },
    /// The verifier refused a program, or the kernel lacks something that it uses.
    #[error("cannot load the BPF program `{program}`: {cause}{log}")]
    Load {
        program: &'static str,
        #[source]
        cause: io::Error,
        /// The last lines of the verifier's log, each on a line of its own; empty if there is none.
        log: String,
    },
    #[error("cannot attach `{program}` to {path}: {cause}")]
    Attach {
        program: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot attach `{program}` to {tracepoint}: {cause}")]
    Tracepoint { program: &'static str, tracepoint: String, cause: NoTracepoints },
    #[error("cannot use the BPF map `{map}`: {cause}")]
    Map {
        map: &'static str,
        #[source]
        cause: aya::maps::MapError,
    },
}

impl BpfError {
    /// Whether the cause is a missing permission.
    pub fn is_permission(&self) -> bool {
        is_permission(self)
    }

    /// The kernel has refused a program, with the verifier's log.
    pub fn refused(program: &'static str, cause: io::Error, log: &str) -> Self {
        Self::Load { program, cause, log: last_lines(log) }
    }
}

impl Advice for BpfError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Tracepoint { cause, .. } => cause.remedy().to_owned(),
            error => privilege::hint(error),
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Tracepoint { cause, .. } => cause.exit_code(),
            _ if self.is_permission() => ExitCode::NotPermitted,
            _ => ExitCode::Unavailable,
        }
    }
}

/// What aya says of a program that was not loaded.
pub fn load_error(program: &'static str, error: ProgramError) -> BpfError {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            BpfError::refused(program, io_error, &verifier_log.to_string())
        }
        other => BpfError::Load { program, cause: io::Error::other(other), log: String::new() },
    }
}

/// The end of a verifier log, which says what was refused.
fn last_lines(log: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<_> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].iter().flat_map(|line| ["\n  verifier: ", line]).collect()
}

#[cfg(test)]
mod tests {
    use aya::maps::MapError;
    use rustix::io::Errno;
    use xsched_terminal::with_causes;

    use super::*;

    #[test]
    fn verifier_logs_are_cut_from_the_front() {
        let log = (0..100).map(|n| format!("line {n}\n\n")).collect::<Vec<_>>().concat();
        let end = last_lines(&log);
        assert!(end.starts_with("\n  verifier: line 88"), "{end}");
        assert!(end.ends_with("line 99"), "{end}");
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn a_map_that_is_refused_says_why() {
        let refused = MapError::CreateError { name: "OWNERS".to_owned(), io_error: Errno::PERM.into() };
        let error = BpfError::Object(EbpfError::from(refused));
        assert_eq!(
            with_causes(&error),
            "cannot create the BPF maps: map error: failed to create map `OWNERS`: Operation not permitted (os error 1)"
        );
        assert!(is_permission(&error));
        let gone = BpfError::Load { program: "report", cause: Errno::INVAL.into(), log: String::new() };
        assert_eq!(
            with_causes(&gone),
            "cannot load the BPF program `report`: Invalid argument (os error 22)",
            "nothing is repeated"
        );
        assert!(!is_permission(&gone));
    }
}
