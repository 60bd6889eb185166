//! What can go wrong, how it is said, what to do about it, and the exit status (those of `sysexits.h`).

use std::{io, path::PathBuf};

use xsched_perfetto::ReadError;

/// `EX_USAGE`: a wrong command line.
pub(crate) const EXIT_USAGE: u8 = 64;
const EXIT_DATA: u8 = 65;
const EXIT_NO_INPUT: u8 = 66;
const EXIT_UNAVAILABLE: u8 = 69;

/// Why the timeline cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("read {}: {source}", .file.display())]
    Input { file: PathBuf, source: io::Error },
    #[error("{} is empty", .file.display())]
    Empty { file: PathBuf },
    /// The UI shows whole compressed files only.
    #[error("{} is compressed and was cut off", .file.display())]
    CutCompressed { file: PathBuf },
    #[error("{} is not a timeline: {source}", .file.display())]
    NotATimeline { file: PathBuf, source: ReadError },
    #[error("{} is damaged after {whole_bytes} bytes: {source}", .file.display())]
    Damaged { file: PathBuf, whole_bytes: u64, source: ReadError },
    #[error("listen on 127.0.0.1:{port}: {source}")]
    Listen { port: u16, source: io::Error },
    #[error("serve the timeline: {source}")]
    Serve { source: io::Error },
}

impl Failure {
    /// Something to type or to check.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Input { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    Some("check the name; `xsched-ctl` prints where it writes".to_owned())
                }
                io::ErrorKind::PermissionDenied => {
                    Some("recordings made by root belong to root; try `sudo chown $USER FILE`".to_owned())
                }
                _ => None,
            },
            Self::Empty { .. } => {
                Some("a recording has content from its first moment on; was this one started?".to_owned())
            }
            Self::CutCompressed { file } => Some(format!(
                "what is there can be shown: `zcat {0} > whole.perfetto`, or `zstdcat {0} > whole.perfetto`",
                file.display()
            )),
            Self::NotATimeline { .. } => {
                Some("timelines are recorded by `xsched-ctl`, or by Perfetto in its own format".to_owned())
            }
            Self::Damaged { file, whole_bytes, .. } => Some(format!(
                "what precedes the damage can be shown: `head -c {whole_bytes} {} > whole.perfetto`",
                file.display()
            )),
            Self::Listen { port, source } if source.kind() == io::ErrorKind::AddrInUse => Some(format!(
                "end what uses the port, perhaps another trace-viewer: `ss -ltnp 'sport = :{port}'` shows it"
            )),
            Self::Listen { .. } | Self::Serve { .. } => None,
        }
    }

    /// Documented in the long help.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Input { .. } => EXIT_NO_INPUT,
            Self::Empty { .. }
            | Self::CutCompressed { .. }
            | Self::NotATimeline { .. }
            | Self::Damaged { .. } => EXIT_DATA,
            Self::Listen { .. } | Self::Serve { .. } => EXIT_UNAVAILABLE,
        }
    }
}
