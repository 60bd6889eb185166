//! Functions that are looked up by name, where the runtime has no dispatch table to see their calls by.
//!
//! Programs ask `dlsym` on the runtime's own handle, or `hipGetProcAddress`, and call the address that they get. For a copy
//! that is seen by symbols, or not yet known to have a table, they get the shim's export instead. With several such copies in a process an export could
//! not tell which one is meant: there, addresses stay as they are.
//!
//! The shim's `dlsym` stands before the C library's for the whole process. It jumps there at once for everything but
//! names that begin with `hip` on a handle, so that `RTLD_NEXT` and `RTLD_DEFAULT` keep their caller and their meaning.
#![cfg_attr(test, expect(dead_code, reason = "unexported, `dlsym` is an ordinary unused function"))]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::counters::{self, Trouble};
use crate::exports::EXPORTS;
use crate::instances::Way;
use crate::{api, env, runtime};

/// The C library's `dlsym`; null until it is needed.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Versions of it on x86-64, newest first.
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// `dlsym`. Touches nothing that a caller of the C library's would find changed.
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
        "jmp {look}",
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
        look = sym look,
        find = sym find_real,
    )
}

/// Finds the C library's `dlsym`.
///
/// Without one this process could not have been linked with the shim, so the search does not fail; should it, what
/// finds nothing takes its place.
extern "C" fn find_real() {
    let found = VERSIONS.iter().find_map(|version| {
        // SAFETY: C strings; the search runs no foreign code.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        (!found.is_null()).then_some(found)
    });
    REAL.store(found.unwrap_or(nothing as *const () as *mut c_void), Ordering::Release);
}

extern "C" fn nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    ptr::null_mut()
}

/// The C library's `dlsym`, for the shim itself.
pub(crate) fn real_dlsym(handle: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    if REAL.load(Ordering::Acquire).is_null() {
        find_real();
    }
    // SAFETY: the C library's function, found by its name and version; looking up runs no foreign code.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Dlsym>(REAL.load(Ordering::Acquire));
        NonNull::new(real(handle, name.as_ptr()))
    }
}

/// A name of HIP on a handle.
///
/// # Safety
/// As for `dlsym`, when [`REAL`] is known.
unsafe extern "C" fn look(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the C library's function, found by its name and version.
    let real = unsafe { std::mem::transmute::<*mut c_void, Dlsym>(REAL.load(Ordering::Acquire)) };
    // SAFETY: the caller's promise.
    let found = unsafe { real(handle, name) };
    replaced(found).unwrap_or(found)
}

/// `hipGetProcAddress` and its like have answered with an address: an export takes its place if it has to.
///
/// # Safety
/// `answer` must be null or point to the answer.
pub(crate) unsafe fn replace_answer(answer: *mut *mut c_void) {
    // SAFETY: the caller's promise.
    let Some(answer) = (unsafe { answer.as_mut() }) else { return };
    if let Some(export) = replaced(*answer) {
        *answer = export;
    }
}

/// The export in place of a function of the runtime, if that is how its calls are seen.
fn replaced(found: *mut c_void) -> Option<*mut c_void> {
    if found.is_null() || env::disabled() {
        return None;
    }
    let export = catch_unwind(AssertUnwindSafe(|| {
        let name = symbol_name(found)?;
        let id = api::find(&name)?;
        let copy = runtime::only_instance_at(found.addr())?;
        (copy.way_of(api::TABLE[id].slot) != Way::Table).then_some(EXPORTS[id].cast_mut())
    }));
    export.unwrap_or_else(|_| {
        counters::trouble(Trouble::Panic);
        None
    })
}

/// The name of the function at an address: what was asked for may stand for another one.
fn symbol_name(address: *mut c_void) -> Option<std::ffi::CString> {
    // SAFETY: all of it may be zero.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: a place for the answer, whose name is a C string of a mapped object.
    unsafe {
        let known: c_int = libc::dladdr(address, &raw mut info);
        (known != 0 && !info.dli_sname.is_null() && info.dli_saddr == address)
            .then(|| CStr::from_ptr(info.dli_sname).to_owned())
    }
}
