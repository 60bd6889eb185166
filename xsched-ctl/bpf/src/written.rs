//! Detects writes to probed files: copies of the runtime, builds of the shim.
//!
//! A probe belongs to an offset in a file, and the kernel keeps the instruction that was there when the probe was attached. If
//! another library is copied over the file, instead of replacing it by a rename, the old instructions stay at these offsets.
//! Every program that loads the file from then on executes them and crashes. So probes are removed as soon as their file is
//! written; afterwards it is treated like a new file.
//!
//! inotify reports writes by any process and under any name. Removing probes is faster than writing a file, where
//! removal is fast at all.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use xsched_symbols::FileId;

/// The watched files. Readable when one of them has been written.
pub struct Written {
    inotify: OwnedFd,
    /// By inotify's watch numbers.
    files: RefCell<Vec<(i32, FileId)>>,
}

impl Written {
    /// Watches nothing yet. None where the kernel does not report writes.
    pub fn new() -> Option<AsyncFd<Self>> {
        let begin = || {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let written = Self { inotify, files: RefCell::default() };
            // SAFETY: the descriptor stays open and unchanged for as long as it lives in the `AsyncFd`.
            unsafe { AsyncFd::register_with_interest(written, Interest::READABLE) }.map_err(io::Error::from)
        };
        begin().inspect_err(|error| tracing::debug!("writes are not reported: {error}")).ok()
    }

    /// Watches an open file. False if it cannot be watched.
    pub fn watch(&self, file: FileId, opened: &File) -> bool {
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let mut files = self.files.borrow_mut();
        match inotify::add_watch(&self.inotify, path, WatchFlags::MODIFY) {
            // A file that is watched already keeps its number.
            Ok(number) if files.iter().any(|(known, _)| *known == number) => true,
            Ok(number) => {
                files.push((number, file));
                true
            }
            Err(error) => {
                tracing::debug!("{file:?} is not watched: {error}");
                false
            }
        }
    }

    /// Whether a file is watched and was not written since.
    pub fn watches(&self, file: FileId) -> bool {
        self.files.borrow().iter().any(|(_, known)| known.matches(&file))
    }

    /// Stops watching a file.
    pub fn forget(&self, file: FileId) {
        self.files.borrow_mut().retain(|(number, known)| {
            let stays = !known.matches(&file);
            if !stays {
                // May fail, as below.
                let _ = inotify::remove_watch(&self.inotify, *number);
            }
            stays
        });
    }

    /// The files that were written since they were watched. They are not watched any more.
    pub fn take(&self) -> Vec<FileId> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut numbers = Vec::new();
        // Any error means that there is nothing to read.
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::MODIFY) {
                numbers.push(event.wd());
            }
        }
        let mut files = self.files.borrow_mut();
        let written: Vec<_> = files.extract_if(.., |(number, _)| numbers.contains(number)).collect();
        for (number, _) in &written {
            // Fails if the file was deleted, because the kernel then removes the watch itself.
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

    #[tokio::test]
    async fn a_written_file_is_reported_once_and_a_replaced_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let id = |inode| FileId { device_major: 0, device_minor: 0, inode, generation: None };
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let written = Written::new().unwrap();
        let written = written.get_ref();
        for (path, number) in [(&one, 1), (&two, 2)] {
            fs::write(path, "before").unwrap();
            assert!(written.watch(id(number), &File::open(path).unwrap()));
        }
        assert_eq!(fs::read_to_string(&one).unwrap(), "before");
        assert!(written.take().is_empty(), "it was only read");
        fs::write(&one, "after").unwrap();
        fs::write(&one, "later").unwrap();
        fs::write(dir.path().join("new"), "after").unwrap();
        fs::rename(dir.path().join("new"), &two).unwrap();
        assert_eq!(written.take(), [id(1)]);
        assert_eq!([1, 2].map(|number| written.watches(id(number))), [false, true]);
        fs::write(&one, "again").unwrap();
        assert!(written.take().is_empty());
        let opened = File::options().write(true).open(&two).unwrap();
        assert!(written.watch(id(3), &opened));
        written.forget(id(3));
        fs::write(&two, "again").unwrap();
        assert!(written.take().is_empty());
    }
}
