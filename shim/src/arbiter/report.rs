//! Telling the arbiter: a call of a function that does nothing.
//!
//! The arbiter's programs are attached to the function's first instruction. They see caller and arguments and have changed the
//! page by the time the call returns. Without them the call costs a nanosecond and tells nobody.

use std::arch::naked_asm;

/// Tells the arbiter's programs something: see `xsched_abi::arbiter::Report`.
///
/// It begins with the five-byte `nop` that kernels know how to replace by a call, which costs less than a trap.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn xsched_arbiter_report(operation: u64, slot: u64, argument: u64) {
    naked_asm!(
        ".cfi_startproc",
        // nop dword ptr [rax + rax + 0]
        ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
        "ret",
        ".cfi_endproc",
    )
}
