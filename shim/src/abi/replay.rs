//! Calling a real function with the arguments of a stopped call, without knowing its signature.

use std::arch::naked_asm;
use std::ffi::c_void;

use crate::abi::frame::Frame;

/// Calls `function` with the registers that `frame` has saved and with the `stack_words` words that lie behind it;
/// returns what the function leaves in `rax`.
///
/// # Safety
/// The frame must be of a call to this function, with this many words of stack behind it. The memory that arguments
/// point to must be valid for the function.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn replay(
    frame: *const Frame,
    function: *mut c_void,
    stack_words: usize,
) -> u64 {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov r10, rdi",
        "mov r11, rsi",
        // An even number of words keeps the stack aligned.
        "lea rcx, [rdx + 1]",
        "and rcx, -2",
        "shl rcx, 3",
        "sub rsp, rcx",
        "lea rsi, [r10 + {frame_bytes}]",
        "mov rdi, rsp",
        "mov rcx, rdx",
        "rep movsq",
        "movaps xmm0, [r10]",
        "movaps xmm1, [r10 + 16]",
        "movaps xmm2, [r10 + 32]",
        "movaps xmm3, [r10 + 48]",
        "movaps xmm4, [r10 + 64]",
        "movaps xmm5, [r10 + 80]",
        "movaps xmm6, [r10 + 96]",
        "movaps xmm7, [r10 + 112]",
        "mov rdi, [r10 + {general}]",
        "mov rsi, [r10 + {general} + 8]",
        "mov rdx, [r10 + {general} + 16]",
        "mov rcx, [r10 + {general} + 24]",
        "mov r8, [r10 + {general} + 32]",
        "mov r9, [r10 + {general} + 40]",
        "call r11",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        frame_bytes = const size_of::<Frame>(),
        general = const std::mem::offset_of!(Frame, general),
    )
}
