//! Registration by compiled code.

use crate::abi::Signature;
use crate::hooks::{Call, Outcome};
use crate::runtime;

/// A fat binary is taken back: its kernels must have been forwarded. The process exits, or the caller's
/// library is being unloaded.
pub(crate) fn drains<S: Signature>(call: &Call<S>) -> Outcome<S::Ret> {
    runtime::forget_library_at(call.return_address);
    super::ordered(call)
}
