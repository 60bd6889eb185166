//! Where the trace goes, and the thread that writes it there.
//!
//! The session never waits for a disk or a pipe while it reads the ring buffer: it hands over chunks of whole packets,
//! and awaits only when [`CHUNKS_MAX`] of them are under way. What fails is reported to the session as an error.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;

/// Bytes that are collected before they are handed over.
const CHUNK_SIZE: usize = 1 << 18;

/// Chunks under way to the writing thread.
const CHUNKS_MAX: usize = 64;

/// Where the trace goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Standard output, which is a file or a pipe.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Destination {
    /// The file that was asked for; else standard output, unless it is a terminal; else a file named after the time.
    pub(crate) fn choose(asked: Option<&Path>) -> Self {
        match asked {
            Some(path) if path == Path::new("-") => Self::Stdout,
            Some(path) => Self::File(path.to_owned()),
            None if io::stdout().is_terminal() => {
                Self::File(jiff::Zoned::now().strftime("xsched-%Y%m%d-%H%M%S.perfetto").to_string().into())
            }
            None => Self::Stdout,
        }
    }

    fn open(&self) -> Result<File, Failure> {
        let (path, opened) = match self {
            // A handle of its own, so that nothing else in the process can buffer in front of it.
            Self::Stdout => (Path::new("standard output"), stdout_file()),
            Self::File(path) => (path.as_path(), File::create(path)),
        };
        opened.map_err(|cause| Failure::OutputNotCreated { path: path.to_owned(), cause })
    }
}

fn stdout_file() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The writing thread and the way to it.
pub(crate) struct Output {
    destination: Destination,
    chunks: mpsc::Sender<Vec<u8>>,
    result: oneshot::Receiver<io::Result<()>>,
}

impl Output {
    /// Opens `destination` and starts to write to it.
    pub(crate) fn open(destination: Destination) -> Result<Self, Failure> {
        let mut file = destination.open()?;
        let (chunks, mut incoming) = mpsc::channel::<Vec<u8>>(CHUNKS_MAX);
        let (done, result) = oneshot::channel();
        std::thread::Builder::new()
            .name("xsched-output".to_owned())
            .spawn(move || {
                let mut outcome = Ok(());
                while let Some(chunk) = incoming.blocking_recv() {
                    outcome = file.write_all(&chunk);
                    if outcome.is_err() {
                        break;
                    }
                }
                // Nobody listens any more if the session has been given up.
                let _ = done.send(outcome);
            })
            .map_err(Failure::internal("starting the writing thread"))?;
        Ok(Self { destination, chunks, result })
    }

    /// Where the trace goes.
    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Hands over what has been collected, if it is enough for a chunk or `all` of it is wanted out.
    pub(crate) async fn pass_on(&mut self, collected: &mut Vec<u8>, all: bool) -> Result<(), Failure> {
        if collected.is_empty() || (!all && collected.len() < CHUNK_SIZE) {
            return Ok(());
        }
        // The bytes are taken once there is room for them: a caller that stops waiting here loses nothing.
        let Ok(room) = self.chunks.reserve().await else { return Err(self.failure().await) };
        room.send(std::mem::replace(collected, Vec::with_capacity(CHUNK_SIZE)));
        Ok(())
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> Result<(), Failure> {
        drop(self.chunks);
        let outcome =
            self.result.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread ended early")));
        outcome.map_err(|cause| Failure::OutputFailed { to: self.destination.to_string(), cause })
    }

    async fn failure(&mut self) -> Failure {
        let cause = match (&mut self.result).await {
            Ok(Err(cause)) => cause,
            Ok(Ok(())) | Err(_) => io::Error::other("the writing thread ended early"),
        };
        Failure::OutputFailed { to: self.destination.to_string(), cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_handed_over_is_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut output = Output::open(Destination::File(path.clone())).unwrap();
        let mut expected = Vec::new();
        for round in 0..1000u32 {
            let mut chunk = round.to_le_bytes().repeat(100);
            expected.extend(&chunk);
            output.pass_on(&mut chunk, true).await.unwrap();
            assert!(chunk.is_empty());
        }
        output.finish().await.unwrap();
        assert_eq!(std::fs::read(path).unwrap(), expected);
    }

    #[tokio::test]
    async fn a_full_disk_is_reported() {
        let mut output = Output::open(Destination::File("/dev/full".into())).unwrap();
        let mut failure = None;
        for _ in 0..1000 {
            if let Err(error) = output.pass_on(&mut vec![0; 4096], true).await {
                failure = Some(error);
                break;
            }
        }
        let failure = failure.expect("/dev/full takes nothing");
        assert_eq!(failure.exit_code(), crate::exit::OUTPUT_FAILED);
        assert!(failure.to_string().starts_with("writing the trace to /dev/full failed: "), "{failure}");
    }

    #[test]
    fn a_folder_that_does_not_exist_is_reported_at_once() {
        let error = Output::open(Destination::File("/no/such/folder/trace".into())).err().unwrap();
        assert_eq!(error.exit_code(), crate::exit::CANNOT_CREATE);
    }
}
