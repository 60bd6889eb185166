//! The code that the shim puts into a table: a few instructions for each copy and function.
//!
//! A table's entry is called like the function itself, without a context. So each copy and function has 16 bytes of
//! code of its own, which know both; [`code`] computes their address.

use std::arch::naked_asm;
use std::ffi::c_void;

use crate::api::{ApiFunction, Class, Family};
use crate::counters::NOTHING_DEFERRED;
use crate::defer::MODE;
use crate::entry::table_entry;
use crate::hip::failure::UNREPORTED;
use crate::runtime::copies::{COPIES_MAX, IDS, ORIGINALS};
use crate::runtime::stopped::PER_THREAD;
use crate::thread::{INSIDE_HOOK, NOTED_OWN_STREAM};
use xsched_xqueue::AdmissionMode;

/// Bytes from one entry's code to the next.
const CODE_BYTES: usize = 16;

/// What the code for a function does.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    /// It enters the function's hook.
    Hooked,
    /// The same, unless nothing can be deferred.
    Waiting,
    /// It counts the call and jumps to the real function.
    Counted,
}

impl Code {
    /// The code for a function of the list.
    pub(crate) fn of(function: &ApiFunction) -> Self {
        match function.class {
            Class::passes => Self::Counted,
            // Their hook does nothing but wait, and a stream is their first argument. Others' null stream is the thread's own.
            Class::drains
                if function.family == Family::synchronise && !function.null_stream_is_per_thread =>
            {
                Self::Waiting
            }
            _ => Self::Hooked,
        }
    }

    /// Where it is for a function of a copy.
    pub(crate) fn address(self, copy: usize, id: usize) -> *mut c_void {
        let all = match self {
            Self::Hooked => hooked as *const (),
            Self::Waiting => waiting as *const (),
            Self::Counted => counted as *const (),
        };
        all.wrapping_byte_add((copy * IDS + id) * CODE_BYTES).cast_mut().cast()
    }
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

/// The code of functions that wait for the device.
#[unsafe(naked)]
unsafe extern "C" fn waiting() {
    numbered_jumps!(count_unless_deferred)
}

/// Counts the call and jumps to the real function, if nothing can be deferred, as the hook would do with five times the instructions. A
/// program of small graphs makes more of these calls than of all others.
#[unsafe(naked)]
unsafe extern "C" fn count_unless_deferred() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, [rip + {mode}]",
        "cmp byte ptr [rax], {open}",
        "jne 2f",
        "cmp qword ptr [rip + {unreported}], 0",
        "jne 2f",
        "mov r10, qword ptr [rip + xsched_hip_thread@GOTTPOFF]",
        "cmp byte ptr fs:[r10 + {inside_hook}], 0",
        "jne 2f",
        "mov eax, r11d",
        // The thread's own stream must be noted at its first use.
        "cmp rdi, {per_thread}",
        "je 4f",
        "3:",
        "mov r10, fs:[r10]",
        "test r10, r10",
        "jz 2f",
        "and eax, {id_mask}",
        "inc qword ptr [r10 + rax * 8]",
        "inc qword ptr [r10 + {nothing_deferred}]",
        "lea r10, [rip + {originals}]",
        "jmp [r10 + r11 * 8]",
        "4:",
        "shr eax, {copy_shift}",
        "add rax, r10",
        "cmp byte ptr fs:[rax + {noted_own_stream}], 0",
        "mov eax, r11d",
        "jne 3b",
        "2:",
        "jmp {entry}",
        ".cfi_endproc",
        mode = sym MODE,
        open = const AdmissionMode::Open as u8,
        unreported = sym UNREPORTED,
        inside_hook = const INSIDE_HOOK,
        noted_own_stream = const NOTED_OWN_STREAM,
        per_thread = const PER_THREAD,
        nothing_deferred = const NOTHING_DEFERRED,
        copy_shift = const IDS.trailing_zeros(),
        id_mask = const IDS - 1,
        originals = sym ORIGINALS,
        entry = sym table_entry,
    )
}

const _: () = assert!(IDS.is_power_of_two());
