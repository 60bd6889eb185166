//! Events, values in memory, host functions and graphs.

use crate::api::Id;
use crate::hip::owned::Owner;
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::Stopped;

pub(super) fn own<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy) -> Option<O> {
    match call.id() {
        Id::hipStreamWriteValue32 | Id::hipStreamWaitValue32 => value(call, copy, 4)?,
        Id::hipStreamWriteValue64 | Id::hipStreamWaitValue64 => value(call, copy, 8)?,
        _ if is_complete(call) => {}
        _ => return None,
    }
    O::of(call, 0)
}

/// Whether a call has all that the runtime requires, and no flags that change what it does.
fn is_complete(call: &Stopped<'_>) -> bool {
    match call.id() {
        Id::hipEventRecord | Id::hipEventRecord_spt | Id::hipGraphUpload => call.size(0) != 0,
        Id::hipEventRecordWithFlags => call.size(0) != 0 && call.int(2) == 0,
        Id::hipStreamWaitEvent | Id::hipStreamWaitEvent_spt => call.size(1) != 0 && call.int(2) == 0,
        Id::hipLaunchHostFunc | Id::hipLaunchHostFunc_spt => call.size(1) != 0,
        Id::hipStreamAddCallback | Id::hipStreamAddCallback_spt => call.size(1) != 0 && call.int(3) == 0,
        Id::hipGraphLaunch | Id::hipGraphLaunch_spt => true,
        _ => false,
    }
}

/// Checks a write to a word of this size, or a wait for it: no flags change what it does.
fn value(call: &Stopped<'_>, copy: &RuntimeCopy, bytes: usize) -> Option<()> {
    is_word(copy, call.size(1), bytes)?;
    let is_wait = matches!(call.id(), Id::hipStreamWaitValue32 | Id::hipStreamWaitValue64);
    let flags_max = if is_wait { 3 } else { 0 };
    (call.int(3) <= flags_max).then_some(())
}

/// Whether there is a word of this size in memory that the runtime knows.
pub(super) fn is_word(copy: &RuntimeCopy, address: usize, bytes: usize) -> Option<()> {
    let fits = |range: &real::Range| range.bytes_left >= bytes && address.is_multiple_of(bytes);
    real::memory(copy, address).filter(fits).map(drop)
}
