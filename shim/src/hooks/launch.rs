//! Kernel launches.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A kernel on the stream that the call names.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// Launches on several streams at once, and `hipLaunchByPtr`, whose configuration lies in the calling thread: they
/// wait until they may be made.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
