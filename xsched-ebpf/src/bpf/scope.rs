//! Whose calls are recorded.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use aya_ebpf::programs::TracePointContext;
use xsched_abi::{Config, Counter, Scope};

use crate::count::count;

#[map]
static CONFIG: Array<Config> = Array::with_max_entries(1, 0);

/// Watched thread groups, where the scope is a list.
#[map]
static TARGETS: HashMap<u32, u8> = HashMap::with_max_entries(16384, 0);

/// Offsets of the fields of `task:task_newtask` behind the eight common bytes; the same in every kernel since 3.4.
const NEWTASK_PID: usize = 8;
const NEWTASK_CLONE_FLAGS: usize = 32;

/// `CLONE_THREAD`: the new task is a thread of the same process.
const CLONE_THREAD: u64 = 0x0001_0000;

/// The current thread.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
}

impl Current {
    /// The current thread, if its process is watched.
    #[inline(always)]
    pub(crate) fn watched() -> Option<Self> {
        let id = bpf_get_current_pid_tgid();
        let current = Self { tgid: (id >> 32) as u32, tid: id as u32 };
        let config = CONFIG.get(0)?;
        if config.own_tgid == current.tgid {
            return None;
        }
        (config.scope == Scope::Everybody as u32 || listed(current.tgid)).then_some(current)
    }
}

#[inline(always)]
fn listed(tgid: u32) -> bool {
    TARGETS.get_ptr(tgid).is_some()
}

/// A watched process has made a child: the child is watched too.
#[inline(always)]
pub(crate) fn follow(ctx: &TracePointContext) {
    let Some(config) = CONFIG.get(0) else { return };
    if config.scope != Scope::ListedAndChildren as u32 || !listed((bpf_get_current_pid_tgid() >> 32) as u32) {
        return;
    }
    // SAFETY: both offsets lie within the tracepoint's record.
    let (child, flags) =
        unsafe { (ctx.read_at::<u32>(NEWTASK_PID), ctx.read_at::<u64>(NEWTASK_CLONE_FLAGS)) };
    let (Ok(child), Ok(flags)) = (child, flags) else { return };
    if flags & CLONE_THREAD == 0 && TARGETS.insert(child, 1, 0).is_err() {
        count(Counter::TargetsFull);
    }
}
