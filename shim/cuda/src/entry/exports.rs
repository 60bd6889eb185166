//! The exported symbols: one for each function of the list, with CUDA's types.
//!
//! Symbols carry no version, as libcuda's do not. A process that is alone on its device goes through three loads and a jump.
//! Under test the symbols stay unexported.
#![cfg_attr(test, expect(non_snake_case, reason = "unexported, they are ordinary functions"))]

use std::ffi::{c_char, c_void};

use crate::api::{
    Address, COUNT, FirstKernelNode, Handle, Id, KernelNode, LaunchConfig, Named, NodeParameters, Pointer,
    Work, all_of, configured, for_each_function, grid, new_function, new_graph, new_kernel, new_parameters,
    own, stream,
};
use crate::driver::{self, Code, NOT_FOUND};
use crate::hooks;

macro_rules! hook {
    (work $name:ident [$stream:expr] [$work:expr] ($($argument:ident),*) $call:expr) => {
        if hooks::is_open() { $call() } else { hooks::work($stream, $work, $call) }
    };
    (waits $name:ident [$stream:expr] [$work:expr] ($($argument:ident),*) $call:expr) => {
        if hooks::is_open() { $call() } else { hooks::waits($stream, $work, $call) }
    };
    (asks $name:ident [$stream:expr] [$work:expr] ($($argument:ident),*) $call:expr) => {
        if hooks::is_open() { $call() } else { hooks::asks($stream, $work, $call) }
    };
    (gives $name:ident [$stream:expr] [$work:expr] ($($argument:ident),*) $call:expr) => {
        hooks::gives($stream, &EXPORTS.0, $call)
    };
    (special $name:ident [$stream:expr] [$work:expr] ($($argument:ident),*) $call:expr) => {
        hooks::special::$name($($argument,)* $call)
    };
    ($class:ident $name:ident [$stream:expr] [$work:expr] ($($argument:ident),*) $call:expr) => {
        hooks::$class($stream, $work, $call)
    };
}

macro_rules! define_exports {
    ($($class:ident { $($name:ident($($argument:ident: $type:ty),*) on $stream:expr, $work:expr;)* })*) => {
        $($(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name($($argument: $type),*) -> Code {
                let Some(real) = driver::real(Id::$name) else { return NOT_FOUND };
                // SAFETY: libcuda's function of this name, with the type that `cuda.h` declares; the arguments are the caller's.
                // What the list reads of them is what the real function reads, too.
                unsafe {
                    let real = std::mem::transmute::<std::ptr::NonNull<c_void>, unsafe extern "C" fn($($type),*) -> Code>(real);
                    let call = || real($($argument),*);
                    hook!($class $name [$stream] [$work] ($($argument),*) call)
                }
            }
        )*)*

        /// The exports' code, in the order of the list.
        pub(super) static EXPORTS: Exports = Exports([$($($name as *const c_void,)*)*]);
    };
}
for_each_function!(define_exports);

/// Addresses of code.
pub(super) struct Exports(pub(super) [*const c_void; COUNT]);

// SAFETY: they are never written through.
unsafe impl Sync for Exports {}
