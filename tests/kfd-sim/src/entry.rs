//! The C functions that take the place of libc's in a program: `ioctl` and `mmap`. What is not the device's goes to the kernel.
//!
//! In the test's file system the device's files are `/dev/null` under other names. So requests are known by their letters, and
//! mappings by their offsets, which no file has.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::ptr;

use rustix::io::Errno;

use crate::abi::{DRM, KFD, OFFSET_KIND};
use crate::driver::Driver;
use crate::render;
use crate::request::Request;

fn fail(error: Errno) -> c_int {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
    -1
}

/// Takes the place of libc's.
///
/// # Safety
///
/// As for libc's: `argument` is what the request wants.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let asked = Request::new(request, argument);
    let answered = match asked.letter {
        KFD => Driver::get().answer(&asked),
        DRM => render::answer(&asked),
        _ => {
            // SAFETY: the caller's promise.
            return unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) } as c_int;
        }
    };
    match answered {
        Ok(()) => 0,
        Err(error) => fail(error),
    }
}

/// Takes the place of libc's.
///
/// # Safety
///
/// As for libc's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    size: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    if offset as u64 & OFFSET_KIND != 0 {
        return match Driver::get().map(address, size, offset as u64) {
            Ok(mapped) => mapped,
            Err(error) => {
                fail(error);
                libc::MAP_FAILED
            }
        };
    }
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, address, size, protection, flags, fd, offset) };
    ptr::with_exposed_provenance_mut(mapped as usize)
}

/// The same under the name for large files.
///
/// # Safety
///
/// As for libc's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    size: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(address, size, protection, flags, fd, offset) }
}
