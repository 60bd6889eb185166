//! Opens the file that a process has mapped, never another one of the same name.
//!
//! Three ways, in this order:
//!
//! 1. the path as the process sees it, through `/proc/PID/root`: right in containers;
//! 2. `/proc/PID/map_files/START-END`: right for deleted files and memfds;
//! 3. the path as this process sees it: all that is left when the other has ended.
//!
//! What may take the answer of a server is asked with patience (`patience.rs`).
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

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;

use crate::mapping::{FileId, Mapping};
use crate::patience::{Space, patiently};

/// Why the file of a mapping could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The mapping shows no file.
    #[error("no file is mapped there")]
    NoFile,
    /// Its file system does not answer.
    #[error("the file system of {} does not answer", path.display())]
    Silent {
        /// The path as the process saw it.
        path: PathBuf,
    },
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

/// A place where a file may be.
#[derive(Clone, Debug)]
struct Place {
    /// A folder, or a link to one that the kernel follows without asking anybody.
    folder: PathBuf,
    /// From there.
    path: PathBuf,
    /// How to follow links: those of a container begin at its root, not at this process's.
    links: ResolveFlags,
}

/// Which file is wanted.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    Same(FileId, Voucher),
}

/// Opens the file that `pid` has mapped, for reading. The process may have ended.
///
/// A probe can be attached to this very file through `/proc/self/fd/N`, whatever its path means by now.
pub fn open_mapped(pid: u32, mapping: &Mapping) -> Result<File, OpenError> {
    let wanted = mapping.file.ok_or(OpenError::NoFile)?;
    let path = mapping.raw_path().into_owned();
    let process = Path::new("/proc").join(pid.to_string());
    let inside = Place::below(process.join("root"), &path);
    let exact = format!("{:x}-{:x}", mapping.start, mapping.end);
    let exact = Place::below(process.join("map_files"), Path::new(&exact));
    let here = Place::below("/".into(), &path);
    let by_process = Wanted::Same(wanted, Voucher::Process);
    if let Some(Ok(file)) = inside.open_at_once(by_process) {
        return Ok(file);
    }
    let ways = [(inside, by_process), (exact, by_process), (here, Wanted::Same(wanted, Voucher::Nobody))];
    let space = Space::Device(wanted.device_major, wanted.device_minor);
    let found =
        patiently(space, folder_of(&path), move || ways.iter().find_map(|(way, file)| way.open(*file).ok()));
    match found {
        Some(Some(file)) => Ok(file),
        Some(None) => Err(OpenError::Gone { path: mapping.path.to_path_buf() }),
        None => Err(OpenError::Silent { path: mapping.path.to_path_buf() }),
    }
}

/// Opens a regular file for reading that somebody else has named, by a path that begins at `folder`. Whatever else is there is
/// left alone, as above: no device is woken, no FIFO waited for.
///
/// # Errors
///
/// The system's; [`io::ErrorKind::InvalidInput`] for what is no regular file; [`io::ErrorKind::TimedOut`] if its file
/// system does not answer.
pub fn open_regular(folder: &Path, path: &Path) -> io::Result<File> {
    let place = Place::below(folder.to_owned(), path);
    if let Some(opened) = place.open_at_once(Wanted::Any) {
        return opened;
    }
    let seen = if path.is_absolute() { path.to_owned() } else { folder.join(path) };
    let silent = || io::Error::new(io::ErrorKind::TimedOut, "its file system does not answer");
    patiently(space_of(folder), folder_of(&seen), move || place.open(Wanted::Any))
        .unwrap_or_else(|| Err(silent()))
}

/// Where paths that begin at a folder mean one and the same: `/proc/PID/root` and `/proc/PID/cwd` are a process's.
fn space_of(folder: &Path) -> Space {
    use std::os::unix::fs::MetadataExt as _;

    let process = folder.parent().filter(|process| process.starts_with("/proc"));
    let mounts = process.and_then(|process| process.join("ns/mnt").metadata().ok());
    mounts.map_or(Space::Own, |mounts| Space::Mounts(mounts.ino()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

impl Place {
    /// A path that begins at a folder, or at a root.
    fn below(folder: PathBuf, path: &Path) -> Self {
        let is_others_root = folder.starts_with("/proc") && folder.ends_with("root");
        let links = if is_others_root { ResolveFlags::IN_ROOT } else { ResolveFlags::empty() };
        Self { folder, path: path.strip_prefix("/").unwrap_or(path).to_owned(), links }
    }

    /// Opens what is there, if it is what is wanted.
    fn open(&self, wanted: Wanted) -> io::Result<File> {
        let folder = self.open_folder()?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let reference = match openat2(&folder, &self.path, flags, Mode::empty(), self.links) {
            // What confines this process may not know it.
            Err(Errno::NOSYS | Errno::PERM) => openat(&folder, &self.path, flags, Mode::empty())?,
            opened => opened?,
        };
        reopen(&reference, wanted)
    }

    fn open_folder(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.folder, flags, Mode::empty())
    }

    /// The same if nobody has to be asked for it: the kernel remembers the way, and the file is on a disk. None if somebody may.
    fn open_at_once(&self, wanted: Wanted) -> Option<io::Result<File>> {
        let folder = self.open_folder().ok()?;
        let (flags, links) = (OFlags::PATH | OFlags::CLOEXEC, self.links | ResolveFlags::CACHED);
        // Since Linux 5.12.
        let reference = match openat2(&folder, &self.path, flags, Mode::empty(), links) {
            Ok(reference) => reference,
            Err(error @ Errno::NOENT) => return Some(Err(error.into())),
            Err(_) => return None,
        };
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let about = statx(&reference, "", how, StatxFlags::TYPE).ok()?;
        // Those of networks, and of programs, have no major number; nor have some that would answer.
        (about.stx_dev_major != 0).then(|| reopen(&reference, wanted))
    }
}

/// The file behind a mere reference, for reading, if it is a regular one that is wanted.
fn reopen(reference: &OwnedFd, wanted: Wanted) -> io::Result<File> {
    let stat = rustix::fs::fstat(reference)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if let Wanted::Same(file, voucher) = wanted
        && !is_same(&stat, file, voucher)
    {
        return Err(io::ErrorKind::NotFound.into());
    }
    let again = format!("/proc/self/fd/{}", reference.as_raw_fd());
    // Whoever has a lease on his file (`F_SETLEASE`) keeps others that open it waiting for 45 s, unless they say so.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(again, flags, Mode::empty())?.into())
}

fn is_same(stat: &Stat, wanted: FileId, voucher: Voucher) -> bool {
    let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let is_same_device = device == (wanted.device_major, wanted.device_minor);
    let may_differ = voucher == Voucher::Process && (device.0 == 0 || wanted.device_major == 0);
    stat.st_ino == wanted.inode && (is_same_device || may_differ)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn nothing_but_a_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (file, fifo, link) = (dir.join("file"), dir.join("fifo"), dir.join("link"));
        std::fs::write(&file, "x").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        let root = Path::new("/");
        let kind = |path: &Path| open_regular(root, path).map(drop).map_err(|error| error.kind());
        // Whoever opened these to read would wait for somebody who writes.
        let refused = [&fifo, &link, dir, Path::new("/dev/null")].map(kind);
        assert_eq!(kind(&file), Ok(()));
        assert_eq!(kind(&dir.join("none")), Err(io::ErrorKind::NotFound));
        assert_eq!(refused, [Err(io::ErrorKind::InvalidInput); 4]);
    }

    #[test]
    #[ignore = "needs namespaces"]
    fn links_of_a_container_lead_to_its_own_files() {
        let script = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/rocm && echo x > /mnt/rocm/lib && ln -s /mnt/rocm /mnt/link && \
            echo && read end";
        let mut container = Command::new("unshare")
            .args(["--mount", "bash", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let is_there = container.stdout.take().unwrap().read_exact(&mut [0]).is_ok();
        let root = PathBuf::from(format!("/proc/{}/root", container.id()));
        let opened = ["/mnt/link/lib", "/mnt/rocm/lib", "/mnt/none"]
            .map(|path| open_regular(&root, Path::new(path)).map(drop).map_err(|error| error.kind()));
        drop(container.stdin.take());
        container.wait().unwrap();
        assert!(is_there, "the script ended early");
        assert_eq!(opened, [Ok(()), Ok(()), Err(io::ErrorKind::NotFound)]);
    }

    #[test]
    fn who_has_a_lease_on_his_file_is_not_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = "import fcntl, os, signal, sys; signal.signal(signal.SIGIO, signal.SIG_IGN); \
                      file = os.open(sys.argv[1], os.O_RDONLY); fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK); \
                      print(flush=True); sys.stdin.read()";
        // Another open file of this process's would be in its way.
        let path = file.into_temp_path();
        let mut holder = Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        let has_lease = holder.stdout.take().unwrap().read_exact(&mut said).is_ok();
        let began = Instant::now();
        let opened = open_regular(Path::new("/"), &path).map(drop).map_err(|error| error.kind());
        let took = began.elapsed();
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert!(has_lease, "the kernel leases no files in the folder of temporary files");
        assert_eq!(opened, Err(io::ErrorKind::WouldBlock));
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}
