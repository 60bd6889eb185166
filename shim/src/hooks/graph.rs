//! Graphs that were instantiated. Building one touches no stream.

use crate::abi::Hooked;
use crate::ground::counters::Work;
use crate::ground::outcome::Outcome;
use crate::hooks::Call;

/// A graph's launch or upload on the stream that the call names.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(Work::Graph, call)
}

/// A change to an executable graph, or its end: launches made before must run the graph as it was.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
