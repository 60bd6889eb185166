//! Asking the controller.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use xsched_terminal::{Advice, ExitCode};

use crate::answer::{Answer, Reason};
use crate::folder::Folder;
use crate::peer::Peer;
use crate::request::{ANSWER_LEN_MAX, Request};

/// How long the controller may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the controller may take to make room for another who asks.
const CROWD_PATIENCE: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No controller runs.
    #[error("no controller is running")]
    NoController,
    /// There is one that may not be asked.
    #[error("cannot reach the controller at {path}: {cause}")]
    Unreachable {
        /// Its socket.
        path: std::path::PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// There is one, and so many wait for it that there is no room for another.
    #[error("the controller takes in nobody: too many wait for it at {}", .folder.path().display())]
    Crowded {
        /// Where its sockets are.
        folder: Folder,
    },
    /// It does not answer in time.
    #[error("the controller ({}) does not answer", place(*pid))]
    Silent {
        /// Its process; 0 if it has no id in this pid namespace.
        pid: u32,
    },
    /// The connection ended.
    #[error("the controller has ended the connection: {0}")]
    Gone(io::Error),
    /// It answers with something else.
    #[error("the controller answers what makes no sense here: {0}")]
    Strange(String),
    /// It refuses.
    #[error("{message}")]
    Refused {
        /// Of what sort the reason is.
        reason: Reason,
        /// The reason.
        message: String,
    },
}

/// A connection to the controller.
pub struct Controller {
    stream: BufReader<UnixStream>,
    /// Its process, as the kernel knows it.
    pub peer: Peer,
}

impl Controller {
    /// Connects to the one that there is.
    pub async fn connect() -> Result<Self, AskError> {
        for folder in Folder::candidates() {
            let path = folder.control_socket();
            match reach(&path).await {
                Ok(stream) => {
                    let peer = Peer::of(&stream).map_err(|cause| AskError::Unreachable { path, cause })?;
                    return Ok(Self { stream: BufReader::new(stream), peer });
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(AskError::Crowded { folder });
                }
                Err(cause) => return Err(AskError::Unreachable { path, cause }),
            }
        }
        Err(AskError::NoController)
    }

    /// Asks, and waits for the answer.
    pub async fn ask(&mut self, request: &Request) -> Result<Answer, AskError> {
        self.ask_within(request, PATIENCE).await
    }

    /// As [`ask`](Self::ask), with a time of one's own.
    pub async fn ask_within(&mut self, request: &Request, patience: Duration) -> Result<Answer, AskError> {
        let pid = self.peer.pid;
        tokio::time::timeout(patience, self.exchange(request)).await.unwrap_or(Err(AskError::Silent { pid }))
    }

    async fn exchange(&mut self, request: &Request) -> Result<Answer, AskError> {
        let mut line = serde_json::to_vec(request).expect("requests have no maps with odd keys");
        line.push(b'\n');
        // Who is refused before he has asked anything finds the reason there.
        let asked = self.stream.write_all(&line).await;
        let mut answer = String::new();
        // Its own answers are shorter; another program's need not be.
        let mut bounded = (&mut self.stream).take(ANSWER_LEN_MAX as u64);
        bounded.read_line(&mut answer).await.map_err(AskError::Gone)?;
        if answer.is_empty() {
            asked.map_err(AskError::Gone)?;
            return Err(AskError::Gone(io::ErrorKind::UnexpectedEof.into()));
        }
        match serde_json::from_str(&answer) {
            Ok(Answer::Refused { reason, message }) => Err(AskError::Refused { reason, message }),
            Ok(answer) => Ok(answer),
            Err(error) => Err(AskError::Strange(error.to_string())),
        }
    }

    /// Waits for the end of the connection.
    pub async fn ended(&mut self) {
        // Nothing is said without being asked: whatever can be read, or cannot, is the end.
        let _ = self.stream.read_u8().await;
    }
}

/// Where the controller is, by its process's id.
fn place(pid: u32) -> String {
    if pid == 0 { "in another pid namespace".to_owned() } else { format!("process {pid}") }
}

/// Connects, and waits a while for room where many others wait.
async fn reach(path: &Path) -> io::Result<UnixStream> {
    let deadline = Instant::now() + CROWD_PATIENCE;
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            reached => return reached,
        }
    }
}

/// Asks one thing.
pub async fn ask(request: &Request) -> Result<Answer, AskError> {
    Controller::connect().await?.ask(request).await
}

impl Advice for AskError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoController => "`sudo xsched-ctl serve` starts one".to_owned(),
            Self::Unreachable { path, .. } => format!("`ls -l {}` shows who may", path.display()),
            Self::Silent { pid: 0 } => "nobody is held back after 100 ms of its silence; `xsched-ctl off --force` ends it where it \
                                        runs: on the host, or in its container"
                .to_owned(),
            Self::Silent { pid } => format!(
                "nobody is held back after 100 ms of its silence; `xsched-ctl off --force`, or `kill -9 {pid}`, ends it"
            ),
            Self::Crowded { .. } => {
                "nobody is held back after 100 ms of its silence; `xsched-ctl off --force` ends one that hangs".to_owned()
            }
            Self::Gone(_) => "`xsched-ctl doctor` says whether there is one now".to_owned(),
            Self::Strange(_) => "controller and command must be of one version".to_owned(),
            Self::Refused { reason: Reason::NotPermitted, .. } => {
                "be root, or the user that runs the controller, and in no container".to_owned()
            }
            Self::Refused { reason: Reason::AboveCeiling, .. } => {
                "be root, or the user that runs the controller, and in no container; a `[[ceiling]]` in its configuration \
                 lets others go higher"
                    .to_owned()
            }
            Self::Refused { reason: Reason::NotFound, .. } => {
                "`xsched-ctl list` shows what there is".to_owned()
            }
            Self::Refused { reason: Reason::Unavailable, .. } => {
                "`xsched-ctl doctor` says how the controller is; a process that is started with `XSCHED_VERBOSE=2` names its \
                 calls that pass through"
                    .to_owned()
            }
            Self::Refused { .. } => return None,
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Refused { reason: Reason::NotPermitted | Reason::AboveCeiling, .. } => {
                ExitCode::NotPermitted
            }
            Self::Refused { reason: Reason::NotFound, .. } => ExitCode::NoTarget,
            Self::Refused { reason: Reason::Malformed, .. } => ExitCode::Usage,
            _ => ExitCode::Unavailable,
        }
    }
}
