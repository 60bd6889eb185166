//! Devices and contexts.

use crate::abi::Hooked;
use crate::hooks::{Call, Outcome};

/// A reset, or a setting that a kernel has when it starts: earlier work comes first.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
