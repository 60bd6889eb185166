//! The C library's `dlsym`: the shim exports one of its own in front of it.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The C library's `dlsym`; null until it is needed. The code of the exported `dlsym` reads it.
pub static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Its versions on x86-64, newest first.
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Finds the C library's `dlsym`.
///
/// Without one this process could not have been linked with the shim, so the search does not fail. Should it fail, a
/// function that finds nothing takes its place.
pub extern "C" fn find() {
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

/// Calls the C library's `dlsym`.
///
/// # Safety
/// As for `dlsym`.
pub unsafe fn real(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if REAL.load(Ordering::Acquire).is_null() {
        find();
    }
    // SAFETY: the C library's function, found by its name and version, or `nothing`; the rest is the caller's promise.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Dlsym>(REAL.load(Ordering::Acquire));
        real(handle, name)
    }
}

/// Looks a symbol up, for the shim itself. The handle is the loader's, or one of its constants.
#[expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the handle is not followed here, and the loader refuses unknown ones"
)]
pub fn look_up(handle: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a C string; looking up runs no foreign code.
    NonNull::new(unsafe { real(handle, name.as_ptr()) })
}

/// Defines the exported `dlsym`, which precedes the next one for the whole process. It changes nothing that a caller of the C
/// library's would expect to stay. Calls with a real handle and a name that begins with the given characters (each with its
/// place) go to `look_up`, with the same arguments. All others jump to `next` at once, so `RTLD_NEXT` and `RTLD_DEFAULT` keep
/// their caller and their meaning. `find` sets `next` while that is null.
#[macro_export]
macro_rules! export_dlsym {
    (next: $next:path, find: $find:path, look_up: $look_up:path, names: $($at:literal $character:literal),+) => {
        /// `dlsym`.
        ///
        /// # Safety
        /// As for the C library's.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn dlsym(
            handle: *mut ::std::ffi::c_void,
            name: *const ::std::ffi::c_char,
        ) -> *mut ::std::ffi::c_void {
            ::std::arch::naked_asm!(
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
                $(
                    concat!("cmp byte ptr [rsi + ", $at, "], '", $character, "'"),
                    "jne 3f",
                )+
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
                "call {find}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp 2b",
                ".cfi_endproc",
                next = sym $next,
                look_up = sym $look_up,
                find = sym $find,
            )
        }
    };
}
