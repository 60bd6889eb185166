//! Fills of device memory.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A fill on the stream that the call names.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// A fill that the host may wait for. The runtime returns at once on device memory, but not on host memory, and the
/// call does not show which it is.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
