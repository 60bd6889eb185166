//! Devices and contexts.

use crate::abi::Hooked;
use crate::api::Id;
use crate::defer;
use crate::hooks::{Call, Outcome};

/// A reset, or a setting that a kernel has when it starts: earlier work comes first.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let outcome = super::ordered(call);
    let is_reset = matches!(call.function.id, Id::hipDeviceReset | Id::hipDevicePrimaryCtxReset);
    if let (true, Some(copy)) = (is_reset, call.target.instance) {
        // Handles of streams that a reset ends may come back as other streams.
        defer::device_reset(copy);
    }
    outcome
}
