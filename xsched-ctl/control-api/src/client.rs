//! Asks the controller.

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

/// How long the controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the controller may take to accept another connection when its backlog is full.
const CROWD_PATIENCE: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum AskError {
    #[error("no controller is running")]
    NoController,
    #[error("cannot reach the controller at {path}: {cause}")]
    Unreachable {
        path: std::path::PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the controller accepts no connections: too many wait at {}", .folder.path().display())]
    Crowded { folder: Folder },
    #[error("the controller ({}) does not answer", place(*pid))]
    Silent {
        /// Its process; 0 if it has no id in this pid namespace.
        pid: u32,
    },
    #[error("the controller has ended the connection: {0}")]
    Gone(#[source] io::Error),
    #[error("unexpected answer from the controller: {0}")]
    Strange(String),
    #[error("{message}")]
    Refused { reason: Reason, message: String },
}

/// A connection to the controller.
pub struct Controller {
    stream: BufReader<UnixStream>,
    /// Its process, as the kernel identifies it.
    pub peer: Peer,
}

impl Controller {
    /// Connects to the running one.
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

    /// Sends a request, and waits for the answer.
    pub async fn ask(&mut self, request: &Request) -> Result<Answer, AskError> {
        self.ask_within(request, PATIENCE).await
    }

    /// Like [`ask`](Self::ask), with another time limit.
    pub async fn ask_within(&mut self, request: &Request, patience: Duration) -> Result<Answer, AskError> {
        let pid = self.peer.pid;
        tokio::time::timeout(patience, self.exchange(request)).await.unwrap_or(Err(AskError::Silent { pid }))
    }

    async fn exchange(&mut self, request: &Request) -> Result<Answer, AskError> {
        let mut line = serde_json::to_vec(request).expect("requests have no maps with odd keys");
        line.push(b'\n');
        // A connection may be refused before this write; the reason can be read even if the write fails.
        let asked = self.stream.write_all(&line).await;
        let mut answer = String::new();
        // The controller's answers are shorter; the limit is for another program behind the socket.
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
        // The controller sends nothing unasked, so a read ends only with the connection.
        let _ = self.stream.read_u8().await;
    }
}

/// Describes the controller's process by its id.
fn place(pid: u32) -> String {
    if pid == 0 { "in another pid namespace".to_owned() } else { format!("process {pid}") }
}

/// Connects, and retries for a while if the backlog is full.
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

/// Sends a single request.
pub async fn ask(request: &Request) -> Result<Answer, AskError> {
    Controller::connect().await?.ask(request).await
}

impl Advice for AskError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoController => "`sudo xsched-ctl serve` starts one".to_owned(),
            Self::Unreachable { path, .. } => format!("`ls -l {}` shows which users may open it", path.display()),
            Self::Silent { pid: 0 } => "after 100 ms without a heartbeat no process is deferred; `xsched-ctl off --force` ends it where it \
                                        runs: on the host, or in its container"
                .to_owned(),
            Self::Silent { pid } => format!(
                "after 100 ms without a heartbeat no process is deferred; `xsched-ctl off --force`, or `kill -9 {pid}`, ends it"
            ),
            Self::Crowded { .. } => {
                "after 100 ms without a heartbeat no process is deferred; `xsched-ctl off --force` ends one that hangs".to_owned()
            }
            Self::Gone(_) => "`xsched-ctl doctor` says whether one is running".to_owned(),
            Self::Strange(_) => "install controller and command from one build".to_owned(),
            Self::Refused { reason: Reason::NotPermitted, .. } => {
                "run it as root or as the user that runs the controller, outside of containers".to_owned()
            }
            Self::Refused { reason: Reason::AboveCeiling, .. } => {
                "run it as root or as the user that runs the controller, outside of containers; a `[[ceiling]]` in its configuration \
                 lets others go higher"
                    .to_owned()
            }
            Self::Refused { reason: Reason::NotFound, .. } => {
                "`xsched-ctl list` shows processes and claims".to_owned()
            }
            Self::Refused { reason: Reason::Unavailable, .. } => {
                "`xsched-ctl doctor` shows the controller's state; a process started with `XSCHED_VERBOSE=2` logs its \
                 passed-through calls"
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
