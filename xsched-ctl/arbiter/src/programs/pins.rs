//! The folder in the BPF file system that keeps maps, programs and links while there is no controller.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::mount::{MountFlags, mount};

use super::ProgramsError;

/// Where the controller of the machine pins.
pub const PINS: &str = "/sys/fs/bpf/xsched";

/// Where the BPF file system belongs.
const FILE_SYSTEM: &str = "/sys/fs/bpf";

/// `BPF_FS_MAGIC`
const FILE_SYSTEM_MAGIC: u64 = 0xcafe_4a11;

/// The folder, locked.
#[derive(Debug)]
pub(super) struct Pins {
    folder: PathBuf,
    /// The lock goes with it, however this process ends.
    _lock: File,
}

impl Pins {
    /// Makes the folder, and the file system that it is in, and takes it for this process alone.
    pub(super) fn lock(folder: &Path) -> Result<Self, ProgramsError> {
        let error = |cause| ProgramsError::Folder { path: folder.display().to_string(), cause };
        ensure_file_system().map_err(error)?;
        let lock = open_own(folder).map_err(error)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|cause| {
            if cause == rustix::io::Errno::WOULDBLOCK {
                ProgramsError::Occupied(folder.display().to_string())
            } else {
                error(cause.into())
            }
        })?;
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Removes all pins: what nobody else holds goes.
    pub(super) fn clear(&self) {
        for name in self.names() {
            // What cannot be removed is in the way of its successor, who says so.
            let _ = fs::remove_file(self.folder.join(name));
        }
    }

    /// Removes the folder, if it is empty.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir(&self.folder);
    }

    pub(super) fn names(&self) -> impl Iterator<Item = std::ffi::OsString> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.file_name()))
    }
}

/// Opens the folder, which is made if it is not there. Where others may make folders, too, one of theirs gives way: whose a
/// folder is, he may change what is in it, and keep everybody else from locking it.
fn open_own(folder: &Path) -> io::Result<File> {
    let own = rustix::process::geteuid().as_raw();
    if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir() || found.uid() != own) {
        // It does not follow links. For who may not do it, it fails below.
        let _ = fs::remove_dir_all(folder).or_else(|_| fs::remove_file(folder));
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
        _ => {}
    }
    let opened =
        File::from(open(folder, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
    let owner = opened.metadata()?.uid();
    if owner != own {
        let reason = format!("it belongs to user {owner}: remove it");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(opened)
}

fn ensure_file_system() -> io::Result<()> {
    if rustix::fs::statfs(FILE_SYSTEM)?.f_type as u64 != FILE_SYSTEM_MAGIC {
        mount(c"bpf", FILE_SYSTEM, c"bpf", MountFlags::empty(), None)?;
    }
    Ok(())
}
