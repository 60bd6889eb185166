//! The root folders of other processes, held open for a while.
//!
//! A path from a process in a chroot or container leads to its file through `/proc/PID/root` only, which goes with the process.
//! A short process ends before its files are read. So the root of each process that uses a GPU runtime is held, and files of later
//! processes in the same root are found there. It is let go half a minute after its last use: it keeps its file system mounted.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};

use crate::procfs::process_folder;

/// How long a root is held after its last use.
const HELD: Duration = Duration::from_secs(30);

/// Most roots that are held.
const ROOTS_MAX: usize = 64;

struct Root {
    /// The device that it is on, and its inode.
    identity: (u32, u32, u64),
    folder: Arc<OwnedFd>,
    used: Instant,
}

static ROOTS: Mutex<Vec<Root>> = Mutex::new(Vec::new());

/// Holds the root of a process, if it differs from this process's.
pub fn hold_root(pid: u32) {
    let Some((folder, identity)) = root_at(&process_folder(pid).join("root")) else { return };
    if root_at(Path::new("/")).is_none_or(|(_, own)| own == identity) {
        return;
    }
    let mut roots = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    roots.retain(|root| root.identity != identity && root.used.elapsed() < HELD);
    if roots.len() >= ROOTS_MAX {
        // They are in the order of their use.
        roots.remove(0);
    }
    roots.push(Root { identity, folder: Arc::new(folder), used: Instant::now() });
}

/// Whether a process has another root, or other mounts, than this one. False if it has ended.
pub fn has_own_files(pid: u32) -> bool {
    let process = process_folder(pid);
    let differs =
        |name: &str| match (fs::read_link(format!("/proc/self/{name}")), fs::read_link(process.join(name))) {
            (Ok(own), Ok(other)) => own != other,
            _ => false,
        };
    differs("ns/mnt") || differs("root")
}

/// Lets go of roots that were not used for a while.
pub(crate) fn let_go() {
    ROOTS.lock().unwrap_or_else(PoisonError::into_inner).retain(|root| root.used.elapsed() < HELD);
}

/// Paths to the held roots, for as long as what comes with each is kept.
pub(crate) fn held() -> Vec<(PathBuf, Arc<OwnedFd>)> {
    let roots = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let path = |root: &Root| PathBuf::from(format!("/proc/self/fd/{}", root.folder.as_raw_fd()));
    roots.iter().rev().map(|root| (path(root), Arc::clone(&root.folder))).collect()
}

fn root_at(path: &Path) -> Option<(OwnedFd, (u32, u32, u64))> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    // No server is asked.
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let about = statx(&folder, "", how, StatxFlags::INO).ok()?;
    Some((folder, (about.stx_dev_major, about.stx_dev_minor, about.stx_ino)))
}
