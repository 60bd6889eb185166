//! Probed files that somebody writes.
//!
//! A probe belongs to an offset of a file, and the kernel keeps the instruction that was there when it was put in. Whoever
//! copies another library over the file, rather than into its place, has every program that loads it from then on run the
//! old instructions at these offsets, and crash. So probes go as soon as their file is written; when it is next opened or
//! mapped it is a copy like any other that is new.
//!
//! The kernel says so whoever writes, under whatever name. Writing takes longer than taking probes out where that is quick.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use xsched_symbols::FileId;

/// The watched files. Readable when one of them has been written.
pub(super) struct Written {
    inotify: OwnedFd,
    /// By the kernel's numbers.
    files: Vec<(i32, FileId)>,
}

impl Written {
    /// Watches nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?, files: Vec::new() })
    }

    /// Makes it something to wait for.
    pub(super) fn into_async(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: the descriptor stays open, and unchanged, for as long as it lives in the `AsyncFd`.
        unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) }.map_err(Into::into)
    }

    /// Watches the file that is behind `path` now.
    pub(super) fn watch(&mut self, file: FileId, path: &Path) {
        match inotify::add_watch(&self.inotify, path, WatchFlags::MODIFY) {
            // Of a file that is watched already it is the number that it has.
            Ok(number) if self.files.iter().any(|(known, _)| *known == number) => {}
            Ok(number) => self.files.push((number, file)),
            Err(error) => tracing::debug!("{} is not watched: {error}", path.display()),
        }
    }

    /// The files that have been written since they were watched, which they are no more.
    pub(super) fn take(&mut self) -> Vec<FileId> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut numbers = Vec::new();
        // Whatever it fails with, nothing is there to be read any more.
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::MODIFY) {
                numbers.push(event.wd());
            }
        }
        let written: Vec<_> = self.files.extract_if(.., |(number, _)| numbers.contains(number)).collect();
        for (number, _) in &written {
            // It fails where the kernel has forgotten the file by itself, which has been deleted.
            let _ = inotify::remove_watch(&self.inotify, *number);
        }
        written.into_iter().map(|(_, file)| file).collect()
    }
}

impl AsRawFd for Written {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_written_is_told_of_once_and_one_that_is_replaced_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let id = |inode| FileId { device_major: 0, device_minor: 0, inode, generation: None };
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let mut written = Written::new().unwrap();
        for (path, number) in [(&one, 1), (&two, 2)] {
            fs::write(path, "before").unwrap();
            written.watch(id(number), path);
        }
        assert_eq!(fs::read_to_string(&one).unwrap(), "before");
        assert!(written.take().is_empty(), "it was only read");
        fs::write(&one, "after").unwrap();
        fs::write(&one, "later").unwrap();
        fs::write(dir.path().join("new"), "after").unwrap();
        fs::rename(dir.path().join("new"), &two).unwrap();
        assert_eq!(written.take(), [id(1)]);
        fs::write(&one, "again").unwrap();
        assert!(written.take().is_empty());
    }
}
