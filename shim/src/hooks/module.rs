//! Modules, kernel attributes, and functions by name.

use std::ffi::{CStr, c_char, c_void};
use std::mem;
use std::ptr::{self, NonNull};

use crate::abi::{Hooked, InRegister};
use crate::api::Id;
use crate::hip::real::taken;
use crate::hooks::Call;
use crate::outcome::Outcome;
use crate::runtime::by_name;
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::Stopped;
use crate::{kernels, verdict};

/// Modules and libraries loaded, and functions found in them or in the runtime itself.
pub(crate) fn observes<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let result = call.real();
    if let Some(copy) = call.target.copy
        && result.into_word() == 0
    {
        // SAFETY: the runtime has accepted the arguments, so they are valid.
        unsafe { note(copy, &call.stopped()) };
    }
    Outcome::Done(result)
}

/// # Safety
/// The call must have succeeded.
unsafe fn note(runtime: &RuntimeCopy, call: &Stopped<'_>) {
    let copy = runtime.index();
    // SAFETY: the runtime has written its answer to the arguments of these functions, and has read the strings and
    // images, by the caller's promise.
    unsafe {
        let handle = || *(call.word(0) as *const usize);
        let text = |argument| CStr::from_ptr(call.word(argument) as *const c_char);
        match call.id() {
            Id::hipModuleLoad | Id::hipLibraryLoadFromFile => {
                kernels::module_loaded_from_file(copy, handle(), text(1));
            }
            Id::hipGetProcAddress
            | Id::hipGetProcAddress_spt
            | Id::hipGetDriverEntryPoint
            | Id::hipGetDriverEntryPoint_spt => by_name::replace_answer(call.word(1) as *mut *mut c_void),
            Id::hipModuleGetFunction | Id::hipLibraryGetKernel => {
                kernels::function_found(copy, call.size(1), handle(), text(2));
            }
            Id::hipLibraryEnumerateKernels => note_all(runtime, call),
            Id::hipGetFuncBySymbol => kernels::function_of_handle(copy, handle(), call.size(1)),
            Id::hipKernelGetFunction => kernels::function_of_kernel(copy, handle(), call.size(1)),
            // The others load from memory.
            _ => kernels::module_loaded(copy, handle(), call.word(1) as *const u8),
        }
    }
}

/// Notes the kernels that a library has enumerated, which have no names in this call.
///
/// # Safety
/// The call must have succeeded.
unsafe fn note_all(runtime: &RuntimeCopy, call: &Stopped<'_>) {
    type GetName = unsafe extern "C" fn(*mut *const c_char, usize) -> u32;
    type GetCount = unsafe extern "C" fn(*mut u32, usize) -> u32;
    let original = |id| runtime.original(id);
    let (Some(get_name), Some(get_count)) =
        (original(Id::hipKernelGetName), original(Id::hipLibraryGetKernelCount))
    else {
        return;
    };
    let (library, mut count) = (call.size(2), 0);
    // SAFETY: HIP's signatures of these functions, handles being words, and a variable for the answer.
    let get_name = unsafe {
        let get_count = mem::transmute::<NonNull<c_void>, GetCount>(get_count);
        taken(runtime, || get_count(&raw mut count, library));
        mem::transmute::<NonNull<c_void>, GetName>(get_name)
    };
    for index in 0..count.min(call.int(1)) as usize {
        let mut name = ptr::null();
        // SAFETY: the runtime has filled so much of the array; names live as long as the library.
        unsafe {
            let kernel = (call.word(0) as *const usize).add(index).read();
            if taken(runtime, || get_name(&raw mut name, kernel)) && !name.is_null() {
                kernels::function_found(runtime.index(), library, kernel, CStr::from_ptr(name));
            }
        }
    }
}

/// Code unloaded, or an attribute changed that a kernel has when it starts: earlier launches come first.
pub(crate) fn drains<S: Hooked>(call: &Call<'_, S>) -> Outcome<S::Ret> {
    let outcome = super::ordered(call);
    if let (Id::hipModuleUnload | Id::hipLibraryUnload, Some(copy)) = (call.function.id, call.target.copy) {
        kernels::module_unloaded(copy.index(), call.stopped().size(0));
        verdict::forget_kernels();
    }
    outcome
}
