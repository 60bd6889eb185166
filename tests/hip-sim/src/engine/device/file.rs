//! The file behind a shared device, and when its contents are valid.
//!
//! Every process that has the device open holds a shared lock on the file. The kernel drops the lock when the
//! process dies.
//!
//! ```text
//! absent ----------- exclusive lock got ----------------> zeroed, initialised -- shared lock --> in use
//! left by a crash -- exclusive lock got: not in use ----> zeroed, initialised -- shared lock --> in use
//! in use, our layout -------- shared lock only -------------------------------------------> in use
//! in use, another layout ---- shared lock only -- unlinked; its users keep it, we restart at `absent`
//! ```
//!
//! The last process to leave deletes the file. If that process is killed, no process can. So a process that
//! opens any device also deletes this user's unused files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FlockOperation, flock};

use super::region::Region;

/// Why a file cannot serve as a device.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("cannot use {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} belongs to user {owner}: name a device with a path to share it between users")]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{path} is replaced again and again")]
    Restless { path: PathBuf },
}

/// A mapped region; the file's lock lives as long.
pub(super) struct Mapping {
    memory: MmapRaw,
    /// Holds the shared lock; none for a device private to this process.
    file: Option<(PathBuf, File)>,
}

/// The processes that may use a named device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// This user only.
    User,
    /// Any process that may open the file.
    AnyUser,
}

/// Attempts to open a changing file: another process may be replacing it at the same time.
const ATTEMPTS: usize = 100;

impl Mapping {
    /// Private memory of this process.
    pub(super) fn private(capacity: [u64; 2]) -> Self {
        let memory = MmapOptions::new().len(size_of::<Region>()).no_reserve_swap().map_anon();
        let memory = memory.expect("a process without 3 MB of address space cannot be simulated on").into();
        let mapping = Self { memory, file: None };
        mapping.region().initialize(capacity);
        mapping
    }

    /// A file that other processes may already have mapped.
    pub(super) fn shared(path: &Path, access: Access, capacity: [u64; 2]) -> Result<Self, FileError> {
        let failed = |source| FileError::Io { path: path.to_owned(), source };
        for _ in 0..ATTEMPTS {
            let file = open(path, access).map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            if access == Access::User && metadata.uid() != rustix::process::geteuid().as_raw() {
                return Err(FileError::Foreign { path: path.to_owned(), owner: metadata.uid() });
            }
            if let Some(mapping) = Self::locked(path, file, capacity).map_err(failed)? {
                return Ok(mapping);
            }
        }
        Err(FileError::Restless { path: path.to_owned() })
    }

    /// None if the file was replaced meanwhile, or must be.
    fn locked(path: &Path, file: File, capacity: [u64; 2]) -> io::Result<Option<Self>> {
        let is_unused = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_unused {
            file.set_len(0)?; // discards the contents that a crash or an older layout left
            file.set_len(size_of::<Region>() as u64)?;
            let memory = MmapOptions::new().map_raw(&file)?;
            Self { memory, file: None }.region().initialize(capacity);
        }
        // Between the two locks another process may have had the file exclusively; it left the file as valid
        // as this one.
        flock(&file, FlockOperation::LockShared)?;
        if !is_at(path, &file)? {
            return Ok(None);
        }
        if file.metadata()?.len() == size_of::<Region>() as u64 {
            let memory = MmapOptions::new().map_raw(&file)?;
            let mapping = Self { memory, file: Some((path.to_owned(), file)) };
            if mapping.region().is_valid() {
                return Ok(Some(mapping));
            }
        }
        fs::remove_file(path)?;
        Ok(None)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn region(&self) -> &Region {
        debug_assert_eq!(self.memory.len(), size_of::<Region>());
        let region = self.memory.as_ptr().cast::<core::ffi::c_void>().cast::<Region>();
        // SAFETY: mapped with this size for as long as `self`, page-aligned, and made of atomics, for which every value
        // that another process may write is valid. The shared lock keeps others from shortening the file.
        unsafe { &*region }
    }

    /// Deletes the file if no other process has it open.
    pub(super) fn tidy_up(&self) {
        if let Some((path, file)) = &self.file {
            delete_if_unused(path, file);
        }
    }
}

/// Deletes this user's files in a folder that begin with a prefix and that no process has open.
pub(super) fn delete_left_behind(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let user = rustix::process::geteuid().as_raw();
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_named =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
        if !is_named {
            continue;
        }
        let Ok(file) = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path)
        else {
            continue;
        };
        if file.metadata().is_ok_and(|metadata| metadata.uid() == user && metadata.is_file()) {
            // A process that has opened the file and waits for the lock finds it deleted, and retries.
            delete_if_unused(&path, &file);
        }
    }
}

/// Takes the exclusive lock, which fails while another process uses the device.
fn delete_if_unused(path: &Path, file: &File) {
    if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(path, file).unwrap_or(false) {
        let _ = fs::remove_file(path); // on failure the next user replaces the file
    }
}

/// Tries without `O_CREAT` first: in a sticky folder the kernel may refuse it for another user's file
/// ([fs.protected_regular](https://docs.kernel.org/admin-guide/sysctl/fs.html)).
fn open(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    let mode = if access == Access::User { 0o600 } else { 0o666 };
    match options.create_new(true).mode(mode).open(path) {
        Ok(file) => {
            file.set_permissions(fs::Permissions::from_mode(mode))?; // restores the bits that the umask removed
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.create_new(false).open(path),
        Err(error) => Err(error),
    }
}

/// Whether a path still refers to an open file.
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hip-sim-test-{}-{name}", std::process::id()))
    }

    #[test]
    fn contents_left_by_a_crash_or_an_older_layout_are_replaced() {
        for (name, left) in [("short", vec![1_u8; 10]), ("old", vec![0x55; size_of::<Region>()])] {
            let path = path(name);
            fs::write(&path, left).unwrap();
            let mapping = Mapping::shared(&path, Access::User, [3, 1]).unwrap();
            assert_eq!(mapping.region().capacity(), [3, 1]);
            mapping.tidy_up();
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_file_of_another_layout_stays_with_its_users() {
        let path = path("in-use");
        fs::write(&path, b"an older layout").unwrap();
        let user = File::open(&path).unwrap();
        flock(&user, FlockOperation::LockShared).unwrap();
        let mapping = Mapping::shared(&path, Access::User, [3, 1]).unwrap();
        assert_ne!(user.metadata().unwrap().ino(), fs::metadata(&path).unwrap().ino());
        mapping.tidy_up();
    }

    #[test]
    fn the_second_process_finds_the_firsts_device_and_the_last_deletes_it() {
        let path = path("two");
        let first = Mapping::shared(&path, Access::User, [3, 1]).unwrap();
        let second = Mapping::shared(&path, Access::User, [9, 9]).unwrap();
        assert_eq!(second.region().capacity(), [3, 1]);
        second.tidy_up();
        assert!(path.exists(), "it is still in use");
        drop(second);
        first.tidy_up();
        assert!(!path.exists());
    }

    #[test]
    fn files_left_behind_are_deleted_and_those_in_use_are_not() {
        let folder = path("folder");
        fs::create_dir(&folder).unwrap();
        let [left, used, other] = ["dev-left.0", "dev-used.0", "other"].map(|name| folder.join(name));
        let mapping = Mapping::shared(&used, Access::User, [3, 1]).unwrap();
        for path in [&left, &other] {
            fs::write(path, b"a crash").unwrap();
        }
        delete_left_behind(&folder, "dev-");
        assert_eq!([&left, &used, &other].map(|path| path.exists()), [false, true, true]);
        mapping.tidy_up();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[ignore = "needs root"]
    fn another_users_file_is_refused() {
        let path = path("foreign");
        fs::write(&path, []).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let error = Mapping::shared(&path, Access::User, [3, 1]).err().unwrap();
        assert!(matches!(error, FileError::Foreign { owner: 65534, .. }), "{error}");
        Mapping::shared(&path, Access::AnyUser, [3, 1]).unwrap().tidy_up();
        assert!(!path.exists());
    }
}
