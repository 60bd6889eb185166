//! Textures and surfaces: a kernel reads their state when it starts.

use crate::abi::Hooked;
use crate::hooks::Call;
use crate::outcome::Outcome;

/// A binding, an attribute or the end of a texture: earlier launches come first.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
