//! Namespaces: the pid namespace that this process is in, and whether another sees other files.
//!
//! Process ids mean something in one pid namespace only, so programs, side-band and `/proc` must all speak of the same.
//!
//! In a container the programs ask the kernel for ids of the container's namespace, the side-band reports in that of
//! whoever opened it, and `/proc` shows the namespace of its mount. Processes of other namespaces, of containers inside
//! this one too, have no ids here and are not recorded.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// A pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidNamespace {
    /// The machine's own.
    Initial,
    /// A container's.
    Nested {
        /// Device of the file system that namespaces are files of, as the kernel encodes it.
        device: u64,
        /// Its number there.
        inode: u64,
    },
}

impl PidNamespace {
    /// That of this process.
    pub fn own() -> io::Result<Self> {
        /// Inode of the initial pid namespace, fixed in the kernel (`PROC_PID_INIT_INO`).
        const INITIAL: u64 = 0xEFFF_FFFC;
        /// Bits of the minor number in the kernel's own encoding of a device (`MINORBITS`).
        const MINOR_BITS: u32 = 20;

        let namespace = fs::metadata("/proc/self/ns/pid")?;
        if namespace.ino() == INITIAL {
            return Ok(Self::Initial);
        }
        let (major, minor) = (rustix::fs::major(namespace.dev()), rustix::fs::minor(namespace.dev()));
        let device = u64::from(major) << MINOR_BITS | u64::from(minor);
        Ok(Self::Nested { device, inode: namespace.ino() })
    }

    /// Device and inode for the programs; zeroes for the initial one.
    pub fn for_programs(self) -> (u64, u64) {
        match self {
            Self::Initial => (0, 0),
            Self::Nested { device, inode } => (device, inode),
        }
    }
}

/// Whether this process is in the initial user namespace, for which the kernel asks when it asks for capabilities.
pub fn user_is_initial() -> bool {
    /// Inode of the initial user namespace, fixed in the kernel (`PROC_USER_INIT_INO`).
    const INITIAL: u64 = 0xEFFF_FFFD;

    // A kernel without user namespaces has no such file.
    fs::metadata("/proc/self/ns/user").map_or(true, |namespace| namespace.ino() == INITIAL)
}

/// Whether `/proc` shows this process under its own id, and so all others of its namespace under theirs.
pub fn proc_is_own() -> bool {
    fs::read_link("/proc/self").is_ok_and(|name| name.as_os_str() == std::process::id().to_string().as_str())
}

/// Whether a process sees other file systems than this one. False if it has ended.
pub fn has_own_mounts(pid: u32) -> bool {
    match (fs::read_link("/proc/self/ns/mnt"), fs::read_link(format!("/proc/{pid}/ns/mnt"))) {
        (Ok(own), Ok(other)) => own != other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_zeroes_for_the_initial_namespace_only() {
        assert_eq!(PidNamespace::Initial.for_programs(), (0, 0));
        assert_eq!(PidNamespace::Nested { device: 4, inode: 9 }.for_programs(), (4, 9));
        assert!(PidNamespace::own().is_ok() && proc_is_own());
    }
}
