//! Renews verdict pages, which only BPF programs may write: the controller calls a function of its own that is probed.

use std::fs::File;
use std::io;

use xsched_protocol::verdict::Order;
use xsched_symbols::own_code;

/// Returns at once; the program at its first instruction does the work.
///
/// Its first instruction is a one-byte NOP: Linux 6.18 replaces a five-byte NOP by a call into a page that forked
/// children do not have
/// ([`arch/x86/kernel/uprobes.c`](https://github.com/torvalds/linux/blob/v6.18/arch/x86/kernel/uprobes.c)).
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn xsched_origin_order(_operation: u64, _argument: u64) {
    core::arch::naked_asm!("nop", "ret")
}

pub(super) fn order(order: Order, argument: u64) {
    xsched_origin_order(order as u64, argument);
}

/// The location of that function: this process's executable file, and the offset there.
pub(super) fn own_function() -> io::Result<(File, u64)> {
    own_code(xsched_origin_order as *const () as u64)
}
