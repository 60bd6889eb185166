//! What other processes may read of the shim: `xsched-ctl doctor --pid` finds it by its symbol.
//!
//! The layout is that of [`xsched_protocol::shim_status`]; here its fields are atomic.

use std::sync::atomic::{AtomicU32, AtomicU64};

use xsched_preload::gates::PublishedGates;
use xsched_protocol::shim_status::{
    SHIM_COPY_COUNT, SHIM_STATUS_MAGIC, SHIM_STATUS_VERSION, ShimCopy, ShimState, ShimStatus,
};

/// [`ShimStatus`] of this process.
#[repr(C)]
pub(crate) struct Status {
    magic: [u8; 8],
    version: u32,
    /// A [`ShimState`].
    pub(crate) state: AtomicU32,
    pub(crate) copies: [CopyStatus; SHIM_COPY_COUNT],
    /// A [`ShimVerdicts`](xsched_protocol::shim_status::ShimVerdicts).
    pub(crate) verdicts: AtomicU32,
    /// A [`ShimScheduling`](xsched_protocol::shim_status::ShimScheduling).
    pub(crate) scheduling: AtomicU32,
    /// Not 0: a call site had no place.
    pub(crate) sites_full: AtomicU32,
    /// Devices, for each runtime copy.
    pub(crate) gates: PublishedGates,
}

/// [`ShimCopy`] of one copy.
#[repr(C)]
pub(crate) struct CopyStatus {
    pub(crate) base: AtomicU64,
    pub(crate) ways: [AtomicU32; 2],
    pub(crate) entries: AtomicU32,
    pub(crate) newer_entries: AtomicU32,
}

const _: () = assert!(size_of::<Status>() == size_of::<ShimStatus>());
const _: () = assert!(size_of::<CopyStatus>() == size_of::<ShimCopy>());

/// This process's status.
#[unsafe(no_mangle)]
pub(crate) static xsched_shim_status: Status = Status {
    magic: SHIM_STATUS_MAGIC,
    version: SHIM_STATUS_VERSION,
    state: AtomicU32::new(ShimState::Idle as u32),
    copies: [const {
        CopyStatus {
            base: AtomicU64::new(0),
            ways: [const { AtomicU32::new(0) }; 2],
            entries: AtomicU32::new(0),
            newer_entries: AtomicU32::new(0),
        }
    }; SHIM_COPY_COUNT],
    verdicts: AtomicU32::new(0),
    scheduling: AtomicU32::new(0),
    sites_full: AtomicU32::new(0),
    gates: PublishedGates::new(),
};
