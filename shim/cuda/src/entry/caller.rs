//! Where the call returns that a thread makes of an export, and with which registers: rules ask which library that is, and which
//! have called it.
//!
//! A function in Rust cannot read it. So exports that put work on streams begin with a few instructions that leave it in words of the
//! thread. They lie in the part of the thread's memory that is there from its start, as a preloaded library may have it.

use std::arch::{asm, global_asm};

use xsched_preload::programs::Registers;

global_asm!(
    ".pushsection .tbss.xsched_cuda_caller,\"awT\",@nobits",
    ".globl xsched_cuda_caller",
    ".hidden xsched_cuda_caller",
    ".type xsched_cuda_caller, @object",
    ".size xsched_cuda_caller, 24",
    ".p2align 3",
    "xsched_cuda_caller:",
    ".zero 24",
    ".popsection",
);

/// Code of an export that notes its caller, and goes on as `$noted`. It uses registers that calls may change.
macro_rules! note_caller {
    ($noted:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "mov r10, [rsp]",
            "mov r11, qword ptr [rip + xsched_cuda_caller@GOTTPOFF]",
            "mov fs:[r11], r10",
            // The stack pointer when the export has returned.
            "lea r10, [rsp + 8]",
            "mov fs:[r11 + 8], r10",
            "mov fs:[r11 + 16], rbp",
            "jmp {noted}",
            ".cfi_endproc",
            noted = sym $noted
        )
    };
}
pub(crate) use note_caller;

/// The registers of the caller of the export that this thread has called last, of those that note it. Zeroes: it has called none.
#[inline]
pub(crate) fn of_call() -> Registers {
    let (rip, rsp, rbp);
    // SAFETY: words of this thread's, which only the exports' first instructions write.
    unsafe {
        asm!(
            "mov {rbp}, qword ptr [rip + xsched_cuda_caller@GOTTPOFF]",
            "mov {rip}, fs:[{rbp}]",
            "mov {rsp}, fs:[{rbp} + 8]",
            "mov {rbp}, fs:[{rbp} + 16]",
            rip = out(reg) rip,
            rsp = out(reg) rsp,
            rbp = out(reg) rbp,
            options(nostack, readonly, preserves_flags)
        );
    }
    Registers { rip, rsp, rbp }
}
