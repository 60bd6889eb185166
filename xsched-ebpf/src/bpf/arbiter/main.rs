//! The arbiter's programs: they keep the page where processes can read it and only the programs can write it.
//!
//! Entry points only. What a report or control operation does to the page is in `xsched_protocol::arbiter_page`; these programs
//! establish which process is the caller, and which have ended. All of this is pinned, so that it outlives the controller.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "core::sync::atomic has no read-modify-write operations for BPF targets"
)]
#![expect(missing_docs, unreachable_pub, reason = "the macros of aya-ebpf require public programs")]

mod callers;
mod gates;
mod host;
mod page;

use aya_ebpf::macros::{raw_tracepoint, uprobe};
use aya_ebpf::programs::{ProbeContext, RawTracePointContext};

/// A process calls `xsched_arbiter_report(operation, slot, argument)`.
#[uprobe]
pub fn report(ctx: ProbeContext) -> u32 {
    if let (Some(operation), Some(slot), Some(argument)) = (ctx.arg(0), ctx.arg(1), ctx.arg(2)) {
        callers::report(operation, slot, argument);
    }
    0
}

/// A process that runs the controller's file calls `xsched_arbiter_control(operation, slot, first, second)`.
#[uprobe]
pub fn control(ctx: ProbeContext) -> u32 {
    if let (Some(operation), Some(slot), Some(first), Some(second)) =
        (ctx.arg(0), ctx.arg(1), ctx.arg(2), ctx.arg(3))
    {
        callers::control(operation, slot, first, second);
    }
    0
}

/// A thread ends.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn process_exit(_ctx: RawTracePointContext) -> i32 {
    callers::exit();
    0
}

/// A process has executed another program.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn process_exec(_ctx: RawTracePointContext) -> i32 {
    callers::exec();
    0
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier proves that no panic is reachable; the language still requires the function.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
