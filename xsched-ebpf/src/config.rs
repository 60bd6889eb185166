//! What user space tells the programs: whom to watch.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The single element of the `CONFIG` map.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Config {
    /// A [`Scope`].
    pub scope: u32,
    /// Thread group that is never watched: the tracer itself.
    pub own_tgid: u32,
}

/// Whose calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Scope {
    /// Every process.
    Everybody = 0,
    /// The thread groups listed in the `TARGETS` map.
    Listed = 1,
    /// As [`Scope::Listed`]; children of listed processes join the list when they are forked.
    ListedAndChildren = 2,
}

const _: () = assert!(size_of::<Config>() == 8);
