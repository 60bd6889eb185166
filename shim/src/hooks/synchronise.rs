//! The host waiting for the device: the work that it waits for must have been launched.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A wait for a stream, an event or the whole device.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
