//! Detects a GPU runtime while it is being loaded.
//!
//! Probes are per file: a runtime copy that was never loaded before has none. So opening a file that may be a runtime is reported
//! at once, and user space probes it while the process maps and relocates it. A command that the tracer itself has started is
//! also stopped until the probes are attached. The dynamic loader calls `_dl_debug_state` once new objects are mapped and before
//! their constructors run, and debuggers stop there, too
//! (<https://sourceware.org/git/?p=glibc.git;a=blob;f=elf/dl-debug.c;hb=refs/tags/glibc-2.36>).
//!
//! ```text
//! thread                      programs                      user space
//! openat("…libamdhip64…") ──► Opened ─────────────────────► attach to the file, KNOWN[path] = 1
//! map, relocate
//! _dl_debug_state ──────────► still not KNOWN: SIGSTOP,
//!                             LoaderStop ─────────────────► attach to what is mapped now, SIGCONT
//! constructors, first call
//! ```
//!
//! A path that is opened for writing is removed from `KNOWN`.
//!
//! A parent that waits for stopped children sees the stop. Shells with job control do so, and they put each job into a process group
//! of its own. So a process that has left the tracer's process group is not stopped ([`Watched`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A file opened with one of these anywhere in its name may be a GPU runtime (`libamdhip64.so.6`, `libcuda.so.1`).
pub const RUNTIME_NAME_MARKS: [u64; 2] = [u64::from_ne_bytes(*b"libamdhi"), u64::from_ne_bytes(*b"libcuda.")];

/// Longest file name that is checked, in bytes, with its terminator.
pub const PATH_LEN_MAX: usize = 256;

/// Value of the `TARGETS` map: how a listed process is watched. Children inherit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Watched {
    /// Its calls are recorded.
    Recorded = 1,
    /// As [`Recorded`](Self::Recorded), and it may be stopped in its loader.
    Stoppable = 2,
}

/// A process opens a file that may be a GPU runtime. The file need not exist.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Opened {
    /// [`RecordKind::Opened`](crate::RecordKind::Opened).
    pub kind: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// When.
    pub time_ns: u64,
    /// Key of the path in the `KNOWN` map: [`path_hash`].
    pub hash: u64,
    /// The name as the process passed it, NUL-terminated; relative to its working directory unless it begins with `/`.
    pub path: [u8; PATH_LEN_MAX],
}

/// A process has mapped a file that may be a GPU runtime, and is stopped in its loader.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LoaderStop {
    /// [`RecordKind::LoaderStop`](crate::RecordKind::LoaderStop).
    pub kind: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// When.
    pub time_ns: u64,
}

/// Initial value of FNV-1a: the hash of the empty path.
pub const HASH_EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, extended by one byte.
#[inline]
pub const fn hash_byte(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Key of a path in the `KNOWN` map.
pub const fn path_hash(path: &[u8]) -> u64 {
    let mut hash = HASH_EMPTY;
    let mut index = 0;
    while index < path.len() {
        hash = hash_byte(hash, path[index]);
        index += 1;
    }
    hash
}

const _: () = assert!(size_of::<Opened>() == 24 + PATH_LEN_MAX);
const _: () = assert!(size_of::<LoaderStop>() == 16);
