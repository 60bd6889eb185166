//! Messages for users who ask why a chain is short, or why a process is not heard. `XSCHED_CTL_LOG=bpf=debug` turns them on.
//!
//! Their level is set before the programs are loaded, and is a constant from then on. Off, which it is otherwise, the verifier removes
//! the messages with the functions that write them: a loaded program is as long as one without.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_log_ebpf::debug;
use aya_log_ebpf::macro_support::{Level, level_enabled};

/// Whether messages are written.
#[inline(always)]
fn is_on() -> bool {
    level_enabled(Level::Debug)
}

/// A walk of a process's stack has found `count` frames; the last is at `address`. It has ended as `end` says, an
/// `xsched_abi::ChainEnd`.
#[inline(always)]
pub(crate) fn walked(tgid: u32, count: u32, address: u64, end: u32) {
    if is_on() {
        write_walked(tgid, count, address, end);
    }
}

/// A process that is not recorded has called a probed function.
#[inline(always)]
pub(crate) fn unheard() {
    if is_on() {
        write_unheard();
    }
}

// Functions of their own: messages take more than is left of the 512 bytes of stack of a program and of the functions that it calls
// inline.

#[inline(never)]
fn write_walked(tgid: u32, count: u32, address: u64, end: u32) {
    debug!((), target: "bpf", "process {}: {} frames up to {:x}, end {}", tgid, count, address, end);
}

#[inline(never)]
fn write_unheard() {
    // In the initial pid namespace: the process may have no id in the tracer's.
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    debug!((), target: "bpf", "process {} calls a runtime, and is not recorded", tgid);
}
