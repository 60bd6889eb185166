//! Memory.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// Memory freed, prefetched or mapped in stream order.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// Memory taken away that earlier work may use, or allocated in stream order, which must return an address now.
/// `hipFree` synchronises all streams of the device anyway.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
