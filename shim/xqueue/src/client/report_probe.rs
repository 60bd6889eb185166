//! Reports to the arbiter's programs: calls of a function that does nothing.
//!
//! The arbiter's programs are attached to the function's first instruction. They see caller and arguments and have changed the
//! page by the time the call returns. Without them the call costs a nanosecond and has no effect.

#![expect(
    unsafe_code,
    reason = "a function in assembly, which programs are attached to, maybe in another library"
)]

use std::arch::naked_asm;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    /// [`xsched_arbiter_report`] by a name that no other library has. A process with two shims has two of the function, and a
    /// call by the exported name would reach the first that was loaded.
    fn xsched_report_of_this_library(operation: u64, slot: u64, argument: u64);
}

/// The function that is called, if it is not this library's own.
static OTHER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Reports go through another library's function of the same name from now on. A process with two shims has one probe.
///
/// # Safety
/// It is an `xsched_arbiter_report`, in a library that is never unmapped.
pub unsafe fn report_through(function: *mut c_void) {
    OTHER.store(function, Ordering::Release);
}

/// Reports something, see [`xsched_arbiter_report`].
pub(crate) fn report(operation: u64, slot: u64, argument: u64) {
    let other = OTHER.load(Ordering::Acquire);
    if other.is_null() {
        // SAFETY: the function above, which does nothing.
        return unsafe { xsched_report_of_this_library(operation, slot, argument) };
    }
    // SAFETY: what `report_through` was promised.
    unsafe {
        std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64, u64)>(other)(operation, slot, argument);
    }
}

/// Reports something to the arbiter's programs: see `xsched_protocol::arbiter_page::Report`.
///
/// It begins with a `nop` of one byte. A `nop` of five bytes would cost less, since newer kernels replace it by a call instead of
/// a trap. But in Linux 6.18 that call goes to a page that forked children do not have, and they die of it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn xsched_arbiter_report(operation: u64, slot: u64, argument: u64) {
    naked_asm!(
        ".globl xsched_report_of_this_library",
        ".hidden xsched_report_of_this_library",
        "xsched_report_of_this_library:",
        ".cfi_startproc",
        "nop",
        "ret",
        ".cfi_endproc",
    )
}
