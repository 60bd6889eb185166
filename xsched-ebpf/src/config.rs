//! The programs' configuration: which processes they watch.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The only element of the `CONFIG` map.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Config {
    /// A [`Scope`].
    pub scope: u32,
    /// Thread group that is never watched: the tracer itself.
    pub own_tgid: u32,
    /// Calls that took less are left out, unless they name kernels; zero leaves out none.
    pub min_duration_ns: u64,
    /// Launches are recorded with this probability, in units of 2^-32; [`EVERY_LAUNCH`] records all of them.
    pub launch_share: u64,
    /// Device of the tracer's pid namespace, as the kernel encodes it.
    pub pid_namespace_device: u64,
    /// Inode of the tracer's pid namespace; 0 for the initial one. Ids are those of this namespace, and processes of
    /// other namespaces are not watched.
    pub pid_namespace_inode: u64,
    /// Maximum number of frames in a call chain; 0: the immediate caller only.
    pub depth: u32,
    /// Keeps the size a multiple of eight; zero.
    pub reserved: u32,
}

/// [`Config::launch_share`] of a recording without sampling.
pub const EVERY_LAUNCH: u64 = 1 << 32;

/// The processes whose calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Scope {
    /// Every process.
    Everybody = 0,
    /// The thread groups listed in the `TARGETS` map.
    Listed = 1,
    /// As [`Scope::Listed`]; children of listed processes join the list when they are forked.
    ListedAndChildren = 2,
    /// Every process; user space selects. For children in a pid namespace, whose ids the programs do not know at birth.
    Selected = 3,
}

const _: () = assert!(size_of::<Config>() == 48);
