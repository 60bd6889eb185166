//! Catching a HIP runtime at the moment it is loaded.
//!
//! Probes are per file: a copy of the runtime that nobody has loaded before has none. The dynamic loader calls
//! `_dl_debug_state` once new objects are mapped and before their constructors run (debuggers stop there), so that is
//! where a thread is held, for a bounded time, until user space has put the probes in.
//!
//! ```text
//! thread                      programs                      user space
//! openat("…libamdhip64…") ──► OPENED[tgid] = 1
//! map, relocate
//! _dl_debug_state ──────────► HELD[tgid] = now ───────────► attach to the new copy
//!                             spin, at most HOLD_NS  ◄───── delete HELD[tgid]
//! constructors, first call
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Longest time for which a thread is held in its loader. Attaching takes about a tenth of it.
pub const HOLD_NS: u64 = 250_000_000;

/// A file opened with these eight bytes anywhere in its name may be a HIP runtime (`libamdhip64.so.6`).
pub const RUNTIME_NAME_MARK: u64 = u64::from_ne_bytes(*b"libamdhi");

/// Longest file name that is searched for the mark, in bytes.
pub const PATH_LEN_MAX: usize = 256;

/// A process has mapped what may be a HIP runtime and waits in its loader.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LoaderStop {
    /// [`RecordKind::LoaderStop`](crate::RecordKind::LoaderStop).
    pub kind: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Keeps the struct free of padding; zero.
    pub reserved: u32,
    /// When it was stopped.
    pub time_ns: u64,
}

/// Value of the `HELD` map: when the hold began.
pub type Held = u64;

const _: () = assert!(size_of::<LoaderStop>() == 24);
