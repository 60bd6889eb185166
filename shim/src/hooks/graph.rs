//! Graphs that were instantiated. Building one touches no stream.

use crate::abi::Hooked;
use crate::api::Id;
use crate::defer;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A graph's launch or upload on the stream that the call names.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// A new executable graph.
pub(crate) fn observes<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    call.make(|copy, executable| defer::graph_instantiated(copy, executable, call.stopped().size(1)))
}

/// A change to an executable graph, or its end: launches made before must run the graph as it was.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered_then(call, || {
        if let (Id::hipGraphExecDestroy, Some(copy)) = (call.function.id, call.target.copy) {
            // Before the real call: afterwards the handle may already be another graph's.
            defer::graph_destroyed(copy, call.stopped().size(0));
        }
    })
}
