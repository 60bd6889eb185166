//! Where the call returns that a thread makes of an export: rules ask which library that is.
//!
//! A function in Rust cannot read it. So exports that put work on streams begin with a few instructions that leave it in a word of the
//! thread. The word lies in the part of the thread's memory that is there from its start, as a preloaded library may have it.

use std::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.xsched_cuda_caller,\"awT\",@nobits",
    ".globl xsched_cuda_caller",
    ".hidden xsched_cuda_caller",
    ".type xsched_cuda_caller, @object",
    ".size xsched_cuda_caller, 8",
    ".p2align 3",
    "xsched_cuda_caller:",
    ".zero 8",
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
            "jmp {noted}",
            ".cfi_endproc",
            noted = sym $noted
        )
    };
}
pub(crate) use note_caller;

/// Where the export returns that this thread has called last, of those that note it. 0: it has called none.
#[inline]
pub(crate) fn of_call() -> u64 {
    let caller: u64;
    // SAFETY: a word of this thread's, which only the exports' first instructions write.
    unsafe {
        asm!(
            "mov {caller}, qword ptr [rip + xsched_cuda_caller@GOTTPOFF]",
            "mov {caller}, fs:[{caller}]",
            caller = out(reg) caller,
            options(nostack, readonly, preserves_flags)
        );
    }
    caller
}
