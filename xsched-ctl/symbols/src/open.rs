//! Opens the file that a process has mapped, never another one of the same name.
//!
//! Three ways, in this order:
//!
//! 1. the path as the process sees it, through `/proc/PID/root`: right in containers;
//! 2. `/proc/PID/map_files/START-END`: right for deleted files and memfds;
//! 3. the path as this process sees it: all that is left when the other has ended.
//!
//! Each candidate is opened as a mere reference (`O_PATH`: no device is woken, no FIFO waited for), compared
//! with the inode that was mapped, and only then opened for reading.
//!
//! The device number cannot always be compared. On btrfs and overlayfs `stat` gives another device than the
//! kernel's records, an anonymous one (major number 0). In the first two ways the mapping process itself vouches
//! for the path, so an equal inode number is enough there if an anonymous device is involved. In the third,
//! device and inode must both be equal. Left out: overlays over several file systems without `xino`, whose
//! `stat` gives other inode numbers too; their files count as gone.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::mapping::{FileId, Mapping};

/// Why the file of a mapping could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The mapping shows no file.
    #[error("no file is mapped there")]
    NoFile,
    /// Nothing that can be reached is the file that was mapped.
    #[error("{} is gone or replaced", path.display())]
    Gone {
        /// The path as the process saw it.
        path: PathBuf,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Voucher {
    /// The path was followed as the mapping process sees it.
    Process,
    Nobody,
}

/// Opens the file that `pid` has mapped, for reading. The process may have ended.
///
/// A probe can be attached to this very file through `/proc/self/fd/N`, whatever its path means by now.
pub fn open_mapped(pid: u32, mapping: &Mapping) -> Result<File, OpenError> {
    let wanted = mapping.file.ok_or(OpenError::NoFile)?;
    let path = mapping.raw_path();
    let inside = Path::new("/proc").join(pid.to_string()).join("root");
    let inside = inside.join(path.strip_prefix("/").unwrap_or(&path));
    let exact = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
    open_if_same(&inside, wanted, Voucher::Process)
        .or_else(|| open_if_same(&exact, wanted, Voucher::Process))
        .or_else(|| open_if_same(&path, wanted, Voucher::Nobody))
        .ok_or_else(|| OpenError::Gone { path: mapping.path.to_path_buf() })
}

/// Opens a regular file for reading that somebody else has named. Whatever else is there is left alone, as above: no
/// device is woken, no FIFO waited for.
///
/// # Errors
///
/// The system's; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    reopen(&refer(path)?.0)
}

fn open_if_same(path: &Path, wanted: FileId, voucher: Voucher) -> Option<File> {
    let (reference, stat) = refer(path).ok()?;
    if stat.st_ino != wanted.inode {
        return None;
    }
    let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let is_same_device = device == (wanted.device_major, wanted.device_minor);
    let may_differ = voucher == Voucher::Process && (device.0 == 0 || wanted.device_major == 0);
    if !is_same_device && !may_differ {
        return None;
    }
    reopen(&reference).ok()
}

/// A mere reference to a regular file, and what it is.
fn refer(path: &Path) -> io::Result<(OwnedFd, Stat)> {
    let reference = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&reference)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((reference, stat)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// The file behind a reference, for reading.
fn reopen(reference: &OwnedFd) -> io::Result<File> {
    let again = format!("/proc/self/fd/{}", reference.as_raw_fd());
    Ok(rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (file, fifo, link) = (dir.join("file"), dir.join("fifo"), dir.join("link"));
        std::fs::write(&file, "x").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        let kind = |path: &Path| open_regular(path).map(drop).map_err(|error| error.kind());
        // Whoever opened these to read would wait for somebody who writes.
        let refused = [&fifo, &link, dir, Path::new("/dev/null")].map(kind);
        assert_eq!(kind(&file), Ok(()));
        assert_eq!(kind(&dir.join("none")), Err(io::ErrorKind::NotFound));
        assert_eq!(refused, [Err(io::ErrorKind::InvalidInput); 4]);
    }
}
