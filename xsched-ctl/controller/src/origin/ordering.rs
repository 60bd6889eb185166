//! How pages are renewed that nobody but a program may write: the controller calls a function of its own that is probed.

use std::fs::File;
use std::io;

use xsched_protocol::verdict::Order;
use xsched_symbols::own_code;

/// Returns at once; the program at its first instruction does the work.
///
/// Its first instruction is a no-operation of one byte: Linux 6.18 replaces one of five by a call to a page that forked
/// children do not have.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn xsched_origin_order(_operation: u64, _argument: u64) {
    core::arch::naked_asm!("nop", "ret")
}

/// Gives an order.
pub(super) fn order(order: Order, argument: u64) {
    xsched_origin_order(order as u64, argument);
}

/// Where that function is: the file that this process runs, and the offset there.
pub(super) fn own_function() -> io::Result<(File, u64)> {
    own_code(xsched_origin_order as *const () as u64)
}
