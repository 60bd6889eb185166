//! Why there is no endpoint, with the hint and the exit code.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use xsched_terminal::{Advice, ExitCode, unreadable::folder_of};

/// Why the endpoint for metrics could not be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum MetricsError {
    #[error("metrics: other machines can reach {0}, and metrics name cgroups and libraries")]
    Public(SocketAddr),
    #[error("metrics: {address} is in use by another process")]
    InUse { address: SocketAddr },
    #[error("metrics: cannot listen at {address}: {cause}")]
    Tcp {
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error("metrics: a process listens at {0} already")]
    Live(PathBuf),
    #[error("metrics: {0} exists, and is not a socket")]
    NotSocket(PathBuf),
    #[error("metrics: there is no folder {}", folder_of(.0).display())]
    NoFolder(PathBuf),
    #[error("metrics: cannot make the socket {path}: {cause}")]
    Unix {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("metrics: cannot start the thread that answers: {0}")]
    Thread(#[source] io::Error),
}

impl Advice for MetricsError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Public(address) => format!(
                "listen at 127.0.0.1:{}, or allow it by `--metrics-public` or `public = true`",
                address.port()
            ),
            Self::InUse { address } => format!(
                "choose another port, or end that process (`ss -ltnp 'sport = :{}'` shows it)",
                address.port()
            ),
            Self::Tcp { cause, .. } if cause.kind() == io::ErrorKind::AddrNotAvailable => {
                "choose an address of this machine (`ip address` shows them)".to_owned()
            }
            Self::Tcp { .. } => "choose another address, such as 127.0.0.1:9464".to_owned(),
            Self::Live(path) => {
                format!("choose another path, or end that process (`fuser -v {}` shows it)", path.display())
            }
            Self::NotSocket(_) => "choose another path, or remove that file".to_owned(),
            Self::NoFolder(path) => format!("mkdir -p {}", folder_of(path).display()),
            Self::Unix { .. } => "choose a path in a folder that the controller may write".to_owned(),
            Self::Thread(_) => {
                "raise the limit of threads, or start the controller without metrics".to_owned()
            }
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Public(_) => ExitCode::Usage,
            Self::InUse { .. } | Self::Live(_) => ExitCode::Unavailable,
            Self::Tcp { .. }
            | Self::NotSocket(_)
            | Self::NoFolder(_)
            | Self::Unix { .. }
            | Self::Thread(_) => ExitCode::CannotCreate,
        }
    }
}
