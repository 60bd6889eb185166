//! Devices and contexts.

use crate::abi::{Hooked, InRegister};
use crate::api::Id;
use crate::defer;
use crate::explicit;
use crate::hip::real;
use crate::hooks::Call;
use crate::outcome::Outcome;
use crate::runtime::copies::RuntimeCopy;

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
    let reset = call.target.copy.and_then(|copy| Some((copy, reset_device(call, copy)?)));
    if let Some((copy, device)) = reset {
        explicit::device_resets(copy, device);
    }
    super::ordered_then(call, || {
        if let Some((copy, device)) = reset {
            // Handles of streams that a reset destroys may come back as other streams.
            defer::device_reset(copy, device);
        }
    })
}

/// The device that a call resets. Streams of others go on.
fn reset_device<S: Hooked>(call: &Call<'_, S>, copy: &RuntimeCopy) -> Option<i32> {
    match call.function.id {
        Id::hipDeviceReset => real::current_device(copy),
        Id::hipDevicePrimaryCtxReset => i32::try_from(call.stopped().int(0)).ok(),
        _ => None,
    }
}
