//! A folder of this user, and the files in it.
//!
//! A user who can write tables controls the results of walks, and this program may run as root. So all accesses use one
//! descriptor of the folder, which has been checked. Links are never followed, and files of other users are never read.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

/// The prefix of an entry's name while it is being written.
const UNFINISHED: &str = ".new-";
/// An unfinished entry of this age belongs to a process that was killed.
const UNFINISHED_AGE_MAX: Duration = Duration::from_hours(1);

#[derive(Debug)]
pub(super) struct Folder {
    handle: OwnedFd,
    bytes_max: u64,
    written: AtomicU64,
}

/// A file in the folder.
struct Listed {
    name: String,
    bytes: u64,
    used: SystemTime,
}

impl Folder {
    /// Opens a folder, and creates it if it does not exist.
    pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        check_owner(&rustix::fs::fstat(&handle)?)?;
        Ok(Self { handle, bytes_max, written: AtomicU64::new(0) })
    }

    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        // A FIFO would block; a device may act when it is opened.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file: File = rustix::fs::openat(&self.handle, name, flags, Mode::empty())?.into();
        let stat = rustix::fs::fstat(&file)?;
        check_owner(&stat)?;
        let size = stat.st_size as u64;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || size > self.bytes_max {
            return Err(io::Error::other("not an entry of a cache"));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        file.take(size).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Marks an entry as used: the least recently used ones are removed first.
    pub(super) fn touch(&self, name: &str) {
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        // If this fails, the entry is removed earlier.
        let _ = rustix::fs::utimensat(&self.handle, name, &times, AtFlags::SYMLINK_NOFOLLOW);
    }

    /// Writes an entry atomically, and removes other entries if the capacity requires it.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.bytes_max {
            return Err(io::Error::other("the entry is larger than the cache's capacity"));
        }
        self.make_space(name, bytes.len() as u64)?;
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!("{UNFINISHED}{}-{number}-{name}", std::process::id());
        let result = self.create(&unfinished, bytes).and_then(|()| {
            rustix::fs::renameat(&self.handle, &unfinished, &self.handle, name).map_err(io::Error::from)
        });
        if result.is_err() {
            // The file may or may not exist, depending on the step that failed.
            let _ = rustix::fs::unlinkat(&self.handle, &unfinished, AtFlags::empty());
        }
        result
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(bytes)
    }

    /// Removes the least recently used entries until `bytes` more fit, and unfinished entries of killed processes.
    fn make_space(&self, name: &str, bytes: u64) -> io::Result<()> {
        let mut entries = self.list()?;
        let now = SystemTime::now();
        entries.retain(|entry| {
            let age = now.duration_since(entry.used).unwrap_or_default();
            if !entry.name.starts_with(UNFINISHED) {
                // The entry of this name is replaced.
                return entry.name != name;
            }
            if age > UNFINISHED_AGE_MAX {
                let _ = rustix::fs::unlinkat(&self.handle, &entry.name, AtFlags::empty());
                return false;
            }
            true
        });
        let mut total = entries.iter().fold(bytes, |total, entry| total.saturating_add(entry.bytes));
        entries.retain(|entry| !entry.name.starts_with(UNFINISHED));
        entries.sort_by_key(|entry| entry.used);
        for entry in entries {
            if total <= self.bytes_max {
                break;
            }
            rustix::fs::unlinkat(&self.handle, &entry.name, AtFlags::empty())?;
            total -= entry.bytes;
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // The file may not exist any more: other processes remove entries, too.
            let Ok(stat) = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                let since_epoch = Duration::new(
                    u64::try_from(stat.st_mtime).unwrap_or(0),
                    u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
                );
                let used = SystemTime::UNIX_EPOCH + since_epoch;
                listed.push(Listed { name: name.to_owned(), bytes: stat.st_size as u64, used });
            }
        }
        Ok(listed)
    }
}

fn check_owner(stat: &Stat) -> io::Result<()> {
    let others_may_write = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if stat.st_uid != rustix::process::geteuid().as_raw() || others_may_write {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "belongs to another user, or others may write to it",
        ));
    }
    Ok(())
}
