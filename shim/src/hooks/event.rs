//! Events.

use crate::abi::Hooked;
use crate::api::Id;
use crate::defer;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A record in stream order.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// A query, an elapsed time, the end of an event or its handle for other processes: its record must have been
/// launched.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered_then(call, || {
        match (call.function.id, call.target.copy) {
            (Id::hipIpcGetEventHandle, Some(copy)) => defer::event_shared(copy, call.stopped().size(1)),
            // Before the real call: afterwards the handle may already be another event's.
            (Id::hipEventDestroy, Some(copy)) => defer::event_destroyed(copy, call.stopped().size(0)),
            _ => {}
        }
    })
}

/// An event of another process.
pub(crate) fn observes<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    call.make(defer::event_shared)
}
