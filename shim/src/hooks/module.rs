//! Modules, kernel attributes, and functions by name.

use std::ffi::{CStr, c_char, c_void};

use crate::abi::{Hooked, InRegister};
use crate::api::Id;
use crate::defer::Stopped;
use crate::hooks::{Call, Outcome};
use crate::instances::Instance;
use crate::{kernels, lookup};

/// Modules loaded, and functions found in them or in the runtime itself.
pub(crate) fn observes<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let result = call.real();
    if let Some(copy) = call.target.instance
        && result.into_word() == 0
    {
        // SAFETY: the runtime has taken the arguments, so they are what it asks for.
        unsafe { note(copy, &call.stopped()) };
    }
    Outcome::Done(result)
}

/// # Safety
/// The call must have succeeded.
unsafe fn note(copy: &Instance, call: &Stopped<'_>) {
    let copy = copy.index();
    // SAFETY: the runtime has put its answer where these functions want it, and has read the strings and images, by the
    // caller's promise.
    unsafe {
        let handle = || *(call.word(0) as *const usize);
        let text = |argument| CStr::from_ptr(call.word(argument) as *const c_char);
        match call.id() {
            Id::hipModuleLoad => kernels::module_loaded_from_file(copy, handle(), text(1)),
            Id::hipGetProcAddress
            | Id::hipGetProcAddress_spt
            | Id::hipGetDriverEntryPoint
            | Id::hipGetDriverEntryPoint_spt => lookup::replace_answer(call.word(1) as *mut *mut c_void),
            Id::hipModuleGetFunction => kernels::function_found(copy, call.size(1), handle(), text(2)),
            // The others load from memory.
            _ => kernels::module_loaded(copy, handle(), call.word(1) as *const u8),
        }
    }
}

/// Code unloaded, or an attribute changed that a kernel has when it starts: earlier launches come first.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let outcome = super::ordered(call);
    if let (Id::hipModuleUnload, Some(copy)) = (call.function.id, call.target.instance) {
        kernels::module_unloaded(copy.index(), call.stopped().size(0));
    }
    outcome
}
