//! Devices and contexts.

use crate::abi::{Hooked, InRegister};
use crate::api::Id;
use crate::defer;
use crate::ground::outcome::Outcome;
use crate::hooks::Call;

/// The calling thread has set a device, which it will use.
pub(crate) fn observes<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let result = call.real();
    if let (Some(copy), 0) = (call.target.copy, result.into_word()) {
        let ordinal = (call.function.id == Id::hipSetDevice).then(|| call.stopped().int(0));
        defer::device_set(copy, ordinal);
    }
    Outcome::Done(result)
}

/// A reset, or a setting that a kernel has when it starts: earlier work comes first.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    super::ordered_then(call, || {
        let is_reset = matches!(call.function.id, Id::hipDeviceReset | Id::hipDevicePrimaryCtxReset);
        if let (true, Some(copy)) = (is_reset, call.target.copy) {
            // Handles of streams that a reset destroys may come back as other streams.
            defer::device_reset(copy);
        }
    })
}
