//! Memory and semaphores shared with other APIs.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A signal to a semaphore, or a wait for one, in stream order.
pub(crate) fn deferrable<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::submitted(call)
}

/// Resources mapped, unmapped or given back: earlier work may use them.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
