//! Namespaces: the pid namespace of this process, and whether another process sees other files.
//!
//! Process ids are valid in one pid namespace only, so programs, side-band and `/proc` must all use the same.
//!
//! In a container the programs ask the kernel for ids of the container's namespace. The side-band reports ids in the
//! namespace of the process that opened it, and `/proc` shows the namespace of its mount. Processes of other
//! namespaces, including those of containers inside this one, have no ids here and are not recorded.

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
        /// Device of the namespace file system, in the kernel's encoding.
        device: u64,
        /// Its inode number there.
        inode: u64,
    },
}

impl PidNamespace {
    /// The namespace of this process.
    pub fn own() -> io::Result<Self> {
        /// Inode of the initial pid namespace, fixed in the kernel
        /// ([`PROC_PID_INIT_INO`](https://github.com/torvalds/linux/blob/v6.12/include/linux/proc_ns.h)).
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

    /// Device and inode for the programs; zeros for the initial namespace.
    pub fn for_programs(self) -> (u64, u64) {
        match self {
            Self::Initial => (0, 0),
            Self::Nested { device, inode } => (device, inode),
        }
    }
}

/// Whether this process is in the initial user namespace, in which the kernel checks capabilities.
pub fn user_is_initial() -> bool {
    /// Inode of the initial user namespace, fixed in the kernel
    /// ([`PROC_USER_INIT_INO`](https://github.com/torvalds/linux/blob/v6.12/include/linux/proc_ns.h)).
    const INITIAL: u64 = 0xEFFF_FFFD;

    // On a kernel without user namespaces this file does not exist.
    fs::metadata("/proc/self/ns/user").map_or(true, |namespace| namespace.ino() == INITIAL)
}

/// Whether `/proc` shows this process under its own id, and therefore all others of its namespace too.
pub fn proc_is_own() -> bool {
    fs::read_link("/proc/self").is_ok_and(|name| name.as_os_str() == std::process::id().to_string().as_str())
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
