//! Functions that programs look_up_hip up by name, where the runtime has no dispatch table that shows their calls.
//!
//! Programs ask `dlsym` on the runtime's own handle, or `hipGetProcAddress`, and call the address that they get. For
//! a copy that is seen by symbols, or not yet known to have a table, they get the shim's export instead. If a process
//! has several such copies, an export could not tell which one is meant: there, addresses stay as they are.
//!
//! The shim's `dlsym` precedes the C library's for the whole process. It jumps there at once unless the name begins
//! with `hip` and the handle is a real one, so that `RTLD_NEXT` and `RTLD_DEFAULT` keep their caller and their
//! meaning.
#![cfg_attr(test, expect(dead_code, reason = "unexported, `dlsym` is an ordinary unused function"))]

use std::arch::naked_asm;
use std::ffi::{c_char, c_void};

use xsched_preload::dlsym::{REAL, find, real};

use crate::entry::exports::EXPORTS;
use crate::runtime::by_name::export_for;

/// `dlsym`. Changes nothing that a caller of the C library's would expect to stay.
///
/// # Safety
/// As for the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "2:",
        "mov rax, [rip + {real}]",
        "test rax, rax",
        "jz 4f",
        // RTLD_DEFAULT is 0, RTLD_NEXT is -1.
        "lea rcx, [rdi + 1]",
        "cmp rcx, 1",
        "jbe 3f",
        "test rsi, rsi",
        "jz 3f",
        "cmp byte ptr [rsi], 'h'",
        "jne 3f",
        "cmp byte ptr [rsi + 1], 'i'",
        "jne 3f",
        "cmp byte ptr [rsi + 2], 'p'",
        "jne 3f",
        "jmp {look_up_hip}",
        "3:",
        "jmp rax",
        "4:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {find}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp 2b",
        ".cfi_endproc",
        real = sym REAL,
        look_up_hip = sym look_up_hip,
        find = sym find,
    )
}

/// Looks up a name of HIP on a handle.
///
/// # Safety
/// As for `dlsym`, when [`REAL`] is known.
unsafe extern "C" fn look_up_hip(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let found = unsafe { real(handle, name) };
    export_for(found, &EXPORTS.0).unwrap_or(found)
}
