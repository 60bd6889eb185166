//! Errors: their messages, hints and exit statuses (those of `sysexits.h`).

use std::{io, path::PathBuf};

use xsched_perfetto::ReadError;

const EXIT_DATA: u8 = 65;
const EXIT_NO_INPUT: u8 = 66;
const EXIT_UNAVAILABLE: u8 = 69;

/// Why the timeline cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Input {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is empty.
    #[error("{} is empty", .file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file ends before the first whole packet.
    #[error("{} is no timeline, or was cut off at its very beginning", .file.display())]
    NothingWhole {
        /// The file.
        file: PathBuf,
    },
    /// The compressed file was cut off. The Perfetto UI shows compressed files only if they are whole.
    #[error("{} is compressed and was cut off", .file.display())]
    CutCompressed {
        /// The file.
        file: PathBuf,
    },
    /// The file has another format.
    #[error("{} is not a timeline: failed to {source}", .file.display())]
    NotATimeline {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: ReadError,
    },
    /// The file is damaged. The Perfetto UI shows nothing of a damaged file.
    #[error("{} is damaged after {whole_bytes} bytes: failed to {source}", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The bytes before the damage.
        whole_bytes: u64,
        /// What is wrong.
        source: ReadError,
    },
    /// The port is not available.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The file.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// Serving failed later.
    #[error("cannot serve the timeline: {source}")]
    Serve {
        /// The system's error.
        source: io::Error,
    },
}

impl Failure {
    /// A command to type or a thing to check.
    pub fn hint(&self) -> Option<String> {
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
            Self::Empty { .. } => Some(
                "a recording has content from its first moment on; with `--ring`, from its first dump on"
                    .to_owned(),
            ),
            Self::CutCompressed { file } => Some(format!(
                "what is there can be shown: `zcat {0} > whole.perfetto`, or `zstdcat {0} > whole.perfetto`",
                file.display()
            )),
            Self::NotATimeline { .. } | Self::NothingWhole { .. } => {
                Some("timelines are recorded by `xsched-ctl`, or by Perfetto in its own format".to_owned())
            }
            Self::Damaged { file, whole_bytes, .. } => Some(format!(
                "what precedes the damage can be shown: `head -c {whole_bytes} {} > whole.perfetto`",
                file.display()
            )),
            Self::Listen { port, source } if source.kind() == io::ErrorKind::AddrInUse => Some(format!(
                "end what uses the port, perhaps another viewer: `ss -ltnp 'sport = :{port}'` shows it"
            )),
            Self::Listen { .. } | Self::Serve { .. } => None,
        }
    }

    /// The exit status, as the long help documents it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input { .. } => EXIT_NO_INPUT,
            Self::Empty { .. }
            | Self::NothingWhole { .. }
            | Self::CutCompressed { .. }
            | Self::NotATimeline { .. }
            | Self::Damaged { .. } => EXIT_DATA,
            Self::Listen { .. } | Self::Serve { .. } => EXIT_UNAVAILABLE,
        }
    }
}
