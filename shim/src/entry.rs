//! How calls come in: from an exported symbol into Rust, and out again to the real function.
//!
//! An export does not call the real function, it *jumps* there. All Rust code runs before the jump, between saving
//! the argument registers and restoring them. So the real function finds registers, stack arguments and return
//! address exactly as its caller left them, and no frame of the shim remains on the stack.
//!
//! ```text
//!   application --call--> export --jump--> real function --ret--> application
//!                            \              ^
//!                             entry: save, Rust, restore
//! ```

mod domain;
mod exports;
mod hints;
mod lookup;
mod table;
mod xsched;

use std::arch::naked_asm;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering;

use xsched_preload::env;

use crate::abi::{Frame, replay};
use crate::api::{ApiFunction, TABLE};
use crate::counters::{self, Trouble};
use crate::entry::exports::EXPORTS;
use crate::hooks::list::{HOOKS, Hook};
use crate::outcome::{Outcome, Reason};
use crate::reentry::inside_hook;
use crate::runtime::copies::{IDS, ORIGINALS, RuntimeCopy, Target, Way};
use crate::runtime::sites::{Key, Original, sites};
use crate::{hooks, own_calls, process, runtime};

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the shim knows the calling convention of x86-64 Linux only, like the HIP runtime itself");

/// Bytes of a frame that the entry code reserves; the rest are pushes.
const SAVE_AREA_BYTES: usize = 144;

const _: () = {
    // The entry code below pushes exactly this.
    assert!(std::mem::offset_of!(Frame, base_pointer) == 128);
    assert!(std::mem::offset_of!(Frame, general) == SAVE_AREA_BYTES);
    assert!(std::mem::offset_of!(Frame, id) == SAVE_AREA_BYTES + 48);
    assert!(size_of::<Frame>() == SAVE_AREA_BYTES + 64);
};

/// How a call goes on after the entry, in `rax` and `rdx`.
#[repr(C)]
pub(crate) struct Next {
    /// where to jump; null returns to the caller
    jump: *mut c_void,
    /// what `rax` holds then
    result: u64,
}

/// Saves everything that the C ABI may pass arguments in, calls `$decide`, restores it, and jumps or returns as
/// `$decide` says. `rax`, `r10` and `r11` are free to use: HIP has no variadic function, and dynamic linkers use the
/// other two between a call and its function as well.
///
/// Keeps unwind tables, for code that walks the stack while a hook runs.
macro_rules! entry_code {
    ($decide:ident) => {
        naked_asm!(
            ".cfi_startproc",
            // On entry rsp is 8 below a multiple of 16; 7 pushes and 144 bytes more make it a multiple.
            "push r11",
            ".cfi_adjust_cfa_offset 8",
            "push r9",
            ".cfi_adjust_cfa_offset 8",
            "push r8",
            ".cfi_adjust_cfa_offset 8",
            "push rcx",
            ".cfi_adjust_cfa_offset 8",
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "push rsi",
            ".cfi_adjust_cfa_offset 8",
            "push rdi",
            ".cfi_adjust_cfa_offset 8",
            "sub rsp, {save_area_bytes}",
            ".cfi_adjust_cfa_offset {save_area_bytes}",
            "movaps [rsp], xmm0",
            "movaps [rsp + 16], xmm1",
            "movaps [rsp + 32], xmm2",
            "movaps [rsp + 48], xmm3",
            "movaps [rsp + 64], xmm4",
            "movaps [rsp + 80], xmm5",
            "movaps [rsp + 96], xmm6",
            "movaps [rsp + 112], xmm7",
            "mov [rsp + 128], rbp",
            "mov rdi, rsp",
            "call {decide}",
            "mov r11, rax",
            "mov rax, rdx",
            "movaps xmm0, [rsp]",
            "movaps xmm1, [rsp + 16]",
            "movaps xmm2, [rsp + 32]",
            "movaps xmm3, [rsp + 48]",
            "movaps xmm4, [rsp + 64]",
            "movaps xmm5, [rsp + 80]",
            "movaps xmm6, [rsp + 96]",
            "movaps xmm7, [rsp + 112]",
            "add rsp, {save_area_bytes}",
            ".cfi_adjust_cfa_offset -{save_area_bytes}",
            "pop rdi",
            ".cfi_adjust_cfa_offset -8",
            "pop rsi",
            ".cfi_adjust_cfa_offset -8",
            "pop rdx",
            ".cfi_adjust_cfa_offset -8",
            "pop rcx",
            ".cfi_adjust_cfa_offset -8",
            "pop r8",
            ".cfi_adjust_cfa_offset -8",
            "pop r9",
            ".cfi_adjust_cfa_offset -8",
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "test r11, r11",
            "jz 2f",
            "jmp r11",
            "2:",
            "ret",
            ".cfi_endproc",
            save_area_bytes = const SAVE_AREA_BYTES,
            decide = sym $decide,
        )
    };
}

/// Every export that does not know where to jump comes here, with its function's number in `r11`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn export_entry() {
    entry_code!(decide_export_call)
}

/// Every entry of a dispatch table that has a hook comes here, and those without one for a thread's first call, with its copy and function in `r11`: see
/// [`crate::entry::table`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn table_entry() {
    entry_code!(decide_table_call)
}

/// Decides where a call goes, after its function's hook has seen it.
extern "C" fn decide_export_call(frame: &Frame) -> Next {
    let function = &TABLE[frame.id as usize];
    let key = Key::new(frame.return_address, frame.id);
    let original = sites().find(key).or_else(|| first_call(function, key, frame.return_address));
    if original.is_none_or(|original| original.way != Way::Table) {
        counters::called(frame.id as usize);
    }
    let Some(original) = original else {
        // SAFETY: the export that made this frame put its function's number there.
        return Next::after(unsafe { missing(function, frame) }, ptr::null_mut());
    };
    if original.way == Way::Table && own_calls::is_on() {
        // SAFETY: as above.
        if let Some(result) = unsafe { record(function, frame, &original) } {
            return Next { jump: ptr::null_mut(), result };
        }
    }
    match HOOKS[frame.id as usize].filter(|_| original.way != Way::Table) {
        Some(_) if original.caller_is_runtime => {
            Next::after(Outcome::Pass(Reason::RuntimeInternal), original.address)
        }
        Some(hook) => {
            let target = Target { address: original.address, copy: original.copy };
            // SAFETY: as above.
            Next::after(unsafe { decide(hook, function, frame, target) }, original.address)
        }
        None => Next { jump: original.address, result: 0 },
    }
}

/// Makes a call that the process records itself, as the copy's table would make it; None if it does not record this one.
///
/// # Safety
/// `frame` must be of a call to `function`.
#[inline(never)]
unsafe fn record(function: &'static ApiFunction, frame: &Frame, original: &Original) -> Option<u64> {
    let hook = HOOKS[function.id as usize]?;
    let begun = own_calls::begin(function, frame, original)?;
    counters::called(function.id as usize);
    let target = begun.target;
    // SAFETY: the caller's promise, and the target is this function of the copy.
    let result = match unsafe { decide(hook, function, frame, target) } {
        Outcome::Done(result) => result,
        Outcome::Pass(reason) => {
            counters::passed(reason);
            // SAFETY: as above, and the call's own caller has promised what the function requires.
            unsafe { replay(frame, target.address, function.stack_words) }
        }
    };
    begun.finish(result);
    Some(result)
}

/// Decides a call that came through a copy's dispatch table.
///
/// The runtime's own code is between the caller and here, so the return address says nothing about the caller.
extern "C" fn decide_table_call(frame: &Frame) -> Next {
    let (copy, id) = (frame.id as usize / IDS, frame.id as usize % IDS);
    let original = ORIGINALS[copy][id].load(Ordering::Acquire);
    let target = Target { address: original, copy: Some(RuntimeCopy::at(copy)) };
    let Some(function) = TABLE.get(id) else {
        return Next::after(hooks::unknown(), original);
    };
    // If an export did not know yet that its copy has a table, it has counted the call and is running the hook right
    // now.
    if !inside_hook() || HOOKS[id].is_none() {
        counters::called(id);
    }
    match HOOKS[id] {
        // SAFETY: the table entry that made this frame put its function's number there.
        Some(hook) => Next::after(unsafe { decide(hook, function, frame, target) }, original),
        None => Next { jump: original, result: 0 },
    }
}

impl Next {
    fn after(outcome: Outcome<u64>, original: *mut c_void) -> Self {
        match outcome {
            Outcome::Done(result) => Self { jump: ptr::null_mut(), result },
            Outcome::Pass(reason) => {
                counters::passed(reason);
                Self { jump: original, result: 0 }
            }
        }
    }
}

/// Runs the hook, unless it is switched off.
///
/// # Safety
/// `frame` and `target` must be of a call to `function`, and `hook` be its hook.
unsafe fn decide(hook: Hook, function: &'static ApiFunction, frame: &Frame, target: Target) -> Outcome<u64> {
    if env::disabled() {
        Outcome::Pass(Reason::Disabled)
    } else {
        // SAFETY: the caller's promise.
        unsafe { hook(function, frame, target) }
    }
}

/// A call that no runtime in the process can serve.
///
/// # Safety
/// `frame` must be of a call to `function`.
#[cold]
unsafe fn missing(function: &ApiFunction, frame: &Frame) -> Outcome<u64> {
    counters::trouble(Trouble::Missing);
    // SAFETY: the caller's promise.
    Outcome::Done(unsafe { function.missing(frame) })
}

/// Prepares the process, if this is its first call.
fn prepare() {
    process::prepare(&EXPORTS.0);
}

/// Finds the real function for a call site that has not called it before.
#[cold]
#[inline(never)]
fn first_call(function: &ApiFunction, key: Key, return_address: u64) -> Option<Original> {
    prepare();
    catch_unwind(AssertUnwindSafe(|| runtime::resolve(function, key, return_address as usize)))
        .unwrap_or_else(|_| {
            counters::trouble(Trouble::Panic);
            None
        })
}
