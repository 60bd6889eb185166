//! The programs that determine the origin of a call: a process asks through its shim, and is answered before its function returns.
//!
//! Entry points only. The walk is the tracer's; in place of the processes that are recorded, it serves those with a verdict page. See
//! `xsched_protocol::verdict`.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "core::sync::atomic has no read-modify-write operations for BPF targets"
)]
#![expect(missing_docs, unreachable_pub, reason = "the macros of aya-ebpf require public programs")]

// Modules of the tracer. Two modules that they use differ under the same names here: `scope` and `shadow` in this folder.
#[path = "../atomic.rs"]
mod atomic;
#[path = "../count.rs"]
#[expect(dead_code, reason = "nothing is left out here")]
mod count;
#[path = "../events.rs"]
mod events;
#[path = "../generated.rs"]
mod generated;
#[path = "../no_log.rs"]
#[expect(dead_code, reason = "only processes that have joined report here")]
mod log;
#[path = "../memo.rs"]
mod memo;
#[path = "../row_cache.rs"]
mod row_cache;
#[path = "../scratch.rs"]
mod scratch;
#[path = "../shipped.rs"]
mod shipped;
#[path = "../snapshot.rs"]
mod snapshot;
#[path = "../space.rs"]
#[expect(dead_code, reason = "children ask for a page of their own")]
mod space;
#[path = "../walk.rs"]
mod walk;
#[path = "../words.rs"]
mod words;
#[path = "../zero.rs"]
#[expect(dead_code, reason = "no record is cleared in place here")]
mod zero;

mod classify;
mod pages;
mod scope;
mod shadow;

use aya_ebpf::macros::{tracepoint, uprobe};
use aya_ebpf::programs::{ProbeContext, TracePointContext};

/// A process calls `xsched_classify(slot, ticket, subject, rip, rsp, rbp)`.
#[uprobe]
pub fn classify(ctx: ProbeContext) -> u32 {
    classify::answer(&ctx);
    0
}

/// A process that runs the controller's file calls `xsched_origin_order(operation, argument)`.
#[uprobe]
pub fn order(ctx: ProbeContext) -> u32 {
    if let (Some(operation), Some(argument)) = (ctx.arg(0), ctx.arg(1)) {
        pages::order(operation, argument);
    }
    0
}

/// `syscalls:sys_enter_mmap` and `sys_enter_mprotect`: a process may be mapping code.
#[tracepoint]
pub fn map_enter(ctx: TracePointContext) -> u32 {
    space::map_enter(&ctx);
    0
}

/// `syscalls:sys_exit_mmap` and `sys_exit_mprotect`: it has mapped it. Verdicts that it has kept by address may be wrong now.
#[tracepoint]
pub fn map_leave(_ctx: TracePointContext) -> u32 {
    if let Some(tgid) = space::map_leave() {
        pages::renew(tgid);
    }
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
