//! The code that the shim puts into a table: a few instructions for each copy and function.
//!
//! A table's entry is called like the function itself, without a context. So each copy and function has 16 bytes of
//! code of its own, which know both; [`Code::of_copy`] computes their address.

use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::ArgumentLocation;
use crate::api::{ApiFunction, Class, Family};
use crate::counters::{NOTHING_DEFERRED, StreamKind, work_offset};
use crate::defer::{COUNTS_CALLS, MODE};
use crate::entry::table_entry;
use crate::hip::failure::UNREPORTED;
use crate::hooks::work_of;
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
    /// The same for functions that put work on a stream.
    Submitting(Submission),
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
            Class::deferrable => Submission::of(function).map_or(Self::Hooked, Self::Submitting),
            _ => Self::Hooked,
        }
    }

    /// The code for a function of a copy.
    pub(crate) fn of_copy(self, copy: usize, id: usize) -> *mut c_void {
        let all = match self {
            Self::Hooked => hooked as *const (),
            Self::Waiting => waiting as *const (),
            Self::Submitting(submission) => {
                SUBMISSIONS[id].store(submission.0, Ordering::Relaxed);
                submitting as *const ()
            }
            Self::Counted => counted as *const (),
        };
        all.wrapping_byte_add((copy * IDS + id) * CODE_BYTES).cast_mut().cast()
    }
}

/// Where a set of counters counts a function's work, and in the upper half where its stream lies: the number of a register, or that of a
/// word of stack behind the [`REGISTERS`].
#[derive(Clone, Copy)]
pub(crate) struct Submission(u32);

const REGISTERS: usize = 6;
const STREAM_SHIFT: u32 = 16;

/// By function; for those that have such code.
static SUBMISSIONS: [AtomicU32; IDS] = [const { AtomicU32::new(0) }; IDS];

impl Submission {
    /// None if no argument names the stream, or its null stream is the thread's own.
    fn of(function: &ApiFunction) -> Option<Self> {
        let stream = match function.stream.filter(|_| !function.null_stream_is_per_thread)? {
            ArgumentLocation::General(register) => register,
            ArgumentLocation::Stack(word) => REGISTERS + word,
            ArgumentLocation::Vector(_) => return None,
        };
        let work = u32::try_from(work_offset(work_of(function.family)?)).ok()?;
        debug_assert!(work + 8 * StreamKind::ALL.len() as u32 <= 1 << STREAM_SHIFT);
        Some(Self((stream as u32) << STREAM_SHIFT | work))
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

/// Code that leaves a call to its hook, at the label 2, unless nothing can be deferred. Then `$code` follows, with the entry's number in
/// `eax` and the place of the thread's words in `r10`.
macro_rules! unless_deferred {
    ($($code:literal,)* ; $($operand:tt)*) => {
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
            $($code,)*
            "2:",
            "jmp {entry}",
            ".cfi_endproc",
            mode = sym MODE,
            open = const AdmissionMode::Open as u8,
            unreported = sym UNREPORTED,
            inside_hook = const INSIDE_HOOK,
            noted_own_stream = const NOTED_OWN_STREAM,
            per_thread = const PER_THREAD,
            copy_shift = const IDS.trailing_zeros(),
            id_mask = const IDS - 1,
            originals = sym ORIGINALS,
            entry = sym table_entry,
            $($operand)*
        )
    };
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
    unless_deferred!(
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
        ; nothing_deferred = const NOTHING_DEFERRED,
    )
}

/// The code of functions that put work on a stream.
#[unsafe(naked)]
unsafe extern "C" fn submitting() {
    numbered_jumps!(submit_unless_deferred)
}

/// Counts the call and its work and jumps to the real function, if nothing can be deferred, as the hook would do with several times the
/// instructions.
#[unsafe(naked)]
unsafe extern "C" fn submit_unless_deferred() {
    unless_deferred!(
        "cmp byte ptr [rip + {counts_calls}], 0",
        "jne 2f",
        "and eax, {id_mask}",
        "lea r10, [rip + {submissions}]",
        "mov r10d, [r10 + rax * 4]",
        // The stream.
        "mov rax, r8",
        "cmp r10d, 4 << {stream_shift}",
        "jae 4f",
        "mov rax, rcx",
        "cmp r10d, 3 << {stream_shift}",
        "jae 6f",
        "mov rax, rdx",
        "cmp r10d, 2 << {stream_shift}",
        "jae 6f",
        "mov rax, rsi",
        "cmp r10d, 1 << {stream_shift}",
        "jae 6f",
        "mov rax, rdi",
        "jmp 6f",
        "4:",
        "cmp r10d, 5 << {stream_shift}",
        "jb 6f",
        "mov rax, r9",
        "cmp r10d, {registers} << {stream_shift}",
        "jb 6f",
        // Behind the return address.
        "mov eax, r10d",
        "shr eax, {stream_shift}",
        "mov rax, [rsp + rax * 8 + 8 - 8 * {registers}]",
        // Where its kind is counted.
        "6:",
        "movzx r10d, r10w",
        "cmp rax, {per_thread}",
        "jb 3f",
        "je 5f",
        "add r10d, 8 * {created}",
        "3:",
        "mov rax, qword ptr [rip + xsched_hip_thread@GOTTPOFF]",
        "mov rax, fs:[rax]",
        "test rax, rax",
        "jz 2f",
        "inc qword ptr [rax + r10]",
        "mov r10d, r11d",
        "and r10d, {id_mask}",
        "inc qword ptr [rax + r10 * 8]",
        "lea r10, [rip + {originals}]",
        "jmp [r10 + r11 * 8]",
        "5:",
        "add r10d, 8 * {own}",
        // The thread's own stream must be noted at its first use.
        "mov eax, r11d",
        "shr eax, {copy_shift}",
        "add rax, qword ptr [rip + xsched_hip_thread@GOTTPOFF]",
        "cmp byte ptr fs:[rax + {noted_own_stream}], 0",
        "jne 3b",
        ; counts_calls = sym COUNTS_CALLS,
        submissions = sym SUBMISSIONS,
        stream_shift = const STREAM_SHIFT,
        registers = const REGISTERS,
        created = const StreamKind::Created as usize,
        own = const StreamKind::PerThread as usize,
    )
}

const _: () = assert!(IDS.is_power_of_two() && StreamKind::Legacy as usize == 0);
