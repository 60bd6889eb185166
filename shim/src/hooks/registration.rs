//! Registration by compiled code.

use crate::abi::{InRegister, Signature};
use crate::hooks::{Call, Outcome};
use crate::runtime;

/// Fat binaries and kernels as they come in.
pub(crate) fn observes<S: Signature<Ret: InRegister>>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    Outcome::Done(call.real())
}

/// A fat binary is taken back: its kernels must have been forwarded. The process exits, or the caller's
/// library is being unloaded.
pub(crate) fn drains<S: Signature>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    runtime::forget_library_at(call.frame.return_address as usize);
    super::ordered(call)
}
