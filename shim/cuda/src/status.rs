//! What other processes may read of the shim: `xsched-ctl doctor --pid` finds it by its symbol.
//!
//! The layout is that of [`xsched_protocol::shim_status::CudaStatus`]; here its fields are atomic.

use std::sync::atomic::{AtomicU32, Ordering};

use xsched_preload::gates::PublishedGates;
use xsched_protocol::shim_status::{CUDA_STATUS_MAGIC, CUDA_STATUS_VERSION, CudaStatus, ShimState};

/// [`CudaStatus`] of this process.
#[repr(C)]
pub(crate) struct Status {
    magic: [u8; 8],
    version: u32,
    /// A [`ShimState`].
    pub(crate) state: AtomicU32,
    /// A [`ShimScheduling`](xsched_protocol::shim_status::ShimScheduling).
    pub(crate) scheduling: AtomicU32,
    /// A [`ShimVerdicts`](xsched_protocol::shim_status::ShimVerdicts).
    pub(crate) verdicts: AtomicU32,
    /// Instances of MIG.
    pub(crate) instances: AtomicU32,
    /// Contexts.
    pub(crate) contexts: PublishedGates,
}

const _: () = assert!(size_of::<Status>() == size_of::<CudaStatus>());

/// This process's status.
#[cfg_attr(test, expect(non_upper_case_globals, reason = "unexported, it is an ordinary static"))]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) static xsched_cuda_status: Status = Status {
    magic: CUDA_STATUS_MAGIC,
    version: CUDA_STATUS_VERSION,
    state: AtomicU32::new(ShimState::Idle as u32),
    scheduling: AtomicU32::new(0),
    verdicts: AtomicU32::new(0),
    instances: AtomicU32::new(0),
    contexts: PublishedGates::new(),
};

/// The process has called CUDA, or the shim is switched off.
pub(crate) fn publish(state: ShimState) {
    xsched_cuda_status.state.store(state as u32, Ordering::Relaxed);
}

/// In a forked child, which has no contexts and no controller.
pub(crate) fn renew_after_fork() {
    publish(ShimState::Idle);
    xsched_cuda_status.scheduling.store(0, Ordering::Relaxed);
    xsched_cuda_status.verdicts.store(0, Ordering::Relaxed);
    xsched_cuda_status.instances.store(0, Ordering::Relaxed);
    xsched_cuda_status.contexts.clear();
}
