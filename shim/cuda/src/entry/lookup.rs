//! Functions that programs look up by name: `dlsym` on libcuda's own handle, as CUDA's runtime does, gives the shim's export.
//!
//! The shim's `dlsym` precedes the next one for the whole process: that of another preloaded library, or the C library's. It jumps
//! there at once unless the name begins with `cu` and the handle is a real one, so that `RTLD_NEXT` and `RTLD_DEFAULT` keep their
//! caller and their meaning.
#![cfg_attr(test, expect(dead_code, reason = "unexported, `dlsym` is an ordinary unused function"))]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use xsched_preload::dlsym::real;

use crate::api::NAMES;
use crate::driver;
use crate::entry::exports::EXPORTS;
use crate::process;

/// The next `dlsym`; null until it is needed.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

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
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 4f",
        // RTLD_DEFAULT is 0, RTLD_NEXT is -1.
        "lea rcx, [rdi + 1]",
        "cmp rcx, 1",
        "jbe 3f",
        "test rsi, rsi",
        "jz 3f",
        "cmp byte ptr [rsi], 'c'",
        "jne 3f",
        "cmp byte ptr [rsi + 1], 'u'",
        "jne 3f",
        "jmp {look_up}",
        "3:",
        "jmp rax",
        "4:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {find_next}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp 2b",
        ".cfi_endproc",
        next = sym NEXT,
        look_up = sym look_up,
        find_next = sym find_next,
    )
}

/// Another preloaded library may have a `dlsym` too. It has no version, so it is not found by the C library's.
extern "C" fn find_next() {
    // SAFETY: a C string; the search runs no foreign code.
    let found = unsafe { real(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
    let found = if found.is_null() { real as *const () as *mut c_void } else { found };
    NEXT.store(found, Ordering::Release);
}

/// Looks up a name of CUDA on a handle.
///
/// # Safety
/// As for `dlsym`, when [`NEXT`] is known.
unsafe extern "C" fn look_up(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: a `dlsym`, with the caller's arguments.
    let found = unsafe {
        let next = std::mem::transmute::<
            *mut c_void,
            unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
        >(NEXT.load(Ordering::Acquire));
        next(handle, name)
    };
    if found.is_null() {
        return found;
    }
    // SAFETY: `dlsym` has read the name.
    let name = unsafe { CStr::from_ptr(name) };
    let is_listed = NAMES.contains(&name);
    let id = if is_listed && process::prepare() { driver::id_of(found) } else { None };
    id.map_or(found, |id| EXPORTS.0[id].cast_mut())
}
