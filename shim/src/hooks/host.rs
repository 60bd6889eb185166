//! Host functions that the runtime calls in stream order, on a thread of its own.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A host function on the stream that the call names.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}
