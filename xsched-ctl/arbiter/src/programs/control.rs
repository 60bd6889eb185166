//! Changes a page that the controller cannot write: it calls a function of its own at which a program is attached.

use aya::programs::UProbe;
use xsched_symbols::own_code;

use super::attach::attach;
use super::error::ProgramsError;

/// Returns immediately; the program at its first instruction does the work. [`xsched_protocol::arbiter_page::Control`] has
/// the operations.
///
/// Its first instruction is a one-byte no-operation, which the kernel emulates instead of executing a copy. A five-byte one
/// would be faster, because Linux 6.18 replaces it with a call. But the target of that call is a page that forked children do
/// not have, so they would crash (<https://github.com/torvalds/linux/blob/v6.18/arch/x86/kernel/uprobes.c>).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) extern "C" fn xsched_arbiter_control(_operation: u64, _slot: u64, _first: u64, _second: u64) {
    core::arch::naked_asm!("nop", "ret")
}

/// Attaches the program at the function in this process's file. The program ignores other processes that run the same file.
pub(super) fn probe(program: &mut UProbe) -> Result<(), ProgramsError> {
    let address = xsched_arbiter_control as *const () as u64;
    let (file, offset) = own_code(address).map_err(ProgramsError::OwnCode)?;
    // `program` keeps the link, which ends with this process.
    attach(program, "control", &file, offset).map(drop)
}
