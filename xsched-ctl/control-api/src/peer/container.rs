//! Containers that processes run in.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// A container: processes in a pid namespace of their own. Its root may be root in the kernel's credentials of a
/// connection too, but has no privileges outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container(
    /// The inode number of its pid namespace; 0 if unknown.
    pub(super) u64,
);

impl Container {
    /// A container that cannot be told from others.
    pub(super) const UNKNOWN: Self = Self(0);

    /// The container of a process, by its id in this process's pid namespace. None if it is in this namespace.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // `NSpid` lists its ids from the namespace of `/proc` to its own. A single id means that it is in this one.
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        if ids.is_some_and(|ids| ids.split_whitespace().count() == 1) {
            return None;
        }
        let namespace = fs::metadata(format!("/proc/{pid}/ns/pid"));
        Some(namespace.map_or(Self::UNKNOWN, |namespace| Self(namespace.ino())))
    }
}
