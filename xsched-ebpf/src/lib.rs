//! Types that the tracer's BPF programs and user space share: records, call chains, unwind rows, counters.
//!
//! Types that the shim shares with both are in `xsched_protocol`.
//!
//! Plain data only: `#[repr(C)]`, sized by assertion, without padding, readable by either side without `unsafe`.
//! Times are nanoseconds of `CLOCK_BOOTTIME`. Process and thread ids are those of the tracer's pid namespace.

#![no_std]

pub mod call;
pub mod chain;
pub mod config;
pub mod counter;
pub mod driver;
pub mod generated;
pub mod loader;
pub mod memo;
pub mod snapshot;
pub mod unwind;

pub use call::{Call, CallKey, Pending, TEXT_LEN_MAX};
pub use chain::{ChainEnd, Code, CodeState, Space, Stack};
pub use config::{Config, EVERY_LAUNCH, Scope};
pub use counter::{Counter, Counters, Filter};
pub use driver::{Device, DeviceOpened, DriverConfig, Ioctl, PendingIoctl};
pub use loader::{LoaderStop, Opened, RUNTIME_NAME_MARKS, Watched};
pub use snapshot::Snapshot;
pub use xsched_protocol::probe::{
    Category, Cookie, PROBES, Param, ParamKind, Pointee, Probe, Runtime, WORD_COUNT, Words,
};

/// Changes whenever a type in this crate changes its layout or meaning.
pub const ABI_VERSION: u32 = 4;

/// First word of every record in the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordKind {
    /// A [`Call`], followed by `text_len` bytes.
    Call = 1,
    /// An [`Opened`].
    Opened = 2,
    /// A [`LoaderStop`].
    LoaderStop = 3,
    /// A [`Stack`], followed by `count` addresses.
    Stack = 4,
    /// A [`Snapshot`], followed by `word_count` words, in a ring buffer of its own.
    Snapshot = 5,
    /// An [`Ioctl`].
    Ioctl = 6,
    /// A [`DeviceOpened`].
    DeviceOpened = 7,
    /// A [`Wanted`](xsched_protocol::verdict::Wanted).
    Wanted = 8,
}
