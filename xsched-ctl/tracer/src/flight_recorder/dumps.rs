//! Writes dumps to files, one after the other, next to the recording.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::error::TracerError;
use crate::output::{Compression, Destination, Untouched, claim, write_file};

/// A file that has been written: which, and its size in bytes.
pub(crate) type Written = (Destination, u64);

pub(super) struct Dumps {
    path: PathBuf,
    compression: Option<Compression>,
    /// Number of dumps begun.
    count: u32,
    under_way: Option<UnderWay>,
    /// The first file, before the first dump.
    untouched: Untouched,
}

struct UnderWay {
    path: PathBuf,
    reason: String,
    task: JoinHandle<io::Result<u64>>,
}

impl UnderWay {
    async fn outcome(mut self) -> String {
        let written = (&mut self.task).await.unwrap_or_else(|panic| Err(panic.into()));
        let path = self.path.display();
        match written {
            Ok(bytes) => format!("dumped {bytes} bytes to {path}: {}", self.reason),
            // The recording matters more than this dump.
            Err(error) => format!("the dump to {path} failed, recording goes on: {error} ({})", self.reason),
        }
    }
}

impl Dumps {
    /// Creates the first file if it does not exist, so that an unwritable path is detected before recording begins.
    pub(super) fn claim(path: PathBuf, compression: Option<Compression>) -> Result<Self, TracerError> {
        match claim(&path) {
            Ok(untouched) => Ok(Self { path, compression, count: 0, under_way: None, untouched }),
            Err(cause) => Err(TracerError::OutputNotCreated { path, cause }),
        }
    }

    /// `FILE`, then `FILE.1` and so on, and what writes it.
    fn next(
        &mut self,
        parts: Vec<Arc<[u8]>>,
    ) -> (PathBuf, impl FnOnce() -> io::Result<u64> + Send + 'static) {
        self.untouched.touch();
        let (number, compression) = (self.count, self.compression);
        let path = numbered(&self.path, number);
        self.count += 1;
        let target = path.clone();
        (path, move || write_file(create(&target, number)?, compression, &parts))
    }

    pub(super) fn begin(&mut self, parts: Vec<Arc<[u8]>>, reason: String) {
        let (path, write) = self.next(parts);
        let task = tokio::task::spawn_blocking(write);
        self.under_way = Some(UnderWay { path, reason, task });
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The result of a dump that has ended since the last call. Does not wait.
    pub(super) async fn ended(&mut self) -> Option<String> {
        Some(self.under_way.take_if(|dump| dump.task.is_finished())?.outcome().await)
    }

    /// Waits for the dump in progress; returns its result.
    pub(super) async fn wait(&mut self) -> Option<String> {
        Some(self.under_way.take()?.outcome().await)
    }

    /// Writes the last file.
    pub(super) async fn finish(mut self, parts: Vec<Arc<[u8]>>) -> Result<Written, TracerError> {
        let (path, write) = self.next(parts);
        let task = tokio::task::spawn_blocking(write);
        let outcome = task.await.unwrap_or_else(|panic| Err(panic.into()));
        let bytes = outcome.map_err(|cause| TracerError::OutputFailed {
            to: path.display().to_string(),
            cause,
            written: fs::metadata(&path).map_or(0, |file| file.len()),
        })?;
        Ok((Destination::File(path), bytes))
    }
}

/// Only the first path is the user's own words. Behind another one there may be a link of another user that may write to the folder.
fn create(path: &Path, number: u32) -> io::Result<File> {
    let links = if number == 0 { 0 } else { libc::O_NOFOLLOW };
    File::options().write(true).create(true).truncate(true).custom_flags(links).open(path)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_dump_has_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.perfetto");
        let dumps = Dumps::claim(path.clone(), None).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        drop(dumps);
        assert!(!path.exists(), "a recording that has not begun leaves no file");
        fs::write(&path, "an older recording").unwrap();
        let mut dumps = Dumps::claim(path.clone(), None).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"an older recording");
        dumps.begin(vec![Arc::from(*b"first")], "asked for".to_owned());
        assert!(dumps.is_under_way());
        assert_eq!(dumps.wait().await, Some(format!("dumped 5 bytes to {}: asked for", path.display())));
        let (destination, bytes) = dumps.finish(vec![Arc::from(*b"sec"), Arc::from(*b"ond")]).await.unwrap();
        let second = dir.path().join("f.perfetto.1");
        assert_eq!((destination, bytes), (Destination::File(second.clone()), 6));
        assert_eq!((fs::read(path).unwrap(), fs::read(second).unwrap()), (b"first".into(), b"second".into()));
    }

    #[tokio::test]
    async fn a_further_dump_is_not_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let [path, real, other] = ["f", "real", "other"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(&real, &path).unwrap();
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("f.1")).unwrap();
        let mut dumps = Dumps::claim(path, None).unwrap();
        dumps.begin(vec![Arc::from(*b"first")], "asked for".to_owned());
        assert!(dumps.wait().await.unwrap().starts_with("dumped 5 bytes"), "the user has named this one");
        dumps.begin(vec![Arc::from(*b"second")], "asked for".to_owned());
        let notice = dumps.wait().await.unwrap();
        assert!(notice.contains("failed, recording goes on"), "{notice}");
        assert_eq!((fs::read(real).unwrap(), fs::read(other).unwrap()), (b"first".into(), b"kept".into()));
    }

    #[tokio::test]
    async fn a_failed_dump_is_reported_and_the_next_one_is_tried() {
        let mut dumps = Dumps::claim("/dev/full".into(), None).unwrap();
        dumps.begin(vec![Arc::from(*b"x")], "asked for".to_owned());
        let notice = dumps.wait().await.unwrap();
        assert!(notice.starts_with("the dump to /dev/full failed, recording goes on: "), "{notice}");
        assert!(Dumps::claim("/no/such/folder/f".into(), None).is_err());
    }
}
