//! Which calls can be made later, and what they must own for that.
//!
//! A call is deferred only if the runtime is certain to take it. Doubtful calls wait in place and get their answer
//! from the runtime: a kernel with unknown arguments, a block that is too large, memory that HIP does not know. So do
//! calls that the list calls deferrable and this module does not know yet.

mod batch;
mod boxes;
mod configured;
mod copies;
mod launch;
mod signal;

use crate::api::{Family, Id};
use crate::counters;
use crate::defer::deferral::deferral;
use crate::defer::dependencies::{EventKey, EventUse};
use crate::hip::owned::{Certain, OwnedCall, Owner};
use crate::hip::real;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::Stopped;

/// The events that a call records and waits for, and memory that it frees.
pub(super) fn events(call: &Stopped<'_>, copy: &RuntimeCopy) -> Vec<EventUse> {
    let event = |argument| Some((copy.index(), call.size(argument))).filter(|&(_, event)| event != 0);
    let record = |argument| event(argument).map(EventUse::Record);
    let stop = |argument| record(argument).filter(|_| !is_planted(Bug::LostStop));
    match call.id() {
        Id::hipEventRecord | Id::hipEventRecord_spt | Id::hipEventRecordWithFlags => {
            record(0).into_iter().collect()
        }
        Id::hipStreamWaitEvent | Id::hipStreamWaitEvent_spt => {
            event(1).map(EventUse::Wait).into_iter().collect()
        }
        Id::hipFreeAsync => event(0).map(EventUse::Free).into_iter().collect(),
        Id::hipExtLaunchKernel => [record(6), stop(7)].into_iter().flatten().collect(),
        Id::hipExtModuleLaunchKernel
        | Id::hipHccModuleLaunchKernel
        | Id::_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
        | Id::_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_ => {
            [record(11), stop(12)].into_iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// The event that marks the end of a launch, if it has one.
pub(super) fn stop_event(call: &Stopped<'_>) -> Option<u64> {
    let argument = match call.id() {
        Id::hipExtLaunchKernel => 7,
        Id::hipExtModuleLaunchKernel
        | Id::hipHccModuleLaunchKernel
        | Id::_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
        | Id::_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_ => 12,
        _ => return None,
    };
    Some(call.word(argument)).filter(|&event| event != 0)
}

/// The call with everything that it needs, if it can be made later.
///
/// `device` is the calling thread's, `uses` what [`events`] returns.
pub(super) fn own(
    call: &Stopped<'_>,
    copy: &RuntimeCopy,
    device: i32,
    uses: &[EventUse],
) -> Option<OwnedCall> {
    owned_by(call, copy, device, uses)
}

/// Whether the runtime is certain to take the call, so that it could also be made later.
pub(super) fn is_certain(call: &Stopped<'_>, copy: &RuntimeCopy, device: i32, uses: &[EventUse]) -> bool {
    owned_by::<Certain>(call, copy, device, uses).is_some()
}

fn owned_by<O: Owner>(call: &Stopped<'_>, copy: &RuntimeCopy, device: i32, uses: &[EventUse]) -> Option<O> {
    let mut events = uses.iter().filter_map(|used| used.event());
    events.all(|event| is_private(event) && is_alive(copy, event)).then_some(())?;
    match call.function.family {
        Family::launch => launch::own(call, copy, device),
        Family::copy if batch::is_batch(call.id()) => batch::own(call, copy),
        Family::copy => boxes::own(call, copy).or_else(|| copies::own(call, copy)),
        Family::set | Family::memory => copies::own(call, copy),
        _ if call.id() == Id::hipStreamBatchMemOp => batch::own(call, copy),
        _ => signal::own(call, copy),
    }
}

/// Whether an event is known to exist. Asked once for each, until any is destroyed.
fn is_alive(copy: &RuntimeCopy, event: EventKey) -> bool {
    let ended = counters::calls(Id::hipEventDestroy as usize);
    if deferral().dependencies().is_alive(event, ended) {
        return true;
    }
    let is_event = real::is_event(copy, event.1) == Some(true);
    if is_event {
        deferral().dependencies().exists(event, ended);
    }
    is_event
}

/// Other processes look at shared events, and see only records that have reached the runtime.
fn is_private(event: EventKey) -> bool {
    !deferral().dependencies().is_shared(event)
}
