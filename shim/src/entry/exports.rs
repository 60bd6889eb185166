//! The exported symbols: one for every function of the list, and the shim's own.
//!
//! An export is a few instructions without a stack frame, which leave all arguments as they are: so it is declared
//! without any. An export without a hook looks its call site up right here, counts and jumps; the rest, and every first call of a site
//! or a thread, go through the entry code. Symbols carry no version: a
//! definition without one satisfies references to every version.
//!
//! All functions are exported, also those that the process's runtime is too old for, because the linker does not know
//! yet what the runtime has. Such a function returns `hipErrorNotSupported`.
//!
//! Under test the symbols stay unexported, or the test program would interpose itself.
#![cfg_attr(
    test,
    expect(non_snake_case, dead_code, reason = "unexported, they are ordinary unused functions")
)]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};

use crate::api::{self, Id, for_each_function};
use crate::counters::{self, NOTHING_DEFERRED};
use crate::defer::MODE;
use crate::entry::export_entry;
use crate::hip::failure::UNREPORTED;
use crate::own_calls::IS_ON;
use crate::runtime::copies::Way;
use crate::runtime::sites::{Key, SITE_SHIFT, SITES, Site, TABLE_BITS};
use crate::runtime::stopped::PER_THREAD;
use crate::thread::INSIDE_HOOK;
use xsched_preload::env::{DISABLED, NO};
use xsched_preload::hashing::MULTIPLIER;
use xsched_xqueue::AdmissionMode;

/// The code of one export. If the first entry of the call site's hash knows the real function, it jumps there, else
/// to the entry code. Uses no register but `r10` and `r11`.
///
/// Where calls are seen by the runtime's dispatch table, its entries do everything, counting included.
macro_rules! export_code {
    // No hook: count and jump.
    ($family:ident passes $name:ident) => {
        export_code!(@lookup $name,
            "cmp byte ptr [r10 + {way}], {table}",
            "je 3f",
            // In this thread's set of counters, if it has one yet.
            "mov r11, qword ptr [rip + xsched_hip_thread@GOTTPOFF]",
            "mov r11, fs:[r11]",
            "test r11, r11",
            "jz 2f",
            "inc qword ptr [r11 + {id} * 8]",
            "3:",
            "jmp [r10 + {address}]",
            ;)
    };
    // As below, unless the process may record it itself.
    (launch deferrable $name:ident) => {
        export_code!(@launch $name)
    };
    (graph deferrable $name:ident) => {
        export_code!(@launch $name)
    };
    (@launch $name:ident) => {
        export_code!(@lookup $name,
            "cmp byte ptr [r10 + {way}], {table}",
            "jne 2f",
            "cmp byte ptr [rip + {records}], 0",
            "jne 2f",
            "jmp [r10 + {address}]",
            ; records = sym IS_ON,)
    };
    // Its null stream is the thread's own, which must be noted at its first use.
    (synchronise drains hipStreamSynchronize_spt) => {
        export_code!(hooked hooked hipStreamSynchronize_spt)
    };
    // A hook would only wait, and there may be nothing to wait for: see `table/entries.rs`. Here the thread's own stream is left to the hook.
    (synchronise drains $name:ident) => {
        export_code!(@lookup $name,
            "cmp byte ptr [r10 + {way}], {table}",
            "je 3f",
            "cmp byte ptr [r10 + {caller_is_runtime}], 0",
            "jne 2f",
            "cmp byte ptr [rip + {disabled}], {no}",
            "jne 2f",
            "mov rax, [rip + {mode}]",
            "cmp byte ptr [rax], {open}",
            "jne 2f",
            "cmp qword ptr [rip + {unreported}], 0",
            "jne 2f",
            "cmp rdi, {per_thread}",
            "je 2f",
            "mov r11, qword ptr [rip + xsched_hip_thread@GOTTPOFF]",
            "cmp byte ptr fs:[r11 + {inside_hook}], 0",
            "jne 2f",
            "mov r11, fs:[r11]",
            "test r11, r11",
            "jz 2f",
            "inc qword ptr [r11 + {id} * 8]",
            "inc qword ptr [r11 + {nothing_deferred}]",
            "3:",
            "jmp [r10 + {address}]",
            ; caller_is_runtime = const std::mem::offset_of!(Site, caller_is_runtime),
            disabled = sym DISABLED,
            no = const NO,
            mode = sym MODE,
            open = const AdmissionMode::Open as u8,
            unreported = sym UNREPORTED,
            per_thread = const PER_THREAD,
            inside_hook = const INSIDE_HOOK,
            nothing_deferred = const NOTHING_DEFERRED,)
    };
    // A hook decides, here or at the table's entry.
    ($family:ident $class:ident $name:ident) => {
        export_code!(@lookup $name,
            "cmp byte ptr [r10 + {way}], {table}",
            "jne 2f",
            "jmp [r10 + {address}]",
            ;)
    };
    (@lookup $name:ident, $($found:literal,)* ; $($operand:tt)*) => {
        naked_asm!(
            ".cfi_startproc",
            "mov r11, [rsp]",
            "shl r11, {address_shift}",
            "or r11, {id}",
            "movabs r10, {multiplier}",
            "imul r10, r11",
            "shr r10, {hash_shift}",
            "shl r10, {site_shift}",
            "add r10, [rip + {sites}]",
            "cmp [r10 + {key}], r11",
            "jne 2f",
            $($found,)*
            "2:",
            "mov r11d, {id}",
            "jmp {entry}",
            ".cfi_endproc",
            id = const Id::$name as usize,
            address_shift = const Key::ADDRESS_SHIFT,
            multiplier = const MULTIPLIER,
            hash_shift = const 64 - TABLE_BITS,
            site_shift = const SITE_SHIFT,
            sites = sym SITES,
            key = const std::mem::offset_of!(Site, key),
            way = const std::mem::offset_of!(Site, way),
            table = const Way::Table as u8,
            address = const std::mem::offset_of!(Site, address),
            entry = sym export_entry,
            $($operand)*
        )
    };
}

macro_rules! define_exports {
    ($($family:ident {
        $($class:ident $table:ident $($index:literal)? fn $name:ident($(..)? $($arg:ident: $ty:ty),*) -> $ret:ty;)*
    })*) => {
        $($(
            #[unsafe(naked)]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name() {
                export_code!($family $class $name)
            }
        )*)*
    };
}
for_each_function!(define_exports);

macro_rules! addresses {
    ($($family:ident {
        $($class:ident $table:ident $($index:literal)? fn $name:ident($(..)? $($arg:ident: $ty:ty),*) -> $ret:ty;)*
    })*) => {
        /// The exports' code, in the order of the list.
        pub(super) static EXPORTS: Exports = Exports([$($($name as *const () as *const c_void,)*)*]);
    };
}

/// Addresses of code.
pub(super) struct Exports(pub(super) [*const c_void; api::COUNT]);

// SAFETY: they are never written through.
unsafe impl Sync for Exports {}

for_each_function!(addresses);

/// How often the HIP function `name` was called in this process, by any caller; `UINT64_MAX` for a name that the shim
/// does not export.
///
/// C: `uint64_t xsched_shim_call_count(const char *name)`.
///
/// # Safety
/// `name` must be null or a C string.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn xsched_shim_call_count(name: *const c_char) -> u64 {
    if name.is_null() {
        return u64::MAX;
    }
    // SAFETY: the caller promises a C string.
    let name = unsafe { CStr::from_ptr(name) };
    api::find(name).map_or(u64::MAX, counters::calls)
}
