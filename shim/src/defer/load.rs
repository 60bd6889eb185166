//! How much of the device's time a call will take, judged by earlier calls that look alike.

use std::hash::{BuildHasher as _, Hash, Hasher};

use foldhash::fast::FixedState;

use crate::api::{Family, Id};
use crate::runtime::stopped::Stopped;
use xsched_xqueue::{DurationClass, Load};

/// The load of a call that puts work on a stream.
pub(super) fn load(call: &Stopped<'_>) -> Load {
    let mut hasher = FixedState::default().build_hasher();
    (call.id() as usize).hash(&mut hasher);
    match call.function.family {
        // Other work may wait for it, so it must not wait for a free slot on the device.
        Family::host | Family::external => return Load::Wait,
        Family::stream | Family::event => {
            return if waits_for_memory(call.id()) { Load::Wait } else { Load::Signal };
        }
        Family::launch => launch(call, &mut hasher),
        // By its order of magnitude.
        Family::copy | Family::set => bytes(call).checked_ilog2().hash(&mut hasher),
        Family::graph => call.size(0).hash(&mut hasher),
        _ => {}
    }
    Load::Work(DurationClass(hasher.finish()))
}

/// Whether a call lets its stream wait for a word of memory, or may.
fn waits_for_memory(id: Id) -> bool {
    matches!(id, Id::hipStreamWaitValue32 | Id::hipStreamWaitValue64 | Id::hipStreamBatchMemOp)
}

/// Kernel and grid.
fn launch(call: &Stopped<'_>, hasher: &mut impl Hasher) {
    match call.id() {
        Id::hipLaunchKernelExC | Id::hipDrvLaunchKernelEx => call.size(1).hash(hasher),
        // Through the layout's own types: a `dim3` takes two registers.
        Id::hipLaunchKernel
        | Id::hipLaunchKernel_spt
        | Id::hipExtLaunchKernel
        | Id::hipLaunchCooperativeKernel
        | Id::hipLaunchCooperativeKernel_spt => {
            (call.size(0), call.dim3(1)).hash(hasher);
        }
        Id::hipLaunchByPtr => call.size(0).hash(hasher),
        _ => (call.size(0), call.int(1), call.int(2), call.int(3)).hash(hasher),
    }
}

/// Bytes of a copy or fill, if its third argument is their number.
fn bytes(call: &Stopped<'_>) -> usize {
    match call.id() {
        Id::hipMemcpyAsync
        | Id::hipMemcpyAsync_spt
        | Id::hipMemcpy
        | Id::hipMemcpy_spt
        | Id::hipMemcpyHtoD
        | Id::hipMemcpyHtoDAsync
        | Id::hipMemcpyDtoH
        | Id::hipMemcpyDtoHAsync
        | Id::hipMemcpyDtoD
        | Id::hipMemcpyDtoDAsync
        | Id::hipMemset
        | Id::hipMemset_spt
        | Id::hipMemsetAsync
        | Id::hipMemsetAsync_spt => call.size(2),
        _ => 0,
    }
}
