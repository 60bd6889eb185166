//! The folder in the BPF file system that keeps maps, programs and links while no controller is running.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock, open};
use rustix::mount::{MountFlags, mount};

use super::error::ProgramsError;

/// The folder of the machine's controller.
pub const PINS: &str = "/sys/fs/bpf/xsched";

/// The mount point of the BPF file system.
const FILE_SYSTEM: &str = "/sys/fs/bpf";

/// `BPF_FS_MAGIC` of <https://github.com/torvalds/linux/blob/v6.12/include/uapi/linux/magic.h>.
const FILE_SYSTEM_MAGIC: u64 = 0xcafe_4a11;

/// The folder, locked.
#[derive(Debug)]
pub(super) struct Pins {
    folder: PathBuf,
    /// Holds the lock, which ends with this process.
    _lock: File,
}

impl Pins {
    /// Creates the folder, and mounts its file system, if necessary; then locks the folder for this process.
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

    /// Removes all pins. Objects without other references are freed.
    pub(super) fn clear(&self) {
        for name in self.names() {
            // If a pin cannot be removed, creating its successor fails and reports that.
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

/// Opens the folder, and creates it if it does not exist. If other users may create folders there, a folder of another user
/// is removed first: its owner could change its contents, and keep others from locking it.
fn open_own(folder: &Path) -> io::Result<File> {
    let own = rustix::process::geteuid().as_raw();
    if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir() || found.uid() != own) {
        // This does not follow links. Without the permission to remove it, the check below fails.
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

/// Whether this process may keep pins.
pub(super) fn check() -> Result<(), ProgramsError> {
    access(FILE_SYSTEM, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|cause| ProgramsError::Folder { path: FILE_SYSTEM.to_owned(), cause: cause.into() })
}

fn ensure_file_system() -> io::Result<()> {
    if rustix::fs::statfs(FILE_SYSTEM)?.f_type as u64 != FILE_SYSTEM_MAGIC {
        mount(c"bpf", FILE_SYSTEM, c"bpf", MountFlags::empty(), None)?;
    }
    Ok(())
}
