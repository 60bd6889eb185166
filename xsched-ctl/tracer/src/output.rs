//! The destination of the trace, and the thread that writes to it.
//!
//! The session never waits for a disk or a pipe while it reads the ring buffer. It hands over chunks of whole packets,
//! and waits only when [`CHUNKS_MAX`] of them are under way. Failures are reported to the session as errors.

mod compression;

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{mpsc, oneshot};
use xsched_perfetto::whole_packets;

use crate::error::TracerError;
pub use compression::Compression;
use xsched_terminal::Internal;

use compression::encoded_len_max;

/// Bytes that are collected before they are handed over, and that are written at once. More may have been collected.
const CHUNK_SIZE: usize = 1 << 18;

/// What of a chunk is written at once if all of it does not fit.
const PART_SIZE: usize = 1 << 12;

/// Chunks under way to the writing thread.
const CHUNKS_MAX: usize = 64;

/// Bytes reserved for the end of a file of limited size: losses, and why it ends.
const END_SIZE: u64 = 16 << 10;

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// How it is compressed, if it is.
    pub compression: Option<Compression>,
    /// Most bytes of its file.
    pub size_max: Option<u64>,
    /// Set if it is kept in memory and dumped.
    pub kept: Option<Kept>,
}

/// How to keep a recording in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Limit in bytes.
    pub size_max: usize,
    /// A launch that takes longer causes a dump.
    pub slow_ns: Option<u64>,
}

/// The destination of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Destination {
    /// The requested file; otherwise standard output, unless it is a terminal; otherwise a file named after the time.
    pub fn choose(asked: Option<&Path>, compression: Option<Compression>) -> Self {
        match asked {
            Some(path) if path == Path::new("-") => Self::Stdout,
            Some(path) => Self::File(path.to_owned()),
            None if io::stdout().is_terminal() => {
                let mut name = jiff::Zoned::now().strftime("xsched-%Y%m%d-%H%M%S.perfetto").to_string();
                if let Some(compression) = compression {
                    name.push('.');
                    name.push_str(compression.ending());
                }
                Self::File(name.into())
            }
            None => Self::Stdout,
        }
    }

    /// Opens it, and keeps its content.
    fn open(&self) -> Result<(File, Untouched), TracerError> {
        let (path, opened) = match self {
            // A separate handle, so that no other buffer is in front of it.
            Self::Stdout => (Path::new("standard output"), stdout_file().map(|file| (file, Untouched(None)))),
            Self::File(path) => (path.as_path(), open_file(path)),
        };
        opened.map_err(|cause| TracerError::OutputNotCreated { path: path.to_owned(), cause })
    }
}

/// Checks that a file can be written to, and keeps its content.
pub(crate) fn claim(path: &Path) -> io::Result<Untouched> {
    open_file(path).map(|(_, untouched)| untouched)
}

fn open_file(path: &Path) -> io::Result<(File, Untouched)> {
    match File::create_new(path) {
        Ok(file) => Ok((file, Untouched(Some(path.to_owned())))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let file = File::options().write(true).create(true).truncate(false).open(path)?;
            Ok((file, Untouched(None)))
        }
        Err(error) => Err(error),
    }
}

/// A file that was created for a trace, until something is handed over for it. It is removed if nothing ever is: the
/// recording has then not begun.
pub(crate) struct Untouched(Option<PathBuf>);

impl Untouched {
    /// Something is handed over for it.
    pub(crate) fn touch(&mut self) {
        self.0 = None;
    }
}

impl Drop for Untouched {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If this fails, the empty file remains.
            let _ = fs::remove_file(path);
        }
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
pub struct Output {
    destination: Destination,
    compression: Option<Compression>,
    size_max: u64,
    chunks: mpsc::Sender<Vec<u8>>,
    /// Bytes handed over.
    handed: u64,
    progress: Arc<Progress>,
    result: oneshot::Receiver<io::Result<()>>,
    untouched: Untouched,
}

/// The progress of the writing thread, in bytes.
#[derive(Default)]
struct Progress {
    /// Handed-over bytes that have been written.
    taken: AtomicU64,
    /// Their size in the file.
    written: AtomicU64,
}

impl Output {
    /// Opens `destination` for writing. An existing trace is kept until the first bytes of the new one come, so that a
    /// mistyped command does not destroy it.
    pub(crate) fn open(destination: Destination, format: Format) -> Result<Self, TracerError> {
        let (file, untouched) = destination.open()?;
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let (chunks, incoming) = mpsc::channel(CHUNKS_MAX);
        let (done, result) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        let writer = Writer {
            file,
            compression: format.compression,
            can_be_cut: is_regular && matches!(destination, Destination::File(_)),
            has_begun: false,
            progress: progress.clone(),
        };
        std::thread::Builder::new()
            .name("xsched-output".to_owned())
            // If the session was given up, its receiver is gone.
            .spawn(move || drop(done.send(writer.run(incoming))))
            .map_err(Internal::at("starting the writing thread"))?;
        Ok(Self {
            destination,
            compression: format.compression,
            size_max: format.size_max.unwrap_or(u64::MAX),
            chunks,
            handed: 0,
            progress,
            result,
            untouched,
        })
    }

    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Whether the file may exceed its limit with `collected_len` more bytes and the reserved end. The compressed size
    /// is known after writing; until then bytes count as if they did not compress.
    pub(crate) fn is_full_with(&self, collected_len: usize) -> bool {
        let written = self.progress.written.load(Relaxed);
        let under_way = self.handed - self.progress.taken.load(Relaxed) + collected_len as u64;
        written + encoded_len_max(self.compression, under_way) + END_SIZE > self.size_max
    }

    /// Hands over what has been collected, if it is enough for a chunk; with `all`, always.
    pub(crate) async fn pass_on(&mut self, collected: &mut Vec<u8>, all: bool) -> Result<(), TracerError> {
        if collected.is_empty() || (!all && collected.len() < CHUNK_SIZE) {
            return Ok(());
        }
        // The bytes are taken once there is space in the channel: a caller that stops waiting here loses nothing.
        let Ok(room) = self.chunks.reserve().await else { return Err(self.failure().await) };
        self.untouched.touch();
        self.handed += collected.len() as u64;
        room.send(std::mem::replace(collected, Vec::with_capacity(CHUNK_SIZE)));
        Ok(())
    }

    /// Waits until everything is written; returns the size of the file, or what was added to it.
    pub(crate) async fn finish(self) -> Result<u64, TracerError> {
        drop(self.chunks);
        let outcome =
            self.result.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread ended early")));
        let written = self.progress.written.load(Relaxed);
        let to = self.destination.to_string();
        outcome.map(|()| written).map_err(|cause| TracerError::OutputFailed { to, cause, written })
    }

    async fn failure(&mut self) -> TracerError {
        let cause = match (&mut self.result).await {
            Ok(Err(cause)) => cause,
            Ok(Ok(())) | Err(_) => io::Error::other("the writing thread ended early"),
        };
        let written = self.progress.written.load(Relaxed);
        TracerError::OutputFailed { to: self.destination.to_string(), cause, written }
    }
}

/// Writes a whole file; returns its size in bytes. If that fails, it contains the parts that fitted.
pub(crate) fn write_file(
    file: File,
    compression: Option<Compression>,
    parts: &[Arc<[u8]>],
) -> io::Result<u64> {
    let progress = Arc::new(Progress::default());
    let mut writer = Writer { file, compression, can_be_cut: true, has_begun: true, progress };
    parts.iter().try_for_each(|part| writer.write(part))?;
    Ok(writer.progress.written.load(Relaxed))
}

/// The state of the writing thread.
struct Writer {
    file: File,
    compression: Option<Compression>,
    /// It is a regular file that this program writes from its beginning.
    can_be_cut: bool,
    /// The file contains only what this has written.
    has_begun: bool,
    progress: Arc<Progress>,
}

impl Writer {
    fn run(mut self, mut incoming: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
        while let Some(chunk) = incoming.blocking_recv() {
            self.write(&chunk)?;
        }
        Ok(())
    }

    /// Writes a chunk in parts: small ones if a large one fails, so that on a full disk almost everything that fits is written.
    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        whole_packets(chunk, CHUNK_SIZE).try_for_each(|part| match self.write_part(part) {
            Err(_) if self.can_be_cut => {
                whole_packets(part, PART_SIZE).try_for_each(|part| self.write_part(part))
            }
            outcome => outcome,
        })
    }

    fn write_part(&mut self, part: &[u8]) -> io::Result<()> {
        let encoded = self.compression.map(|compression| compression.encode(part));
        let bytes = encoded.as_deref().unwrap_or(part);
        if !self.has_begun && self.can_be_cut {
            self.file.set_len(0)?;
        }
        self.has_begun = true;
        if let Err(error) = self.file.write_all(bytes) {
            if self.can_be_cut {
                // The next part may fit. The incomplete part would make a compressed file unreadable. If it cannot be removed, readers find a
                // cut end.
                let written = self.progress.written.load(Relaxed);
                let _ = self.file.set_len(written).and_then(|()| self.file.seek(SeekFrom::Start(written)));
            } else if let (None, Ok(end)) = (self.compression, self.file.stream_position()) {
                // The incomplete part stays; it can be loaded up to its last whole packet.
                self.progress.written.store(end, Relaxed);
            }
            return Err(error);
        }
        self.progress.written.fetch_add(bytes.len() as u64, Relaxed);
        self.progress.taken.fetch_add(part.len() as u64, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use xsched_terminal::{Advice as _, ExitCode};

    use super::*;

    #[tokio::test]
    async fn everything_handed_over_is_written_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut output = Output::open(Destination::File(path.clone()), Format::default()).unwrap();
        let mut expected: Vec<u8> = Vec::new();
        for round in 0..1000u32 {
            let mut chunk = round.to_le_bytes().repeat(100);
            expected.extend(&chunk);
            output.pass_on(&mut chunk, true).await.unwrap();
            assert!(chunk.is_empty());
        }
        output.finish().await.unwrap();
        assert_eq!(fs::read(path).unwrap(), expected);
    }

    #[tokio::test]
    async fn an_older_trace_stays_until_the_new_one_begins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        drop(Output::open(Destination::File(path.clone()), Format::default()).unwrap());
        assert!(!path.exists(), "a recording that has not begun leaves no file");

        fs::write(&path, "an older and longer trace").unwrap();
        drop(Output::open(Destination::File(path.clone()), Format::default()).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "an older and longer trace");

        let mut output = Output::open(Destination::File(path.clone()), Format::default()).unwrap();
        output.pass_on(&mut b"new".to_vec(), true).await.unwrap();
        output.finish().await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[tokio::test]
    async fn a_full_disk_is_reported() {
        let mut output = Output::open(Destination::File("/dev/full".into()), Format::default()).unwrap();
        let mut failure = None;
        for _ in 0..1000 {
            if let Err(error) = output.pass_on(&mut vec![0; 4096], true).await {
                failure = Some(error);
                break;
            }
        }
        let failure = failure.expect("/dev/full takes nothing");
        assert_eq!(failure.exit_code(), ExitCode::OutputFailed);
        assert!(failure.to_string().starts_with("writing the trace to /dev/full failed: "), "{failure}");
        let hint = failure.hint().unwrap();
        assert!(hint.starts_with("there is nothing in it to load: free space"), "{hint}");
    }

    #[test]
    fn a_folder_that_does_not_exist_is_reported_at_once() {
        let error =
            Output::open(Destination::File("/no/such/folder/trace".into()), Format::default()).err().unwrap();
        assert_eq!(error.exit_code(), ExitCode::CannotCreate);
    }
}
