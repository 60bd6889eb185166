//! How the controller changes a page that it cannot write: it calls a function of its own that a program probes.

use aya::programs::UProbe;
use xsched_symbols::own_code;

use super::{ProgramsError, attach};

/// Returns at once; the program at its first instruction does the work. What it says is in
/// [`xsched_protocol::arbiter_page::Control`].
///
/// Its first instruction is a no-operation of one byte, which the kernel need not execute elsewhere. One of five bytes
/// would be quicker: Linux 6.18 replaces it by a call. But to a page that forked children do not have, so that they die
/// of it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) extern "C" fn xsched_arbiter_control(_operation: u64, _slot: u64, _first: u64, _second: u64) {
    core::arch::naked_asm!("nop", "ret")
}

/// Probes the function in the file that this process runs. Whoever else runs that file is told apart by the program.
pub(super) fn probe(program: &mut UProbe) -> Result<(), ProgramsError> {
    let address = xsched_arbiter_control as *const () as u64;
    let (file, offset) = own_code(address).map_err(ProgramsError::OwnCode)?;
    // The link stays with the program, and goes with this process.
    attach(program, "control", &file, offset).map(drop)
}
