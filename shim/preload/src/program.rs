//! Which file this process executes.

use std::ffi::OsString;
use std::fs::read_link;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// What the kernel appends to the path of an executable that was deleted.
const DELETED_MARK: &[u8] = b" (deleted)";

/// The file that this process executes. After an upgrade of its package, a program keeps the path that it was started from.
pub fn path() -> Option<PathBuf> {
    // `/proc/self` is the main thread, which may have ended.
    let mut path = read_link("/proc/thread-self/exe").ok()?.into_os_string().into_vec();
    if path.ends_with(DELETED_MARK) {
        path.truncate(path.len() - DELETED_MARK.len());
    }
    Some(OsString::from_vec(path).into())
}
