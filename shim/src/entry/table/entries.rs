//! The code that the shim puts into a table: a few instructions for each copy and function.
//!
//! A table's entry is called like the function itself, without a context. So each copy and function has 16 bytes of
//! code of its own, which know both; [`code`] computes their address.

use std::arch::naked_asm;
use std::ffi::c_void;

use crate::entry::table_entry;
use crate::runtime::copies::{COPIES_MAX, IDS, ORIGINALS};

/// Bytes from one entry's code to the next.
const CODE_BYTES: usize = 16;

/// The code for a function of a copy.
pub(crate) fn code(copy: usize, id: usize, is_hooked: bool) -> *mut c_void {
    let all = if is_hooked { hooked as *const () } else { counted as *const () };
    all.wrapping_byte_add((copy * IDS + id) * CODE_BYTES).cast_mut().cast()
}

/// Puts its number into `r11` and jumps.
macro_rules! numbered_jumps {
    ($next:path) => {
        naked_asm!(
            ".cfi_startproc",
            ".set xsched_shim_entry, 0",
            ".rept {count}",
            ".p2align 4",
            "mov r11d, offset xsched_shim_entry",
            "jmp {next}",
            ".set xsched_shim_entry, xsched_shim_entry + 1",
            ".endr",
            ".cfi_endproc",
            count = const COPIES_MAX * IDS,
            next = sym $next,
        )
    };
}

/// The code of functions with a hook.
#[unsafe(naked)]
unsafe extern "C" fn hooked() {
    numbered_jumps!(table_entry)
}

/// The code of functions without one.
#[unsafe(naked)]
unsafe extern "C" fn counted() {
    numbered_jumps!(count)
}

/// Counts the call and jumps to the real function; a thread without a set of counters takes the general entry.
#[unsafe(naked)]
unsafe extern "C" fn count() {
    naked_asm!(
        ".cfi_startproc",
        "mov eax, r11d",
        "and eax, {id_mask}",
        // In this thread's set of counters, if it has one yet.
        "mov r10, qword ptr [rip + xsched_hip_thread@GOTTPOFF]",
        "mov r10, fs:[r10]",
        "test r10, r10",
        "jz 2f",
        "inc qword ptr [r10 + rax * 8]",
        "lea r10, [rip + {originals}]",
        "jmp [r10 + r11 * 8]",
        "2:",
        "jmp {entry}",
        ".cfi_endproc",
        id_mask = const IDS - 1,
        originals = sym ORIGINALS,
        entry = sym table_entry,
    )
}

const _: () = assert!(IDS.is_power_of_two());
