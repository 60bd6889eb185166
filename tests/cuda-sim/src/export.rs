//! How a function is defined, once: its export, its per-thread variant, and its entry for `cuGetProcAddress`.

use core::ffi::c_void;

use crate::result::{CUresult, Handle};

/// One exported function as `cuGetProcAddress` knows it.
pub(crate) struct Export {
    /// The exported name, such as `cuMemAlloc_v2` or `cuLaunchKernel_ptsz`.
    pub(crate) name: &'static str,
    /// First version of CUDA that has it: 11020 for 11.2.
    pub(crate) since: i32,
    pub(crate) address: *const c_void,
}

// SAFETY: the address of a function, which any thread may have.
unsafe impl Sync for Export {}

/// This thread's default stream, where the per-thread variant of a function got the null stream.
pub(crate) fn or_per_thread(stream: Handle) -> Handle {
    if stream.is_null() { core::ptr::without_provenance_mut(2) } else { stream }
}

/// What every export relies on, also one that does nothing unsafe itself.
///
/// # Safety
///
/// The arguments of the export are what CUDA's documentation requires.
pub(crate) unsafe fn as_documented() {}

/// The code of a function's result.
pub(crate) fn code(result: Result<(), CUresult>) -> CUresult {
    result.err().unwrap_or(0)
}

/// Defines functions, and `EXPORTS`, their list. `@12000 name(arguments) { body }` has been there since CUDA 12.0; with
/// `[stream: variant]` there is a second one in which a null `stream` means the calling thread's default stream.
macro_rules! exports {
    ($(@$since:literal $([$stream:ident: $variant:ident])? $name:ident $arguments:tt $body:block)*) => {
        $(
            $crate::export::export!($name $arguments $body);
            $($crate::export::per_thread_variant!($variant $name $stream $arguments);)?
        )*

        /// The functions of this module.
        pub(crate) static EXPORTS: &[$crate::export::Export] = &[$(
            $crate::export::Export { name: stringify!($name), since: $since, address: $name as *const core::ffi::c_void },
            $($crate::export::Export {
                name: stringify!($variant), since: $since, address: $variant as *const core::ffi::c_void
            },)?
        )*];
    };
}

macro_rules! export {
    ($name:ident ($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $crate::result::CUresult {
            let body = || -> Result<(), $crate::result::CUresult> {
                // SAFETY: arguments are what CUDA's documentation requires of the caller, and handles are looked up by the
                // simulated runtime, not followed.
                unsafe {
                    $crate::export::as_documented();
                    $body
                }
            };
            $crate::export::code(body())
        }
    };
}

macro_rules! per_thread_variant {
    ($variant:ident $name:ident $stream:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $variant($($argument: $type),*) -> $crate::result::CUresult {
            let $stream = $crate::export::or_per_thread($stream);
            // SAFETY: the caller upholds the same contract.
            unsafe { $name($($argument),*) }
        }
    };
}
pub(crate) use {export, exports, per_thread_variant};
