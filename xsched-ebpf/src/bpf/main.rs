//! The BPF programs: entry points only. Each decodes its context and calls the module that does the work.
//!
//! A program reads arguments, fills one record and submits it; further work belongs to user space. Programs at uprobes may be
//! preempted, so none keeps anything in per-CPU memory, and every counter is incremented atomically.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "core::sync::atomic has no read-modify-write operations for BPF targets"
)]
#![expect(missing_docs, unreachable_pub, reason = "the macros of aya-ebpf require public programs")]

mod atomic;
mod calls;
mod count;
mod driver;
mod events;
mod filter;
mod frame;
mod generated;
mod loader;
#[cfg(feature = "logs")]
mod log;
#[cfg(not(feature = "logs"))]
#[path = "no_log.rs"]
mod log;
mod memo;
mod row_cache;
mod scope;
mod scratch;
mod self_test;
mod shadow;
mod shipped;
mod snapshot;
mod space;
mod walk;
mod words;
mod zero;

use aya_ebpf::macros::{fentry, fexit, tracepoint, uprobe, uretprobe};
use aya_ebpf::programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext, TracePointContext};
use xsched_abi::Device;

/// Entry of every function in the table.
#[uprobe]
pub fn call_enter(ctx: ProbeContext) -> u32 {
    calls::enter(&ctx);
    0
}

/// Return of every function in the table.
#[uretprobe]
pub fn call_return(ctx: RetProbeContext) -> u32 {
    calls::leave(&ctx);
    0
}

/// `syscalls:sys_enter_openat`: a GPU runtime may be opened.
#[tracepoint]
pub fn open_enter(ctx: TracePointContext) -> u32 {
    loader::note_open(&ctx);
    0
}

/// `_dl_debug_state` of a dynamic loader: new objects are mapped and have not run yet.
#[uprobe]
pub fn loader_state(_ctx: ProbeContext) -> u32 {
    loader::stop();
    0
}

/// `task:task_newtask`: children of watched processes are watched.
#[tracepoint]
pub fn task_new(ctx: TracePointContext) -> u32 {
    if let Some((parent, child)) = scope::follow(&ctx) {
        space::inherit(parent, child);
    }
    0
}

/// `syscalls:sys_enter_setpgid`: a process that leaves the tracer's process group is not stopped any more.
#[tracepoint]
pub fn group_enter(ctx: TracePointContext) -> u32 {
    scope::regroup(&ctx);
    0
}

/// `syscalls:sys_enter_setsid`: likewise.
#[tracepoint]
pub fn session_enter(_ctx: TracePointContext) -> u32 {
    scope::leave_group();
    0
}

/// `syscalls:sys_enter_mmap` and `sys_enter_mprotect`: a process may be mapping code.
#[tracepoint]
pub fn map_enter(ctx: TracePointContext) -> u32 {
    space::map_enter(&ctx);
    0
}

/// `syscalls:sys_exit_mmap` and `sys_exit_mprotect`: it has mapped it.
#[tracepoint]
pub fn map_leave(_ctx: TracePointContext) -> u32 {
    let _ = space::map_leave();
    0
}

/// `syscalls:sys_enter_ioctl`: the call may be to AMD's driver.
#[tracepoint]
pub fn ioctl_enter(ctx: TracePointContext) -> u32 {
    driver::syscall_enter(&ctx);
    0
}

/// `syscalls:sys_exit_ioctl`.
#[tracepoint]
pub fn ioctl_leave(ctx: TracePointContext) -> u32 {
    driver::syscall_leave(&ctx);
    0
}

/// Entry of the driver's `kfd_ioctl(file, command, arg)`.
#[fentry]
pub fn kfd_enter(ctx: FEntryContext) -> u32 {
    driver::function_enter(Device::Kfd, ctx.arg(0), ctx.arg(1), ctx.arg(2));
    0
}

/// Entry of the driver's `amdgpu_drm_ioctl(file, command, arg)`.
#[fentry]
pub fn dri_enter(ctx: FEntryContext) -> u32 {
    driver::function_enter(Device::Dri, ctx.arg(0), ctx.arg(1), ctx.arg(2));
    0
}

/// Return of either function.
#[fexit]
pub fn driver_leave(ctx: FExitContext) -> u32 {
    // The return value follows the arguments.
    driver::leave(ctx.arg(3));
    0
}

/// A function of the tracer itself.
#[uprobe]
pub fn self_test(_ctx: ProbeContext) -> u32 {
    self_test::hit();
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
