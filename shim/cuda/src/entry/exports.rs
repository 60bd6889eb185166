//! The exported symbols: one for each function of the list, with CUDA's types.
//!
//! Symbols carry no version, as libcuda's do not. A process that is alone on its device goes through four loads and a jump. Functions of
//! which the list has the name only have code that knows no arguments. Those that put work on streams have an announcing function, by
//! which tracers see deferred calls: `xsched_protocol::deferred`.
//! Under test the symbols stay unexported.
#![cfg_attr(test, expect(non_snake_case, reason = "unexported, they are ordinary functions"))]

use std::arch::naked_asm;
use std::ffi::{c_char, c_void};

use xsched_preload::added_calls::announced;

use crate::api::{
    Address, COUNT, DeviceCopy, Element, FirstKernelNode, Handle, Id, KernelNode, LaunchConfig, Named,
    NodeParameters, Pointer, Work, all_of, configured, cooperative, fill, for_each_function, launch_of,
    new_function, new_graph, new_kernel, new_parameters, own, plain, setting, stream,
};
use crate::driver::{self, Code, NOT_FOUND};
use crate::entry::caller::{self, note_caller};
use crate::hooks;
use crate::rules::CallSite;

macro_rules! hook {
    (work $name:ident [$stream:expr] [$work:expr] ($($argument:ident),*) $call:expr) => {
        if hooks::is_open() {
            $call()
        } else {
            let announce = || {
                announcing::$name($($argument),*);
            };
            let site = CallSite { registers: caller::of_call(), id: Id::$name as usize };
            hooks::work($stream, &$work, site, $call, &announce)
        }
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

/// The announcing function of an export that puts work on a stream.
macro_rules! announcing {
    (work $name:ident($($argument:ident: $type:ty),*)) => {
        #[cfg_attr(not(test), unsafe(export_name = concat!("xsched_deferred_", stringify!($name))))]
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            naked_asm!("jmp {announced}", announced = sym announced)
        }
    };
    ($class:ident $name:ident($($argument:ident: $type:ty),*)) => {};
}

/// The code of an export behind what notes its caller.
macro_rules! body {
    ($class:ident $name:ident($($argument:ident: $type:ty),*) [$stream:expr] [$work:expr]) => {{
        let Some(real) = driver::real(Id::$name) else { return NOT_FOUND };
        // SAFETY: libcuda's function of this name, with the type that `cuda.h` declares; the arguments are the caller's.
        // What the list reads of them is what the real function reads, too.
        unsafe {
            let real = std::mem::transmute::<std::ptr::NonNull<c_void>, unsafe extern "C" fn($($type),*) -> Code>(real);
            let call = || real($($argument),*);
            hook!($class $name [$stream] [$work] ($($argument),*) call)
        }
    }};
}

macro_rules! export {
    (work $name:ident($($argument:ident: $type:ty),*) [$stream:expr] [$work:expr]) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            note_caller!($name::noted)
        }

        #[cfg_attr(not(test), expect(non_snake_case, reason = "CUDA's names"))]
        mod $name {
            use super::*;

            pub(super) unsafe extern "C" fn noted($($argument: $type),*) -> Code {
                body!(work $name($($argument: $type),*) [$stream] [$work])
            }
        }
    };
    ($class:ident $name:ident($($argument:ident: $type:ty),*) [$stream:expr] [$work:expr]) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            body!($class $name($($argument: $type),*) [$stream] [$work])
        }
    };
}

macro_rules! define_exports {
    ($($class:ident { $($name:ident($($argument:ident: $type:ty),*) on $stream:expr, $work:expr;)* })* => { $($drain:ident)* }) => {
        $($(
            export!($class $name($($argument: $type),*) [$stream] [$work]);
        )*)*

        #[cfg_attr(not(test), expect(non_snake_case, reason = "CUDA's names"))]
        mod announcing {
            use super::*;
            $($(announcing!($class $name($($argument: $type),*));)*)*
        }

        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $drain() {
                naked_asm!("mov eax, {id}", "jmp {drain}", id = const Id::$drain as usize, drain = sym drain_entry)
            }
        )*

        /// The exports' code, in the order of the list.
        pub(super) static EXPORTS: Exports =
            Exports([$($($name as *const c_void,)*)* $($drain as *const () as *const c_void,)*]);
    };
}
for_each_function!(define_exports);

/// Waits for what is deferred, and jumps to the real function with the caller's arguments, whatever they are. `eax` has its number.
#[unsafe(naked)]
unsafe extern "C" fn drain_entry() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "push rcx",
        ".cfi_adjust_cfa_offset 8",
        "push r8",
        ".cfi_adjust_cfa_offset 8",
        "push r9",
        ".cfi_adjust_cfa_offset 8",
        // Eight registers of floating point, and the stack's alignment.
        "sub rsp, 136",
        ".cfi_adjust_cfa_offset 136",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov edi, eax",
        "call {drained}",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 136",
        ".cfi_adjust_cfa_offset -136",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        "pop r8",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        drained = sym drained,
    )
}

/// The code of the real function with this number, once everything that is deferred was launched.
extern "C" fn drained(id: u32) -> *const c_void {
    hooks::drains(id as usize);
    driver::real_at(id as usize).map_or(hooks::absent as *const c_void, |real| real.as_ptr().cast_const())
}

/// Addresses of code.
pub(super) struct Exports(pub(super) [*const c_void; COUNT]);

// SAFETY: they are never written through.
unsafe impl Sync for Exports {}
