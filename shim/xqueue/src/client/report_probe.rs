//! Reports to the arbiter's programs: calls of a function that does nothing.
//!
//! The arbiter's programs are attached to the function's first instruction. They see caller and arguments and have changed the
//! page by the time the call returns. Without them the call costs a nanosecond and has no effect.

#![cfg_attr(
    not(test),
    expect(unsafe_code, reason = "a function in assembly, which programs are attached to")
)]

use std::arch::naked_asm;

/// Reports something to the arbiter's programs: see `xsched_protocol::arbiter_page::Report`.
///
/// It begins with a `nop` of one byte. One of five would cost less, since newer kernels replace it by a call instead of a
/// trap; but Linux 6.18 lets that call go to a page that forked children do not have, and they die of it.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn xsched_arbiter_report(operation: u64, slot: u64, argument: u64) {
    naked_asm!(".cfi_startproc", "nop", "ret", ".cfi_endproc",)
}
