//! The processes that are recorded.

use aya_ebpf::bindings::bpf_pidns_info;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::bpf_get_ns_current_pid_tgid;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use aya_ebpf::programs::TracePointContext;
use xsched_abi::{Config, Counter, Scope, Watched};

use crate::count::count;
use crate::log;

#[map]
static CONFIG: Array<Config> = Array::with_max_entries(1, 0);

/// Watched thread groups, where the scope is a list: the value is a [`Watched`].
#[map]
static TARGETS: HashMap<u32, u8> = HashMap::with_max_entries(16384, 0);

/// Offsets of the fields of `task:task_newtask` behind the eight common bytes; the same in every kernel since 3.4.
const NEWTASK_PID: usize = 8;
const NEWTASK_CLONE_FLAGS: usize = 32;

/// Offset of `pid` in `syscalls:sys_enter_setpgid`.
const SETPGID_PID: usize = 16;

/// `CLONE_THREAD`: the new task is a thread of the same process.
const CLONE_THREAD: u64 = 0x0001_0000;

/// The current thread.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
}

/// The configuration that user space has written.
#[inline(always)]
pub(crate) fn config() -> Option<&'static Config> {
    CONFIG.get(0)
}

impl Current {
    /// The current thread, if its process is watched.
    #[inline(always)]
    pub(crate) fn watched() -> Option<Self> {
        let config = config()?;
        let current = Self::now(config)?;
        if config.own_tgid == current.tgid {
            return None;
        }
        let is_everybody = config.scope == Scope::Everybody as u32 || config.scope == Scope::Selected as u32;
        (is_everybody || how(current.tgid).is_some()).then_some(current)
    }

    /// The current thread, if its process is watched and may be stopped.
    #[inline(always)]
    pub(crate) fn stoppable() -> Option<Self> {
        let current = Self::now(config()?)?;
        (how(current.tgid) == Some(Watched::Stoppable as u8)).then_some(current)
    }

    /// The current thread, watched or not.
    #[inline(always)]
    pub(crate) fn any() -> Option<Self> {
        Self::now(config()?)
    }

    /// None for a thread that has no ids in the tracer's pid namespace.
    #[inline(always)]
    fn now(config: &Config) -> Option<Self> {
        if config.pid_namespace_inode == 0 {
            let id = bpf_get_current_pid_tgid();
            return Some(Self { tgid: (id >> 32) as u32, tid: id as u32 });
        }
        let mut ids = bpf_pidns_info { pid: 0, tgid: 0 };
        // SAFETY: the helper writes a struct of the size that it is passed.
        let error = unsafe {
            bpf_get_ns_current_pid_tgid(
                config.pid_namespace_device,
                config.pid_namespace_inode,
                &raw mut ids,
                size_of::<bpf_pidns_info>() as u32,
            )
        };
        (error == 0).then_some(Self { tgid: ids.tgid, tid: ids.pid })
    }
}

/// Counts a call of a process that is not watched although the scope is all processes.
#[inline(always)]
pub(crate) fn note_unwatched() {
    let Some(config) = config() else { return };
    log::unheard();
    if config.scope == Scope::Everybody as u32
        && config.pid_namespace_inode != 0
        && Current::now(config).is_none()
    {
        count(Counter::OtherNamespace);
    }
}

/// How a process is watched, if it is listed.
#[inline(always)]
fn how(tgid: u32) -> Option<u8> {
    // SAFETY: the value is a byte, which is read whole even while user space changes it.
    TARGETS.get_ptr(tgid).map(|how| unsafe { *how })
}

/// A watched process has made a child: the child is watched in the same way. Returns both.
#[inline(always)]
pub(crate) fn follow(ctx: &TracePointContext) -> Option<(u32, u32)> {
    let config = config()?;
    if config.scope != Scope::ListedAndChildren as u32 {
        return None;
    }
    // The tracepoint has ids of the initial namespace, so user space attaches this program only there.
    let current = Current::now(config)?;
    let how = how(current.tgid)?;
    // SAFETY: both offsets lie within the tracepoint's record.
    let (child, flags) =
        unsafe { (ctx.read_at::<u32>(NEWTASK_PID), ctx.read_at::<u64>(NEWTASK_CLONE_FLAGS)) };
    let (Ok(child), Ok(flags)) = (child, flags) else { return None };
    if flags & CLONE_THREAD != 0 {
        return None;
    }
    if TARGETS.insert(child, how, 0).is_err() {
        count(Counter::TargetsFull);
    }
    Some((current.tgid, child))
}

/// A process changes a process group: its own, or that of a child.
#[inline(always)]
pub(crate) fn regroup(ctx: &TracePointContext) {
    // SAFETY: the offset lies within the tracepoint's record.
    match unsafe { ctx.read_at::<u64>(SETPGID_PID) } {
        Ok(0) => leave_group(),
        Ok(pid) => record_only(pid as u32),
        Err(_) => {}
    }
}

/// The current process leaves its process group.
#[inline(always)]
pub(crate) fn leave_group() {
    if let Some(current) = config().and_then(Current::now) {
        record_only(current.tgid);
    }
}

/// A listed process is not stopped from now on.
#[inline(always)]
fn record_only(tgid: u32) {
    if how(tgid).is_some() {
        // It replaces an element, so the map cannot be full.
        let _ = TARGETS.insert(tgid, Watched::Recorded as u8, 0);
    }
}
