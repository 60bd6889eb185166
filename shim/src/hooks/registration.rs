//! Registration by compiled code.

use crate::abi::{Hooked, InRegister};
use crate::api::Id;
use crate::hooks::Call;
use crate::outcome::Outcome;
use crate::{defer, kernels, runtime, verdict};

/// Fat binaries and kernels that are being registered.
pub(crate) fn observes<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let result = call.real();
    if let Some(copy) = call.target.copy {
        let given = call.stopped();
        match call.function.id {
            Id::__hipRegisterFatBinary => {
                defer::exit::kernels_registered();
                kernels::fat_binary_registered(copy.index(), result.into_word() as usize, given.size(0));
            }
            Id::__hipRegisterFunction => {
                // SAFETY: compiled code gives the kernel's name as a C string.
                unsafe {
                    kernels::kernel_registered(
                        copy.index(),
                        given.size(0),
                        given.size(1),
                        given.word(3) as *const i8,
                    );
                }
            }
            _ => {}
        }
    }
    Outcome::Done(result)
}

/// A fat binary is unregistered: its kernels must have been launched. The process exits, or the caller's library is
/// being unloaded.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let outcome = super::ordered(call);
    let copy = call.target.copy;
    let wrapper =
        copy.and_then(|copy| kernels::fat_binary_unregistered(copy.index(), call.stopped().size(0)));
    // The wrapper lies in the library's own data, wherever the call comes from.
    if runtime::forget_library_at(wrapper.unwrap_or(call.frame.return_address as usize)) {
        verdict::invalidate();
    }
    outcome
}
