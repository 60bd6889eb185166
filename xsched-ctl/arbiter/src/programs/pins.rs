//! The folder in the BPF file system that keeps maps, programs and links while there is no controller.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
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
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(error(cause)),
            _ => {}
        }
        let lock = File::open(folder).map_err(error)?;
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

    /// How many pins have names that begin so.
    pub(super) fn count(&self, prefix: &str) -> usize {
        self.names().filter(|name| name.to_string_lossy().starts_with(prefix)).count()
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

    fn names(&self) -> impl Iterator<Item = std::ffi::OsString> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.file_name()))
    }
}

fn ensure_file_system() -> io::Result<()> {
    if rustix::fs::statfs(FILE_SYSTEM)?.f_type as u64 != FILE_SYSTEM_MAGIC {
        mount(c"bpf", FILE_SYSTEM, c"bpf", MountFlags::empty(), None)?;
    }
    Ok(())
}
