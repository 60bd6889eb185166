//! Copies.
//!
//! The synchronous ones return when the data has arrived, except from device to device. Asynchronous ones may still
//! read pageable host memory after they returned, or wait for it. So a copy can be deferred only if its host memory
//! is known to be pinned.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A copy on the stream that the call names.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// A copy that the host waits for, or that returns more than an error: earlier work comes first.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
