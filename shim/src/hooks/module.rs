//! Modules and kernel attributes.

use crate::abi::Signature;
use crate::hooks::{Call, Outcome};

/// Code unloaded, or an attribute changed that a kernel has when it starts: earlier launches come first.
pub(crate) fn drains<S: Signature>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered(call)
}
