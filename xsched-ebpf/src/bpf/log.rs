//! Messages for users who ask why a chain is short, or why a process is not heard. `XSCHED_CTL_LOG=bpf=debug` turns them on.
//!
//! They are part of a second object, with the feature `logs`. All others have `no_log.rs` in place of this file. A constant level
//! would still leave, on the path of every launch, a load and the compiler's detour around each message.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_log_ebpf::debug;

// Functions of their own: messages take more than is left of the 512 bytes of stack of a program and of the functions that it calls
// inline.

/// A walk of a process's stack has found `count` frames; the last is at `address`. It has ended as `end` says, an
/// `xsched_abi::ChainEnd`.
#[inline(never)]
pub(crate) fn walked(tgid: u32, count: u32, address: u64, end: u32) {
    debug!((), target: "bpf", "process {}: {} frames up to {:x}, end {}", tgid, count, address, end);
}

/// A process that is not recorded has called a probed function.
#[inline(never)]
pub(crate) fn unheard() {
    // In the initial pid namespace: the process may have no id in the tracer's.
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    debug!((), target: "bpf", "process {} calls a runtime, and is not recorded", tgid);
}
