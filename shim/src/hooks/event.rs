//! Events.

use crate::abi::Hooked;
use crate::ground::counters::Work;
use crate::ground::outcome::Outcome;
use crate::hooks::Call;

/// A record in stream order.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(Work::Event, call)
}

/// A query, an elapsed time, the end of an event or its handle for other processes: its record must have been
/// launched.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
