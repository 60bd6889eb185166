//! Holding a process in its loader until probes are in the runtime that it has just mapped; see `xsched_abi::loader`.

use aya_ebpf::bindings::BPF_RB_FORCE_WAKEUP;
use aya_ebpf::helpers::generated::{bpf_loop, bpf_probe_read_user_str};
use aya_ebpf::macros::map;
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::TracePointContext;
use xsched_abi::loader::{HOLD_NS, PATH_LEN_MAX};
use xsched_abi::{Counter, Held, LoaderStop, RUNTIME_NAME_MARK, RecordKind};

use crate::calls::{EVENTS, now_ns};
use crate::count::count;
use crate::scope::Current;

/// Thread groups that have opened what may be a runtime since user space last looked.
#[map]
static OPENED: HashMap<u32, u8> = HashMap::with_max_entries(4096, 0);

/// Thread groups that are held. User space deletes an entry to let its process go on.
#[map]
static HELD: HashMap<u32, Held> = HashMap::with_max_entries(4096, 0);

/// Offset of `filename` in `syscalls:sys_enter_openat`.
const OPENAT_FILENAME: usize = 24;

/// The most that `bpf_loop` offers. A round takes tens of nanoseconds, so the clock ends the wait first.
const ROUNDS_MAX: u32 = 1 << 23;

#[inline(always)]
pub(crate) fn note_open(ctx: &TracePointContext) {
    let Some(current) = Current::watched() else { return };
    // SAFETY: the offset lies within the tracepoint's record.
    let Ok(name) = (unsafe { ctx.read_at::<u64>(OPENAT_FILENAME) }) else { return };
    let mut path = [0u8; PATH_LEN_MAX];
    // SAFETY: the helper checks the user address and writes at most the buffer's size.
    let len = unsafe {
        bpf_probe_read_user_str((&raw mut path).cast(), PATH_LEN_MAX as u32, name as *const core::ffi::c_void)
    };
    if len > 0 && has_mark(&path) {
        let _ = OPENED.insert(current.tgid, 1, 0);
    }
}

#[inline(always)]
fn has_mark(path: &[u8; PATH_LEN_MAX]) -> bool {
    // A window of eight bytes slides along the path.
    let mut window = 0u64;
    for &byte in path {
        window = window >> 8 | u64::from(byte) << 56;
        if window == RUNTIME_NAME_MARK {
            return true;
        }
    }
    false
}

#[repr(C)]
struct Wait {
    tgid: u32,
    until_ns: u64,
    expired: bool,
}

/// One round of the wait: 1 ends it.
extern "C" fn round(_index: u32, wait: *mut Wait) -> i64 {
    // SAFETY: `hold` passes its own `Wait`, which outlives the loop.
    let wait = unsafe { &mut *wait };
    if HELD.get_ptr(wait.tgid).is_none() {
        return 1;
    }
    wait.expired = now_ns() > wait.until_ns;
    i64::from(wait.expired)
}

#[inline(always)]
pub(crate) fn hold() {
    let Some(current) = Current::watched() else { return };
    if OPENED.get_ptr(current.tgid).is_none() {
        return;
    }
    let _ = OPENED.remove(current.tgid);
    let time_ns = now_ns();
    if HELD.insert(current.tgid, time_ns, 0).is_err() {
        return count(Counter::HoldExpired);
    }
    let stop = LoaderStop {
        kind: RecordKind::LoaderStop as u32,
        tgid: current.tgid,
        tid: current.tid,
        reserved: 0,
        time_ns,
    };
    match EVENTS.reserve::<LoaderStop>(0) {
        Some(mut entry) => {
            entry.write(stop);
            entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
        }
        None => {
            let _ = HELD.remove(current.tgid);
            return count(Counter::HoldExpired);
        }
    }
    let mut wait = Wait { tgid: current.tgid, until_ns: time_ns + HOLD_NS, expired: false };
    // SAFETY: the callback has the signature that bpf_loop wants and gets the context passed here.
    unsafe { bpf_loop(ROUNDS_MAX, round as *mut core::ffi::c_void, (&raw mut wait).cast(), 0) };
    if wait.expired {
        let _ = HELD.remove(current.tgid);
        count(Counter::HoldExpired);
    }
}
