//! Opens the file that a process has mapped, never another one of the same name.
//!
//! It tries these candidates, in this order:
//!
//! 1. the path as the process sees it, through `/proc/PID/root`: correct in containers;
//! 2. `/proc/PID/map_files/START-END`: correct for deleted files and memfds;
//! 3. the path as this process sees it: it remains when the other process has ended;
//! 4. the path in the roots of processes that are known (`roots.rs`): for ended processes in a chroot.
//!
//! Accesses that may need the answer of a server have a timeout (`timeout.rs`), and an answer that comes later is kept (`late.rs`).
//!
//! Each candidate is opened as a mere reference first (`O_PATH`, which does not activate devices or wait for FIFOs).
//! It is opened for reading only if it is the inode that was mapped.
//!
//! The device number cannot always be compared. On btrfs and overlayfs `stat` reports another device than the kernel's records,
//! an anonymous one (major number 0; <https://docs.kernel.org/filesystems/overlayfs.html#inode-properties>). For the first two
//! candidates, the path is resolved as the mapping process sees it. So an equal inode number is enough if one of the devices is
//! anonymous. For the others, device and inode must both be equal. Not supported: overlays over several file systems without
//! `xino`, for which `stat` reports other inode numbers, too; their files count as gone.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;

use crate::elf::are_symbols_being_read;
use crate::late::{LateFiles, Life, Uses};
use crate::mapping::{FileId, Mapping};
use crate::procfs::{self, process_folder};
use crate::roots;
use crate::timeout::{self, Answer, PathSpace, ask};

/// Why the file of a mapping could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum OpenError {
    #[error("no file is mapped there")]
    NoFile,
    /// It may answer later: ask again.
    #[error("the file system of {} does not answer", path.display())]
    Silent {
        /// The path as the process saw it.
        path: PathBuf,
    },
    #[error("{} is gone or replaced", path.display())]
    Gone {
        /// The path as the process saw it.
        path: PathBuf,
    },
    /// Only through `/proc/PID/map_files`, which takes another capability than inspecting the process.
    #[error("{} is gone, replaced or in memory, and CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE is needed to open it", path.display())]
    Forbidden {
        /// The path as the process saw it.
        path: PathBuf,
    },
}

/// How long a caller waits for a file system that may need the answer of a server. It may ask again later: the answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Half a second: it does nothing else meanwhile.
    Long,
    /// Some milliseconds: other work waits.
    Short,
}

impl Patience {
    fn duration(self) -> Duration {
        match self {
            Self::Long => timeout::PATIENCE,
            Self::Short => Duration::from_millis(20),
        }
    }
}

/// The process in whose view a path is resolved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResolvedBy {
    MappingProcess,
    ThisProcess,
}

/// A path at which a file may be.
#[derive(Clone, Debug)]
struct Candidate {
    /// A folder, or a link to one that the kernel follows without access to a file system.
    folder: PathBuf,
    /// The path relative to the folder.
    path: PathBuf,
    /// How to follow links: absolute links of a container begin at its root, not at this process's.
    links: ResolveFlags,
}

/// The file that is wanted.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    Same(FileId, ResolvedBy),
}

/// Mapped files that are opened late, by what the kernel says of them. The error says whether it takes a capability.
static LATE_MAPPED: LateFiles<(FileId, PathBuf), bool> = LateFiles::new(Uses::Any);

/// Files that are opened late by a path, which begins at a folder. If that is a process's, when the process started.
static LATE_REGULAR: LateFiles<(PathBuf, u64, PathBuf), io::Error> = LateFiles::new(Uses::One);

/// How long names wait for a file that is opened late.
const NAMES_PATIENCE: Duration = Duration::from_secs(5);

/// Whether mapped files are being opened, or symbols of files are being read, for which names may wait. Without any, no name is
/// [`Unanswered`](crate::NameError::Unanswered).
pub fn are_files_opening() -> bool {
    LATE_MAPPED.are_opening(NAMES_PATIENCE) || are_symbols_being_read()
}

/// Closes files that were opened late and are not used any more.
pub(crate) fn let_go() {
    LATE_MAPPED.let_go();
    LATE_REGULAR.let_go();
}

/// Opens the file that `pid` has mapped, for reading. The process may have ended.
///
/// A probe can be attached to exactly this file through `/proc/self/fd/N`, even if its path now leads to another file.
///
/// # Errors
///
/// [`OpenError::Silent`] if its file system has not answered yet: a caller that asks again gets the answer when it has come.
pub fn open_mapped(pid: u32, mapping: &Mapping, patience: Patience) -> Result<File, OpenError> {
    let wanted = mapping.file.ok_or(OpenError::NoFile)?;
    let path = mapping.raw_path().into_owned();
    let opened = LATE_MAPPED.get(
        (wanted, path.clone()),
        || life(pid),
        || ask_mapped(pid, mapping, wanted, &path, patience),
    );
    let path = mapping.path.to_path_buf();
    match opened {
        Some(Ok(file)) => Ok(file),
        Some(Err(true)) => Err(OpenError::Forbidden { path }),
        Some(Err(false)) => Err(OpenError::Gone { path }),
        None => Err(OpenError::Silent { path }),
    }
}

fn ask_mapped(
    pid: u32,
    mapping: &Mapping,
    wanted: FileId,
    path: &Path,
    patience: Patience,
) -> Answer<Result<File, bool>> {
    let process = process_folder(pid);
    let inside = Candidate::below(process.join("root"), path);
    let exact = format!("{:x}-{:x}", mapping.start, mapping.end);
    let exact = Candidate::below(process.join("map_files"), Path::new(&exact));
    let here = Candidate::below("/".into(), path);
    let by_process = Wanted::Same(wanted, ResolvedBy::MappingProcess);
    if let Some(Ok(file)) = inside.open_at_once(by_process) {
        return Answer::InTime(Ok(file));
    }
    let by_this = Wanted::Same(wanted, ResolvedBy::ThisProcess);
    let mut candidates = vec![(inside, by_process), (exact, by_process), (here, by_this)];
    let roots = roots::held();
    candidates.extend(roots.iter().map(|(root, _)| (Candidate::in_root(root.clone(), path), by_this)));
    let space = PathSpace::Device(wanted.device_major, wanted.device_minor);
    ask(space, folder_of(path), patience.duration(), move || {
        // Its paths name descriptors.
        let _roots = roots;
        let mut is_forbidden = false;
        let opened = candidates.iter().find_map(|(candidate, file)| {
            let opened = candidate.open(*file);
            is_forbidden |= matches!(&opened, Err(error) if error.kind() == io::ErrorKind::PermissionDenied);
            opened.ok()
        });
        opened.ok_or(is_forbidden)
    })
}

/// Opens a regular file for reading, by a path from another process that begins at `folder`. Does not activate devices or
/// wait for FIFOs, like [`open_mapped`].
///
/// # Errors
///
/// The system's; [`io::ErrorKind::InvalidInput`] if it is not a regular file; [`io::ErrorKind::TimedOut`] if its file system
/// has not answered yet: a caller that asks again gets the answer when it has come.
pub fn open_regular(folder: &Path, path: &Path, patience: Patience) -> io::Result<File> {
    let key = (folder.to_owned(), start_of(folder), path.to_owned());
    let opened = LATE_REGULAR.get(
        key,
        || (0, 0),
        || {
            let candidate = Candidate::below(folder.to_owned(), path);
            if let Some(opened) = candidate.open_at_once(Wanted::Any) {
                return Answer::InTime(opened);
            }
            let seen = if path.is_absolute() { path.to_owned() } else { folder.join(path) };
            ask(space_of(folder), folder_of(&seen), patience.duration(), move || candidate.open(Wanted::Any))
        },
    );
    opened.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::TimedOut, "its file system does not answer")))
}

/// When the process to which a folder of `/proc` belongs has started: another process may have its id later. Zero for other
/// folders and for processes that have ended.
fn start_of(folder: &Path) -> u64 {
    let number = folder.strip_prefix("/proc").ok().and_then(|below| below.iter().next()?.to_str());
    number.and_then(|number| number.parse().ok()).map_or(0, |pid| life(pid).1)
}

/// A process and when it started; zero if it has ended.
fn life(pid: u32) -> Life {
    (pid, procfs::stat(pid).map_or(0, |stat| stat.started_ns))
}

/// The space of paths that begin at a folder: `/proc/PID/root` and `/proc/PID/cwd` belong to that process's mount namespace.
fn space_of(folder: &Path) -> PathSpace {
    use std::os::unix::fs::MetadataExt as _;

    let process = folder.parent().filter(|process| process.starts_with("/proc"));
    let mounts = process.and_then(|process| process.join("ns/mnt").metadata().ok());
    mounts.map_or(PathSpace::Own, |mounts| PathSpace::Mounts(mounts.ino()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

impl Candidate {
    /// A path relative to a folder. An absolute path begins at the folder, too.
    fn below(folder: PathBuf, path: &Path) -> Self {
        let is_others_root = folder.starts_with("/proc") && folder.ends_with("root");
        let links = if is_others_root { ResolveFlags::IN_ROOT } else { ResolveFlags::empty() };
        Self { folder, path: path.strip_prefix("/").unwrap_or(path).to_owned(), links }
    }

    /// A path of a process whose root this is.
    fn in_root(root: PathBuf, path: &Path) -> Self {
        Self { links: ResolveFlags::IN_ROOT, ..Self::below(root, path) }
    }

    fn open(&self, wanted: Wanted) -> io::Result<File> {
        let folder = self.open_folder()?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let reference = match openat2(&folder, &self.path, flags, Mode::empty(), self.links) {
            // A seccomp filter or an old kernel may refuse openat2.
            Err(Errno::NOSYS | Errno::PERM) => openat(&folder, &self.path, flags, Mode::empty())?,
            opened => opened?,
        };
        reopen(&reference, wanted)
    }

    fn open_folder(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.folder, flags, Mode::empty())
    }

    /// Like [`Self::open`], but only if no server can delay it: the kernel has the path in its cache, and the file is on a
    /// disk. None otherwise.
    fn open_at_once(&self, wanted: Wanted) -> Option<io::Result<File>> {
        let folder = self.open_folder().ok()?;
        let (flags, links) = (OFlags::PATH | OFlags::CLOEXEC, self.links | ResolveFlags::CACHED);
        // RESOLVE_CACHED, since Linux 5.12: <https://man7.org/linux/man-pages/man2/openat2.2.html>.
        let reference = match openat2(&folder, &self.path, flags, Mode::empty(), links) {
            Ok(reference) => reference,
            Err(error @ Errno::NOENT) => return Some(Err(error.into())),
            Err(_) => return None,
        };
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let about = statx(&reference, "", how, StatxFlags::TYPE).ok()?;
        // Devices of network file systems and of FUSE have major number 0. So do some others, which would answer.
        (about.stx_dev_major != 0).then(|| reopen(&reference, wanted))
    }
}

/// Opens the file of a reference for reading, if it is regular and the wanted one.
fn reopen(reference: &OwnedFd, wanted: Wanted) -> io::Result<File> {
    let stat = rustix::fs::fstat(reference)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if let Wanted::Same(file, resolved_by) = wanted
        && !is_same(&stat, file, resolved_by)
    {
        return Err(io::ErrorKind::NotFound.into());
    }
    let again = format!("/proc/self/fd/{}", reference.as_raw_fd());
    // The holder of a lease (`F_SETLEASE`) delays other opens of the file for up to 45 s, unless they use O_NONBLOCK:
    // <https://man7.org/linux/man-pages/man2/F_GETLEASE.2const.html>.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(again, flags, Mode::empty())?.into())
}

fn is_same(stat: &Stat, wanted: FileId, resolved_by: ResolvedBy) -> bool {
    let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let is_same_device = device == (wanted.device_major, wanted.device_minor);
    let may_differ = resolved_by == ResolvedBy::MappingProcess && (device.0 == 0 || wanted.device_major == 0);
    stat.st_ino == wanted.inode && (is_same_device || may_differ)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (file, fifo, link) = (dir.join("file"), dir.join("fifo"), dir.join("link"));
        std::fs::write(&file, "x").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        let root = Path::new("/");
        let kind =
            |path: &Path| open_regular(root, path, Patience::Long).map(drop).map_err(|error| error.kind());
        // Opening a FIFO for reading would wait for a writer.
        let refused = [&fifo, &link, dir, Path::new("/dev/null")].map(kind);
        assert_eq!(kind(&file), Ok(()));
        assert_eq!(kind(&dir.join("none")), Err(io::ErrorKind::NotFound));
        assert_eq!(refused, [Err(io::ErrorKind::InvalidInput); 4]);
    }

    #[test]
    fn a_process_is_another_one_with_the_same_id() {
        let own = process_folder(std::process::id()).join("root");
        let start = start_of(&own);
        assert!(start > 0, "it runs");
        assert_eq!(start_of(&own), start);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let of_child = start_of(&process_folder(child.id()).join("root"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(of_child >= start, "{of_child} {start}");
        assert_eq!(start_of(&process_folder(child.id()).join("root")), 0, "it has ended");
        assert_eq!((start_of(Path::new("/")), start_of(Path::new("/proc/sys"))), (0, 0));
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
        let opened = ["/mnt/link/lib", "/mnt/rocm/lib", "/mnt/none"].map(|path| {
            open_regular(&root, Path::new(path), Patience::Long).map(drop).map_err(|error| error.kind())
        });
        drop(container.stdin.take());
        container.wait().unwrap();
        assert!(is_there, "the script ended early");
        assert_eq!(opened, [Ok(()), Ok(()), Err(io::ErrorKind::NotFound)]);
    }

    #[test]
    fn an_open_does_not_wait_for_a_lease() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = "import fcntl, os, signal, sys; signal.signal(signal.SIGIO, signal.SIG_IGN); \
                      file = os.open(sys.argv[1], os.O_RDONLY); fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK); \
                      print(flush=True); sys.stdin.read()";
        // An open descriptor of this process would prevent the lease.
        let path = file.into_temp_path();
        let mut holder = Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        let has_lease = holder.stdout.take().unwrap().read_exact(&mut line).is_ok();
        let began = Instant::now();
        let opened =
            open_regular(Path::new("/"), &path, Patience::Long).map(drop).map_err(|error| error.kind());
        let took = began.elapsed();
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert!(has_lease, "the kernel leases no files in the folder of temporary files");
        assert_eq!(opened, Err(io::ErrorKind::WouldBlock));
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}
