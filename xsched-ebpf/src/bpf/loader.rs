//! Reporting that a runtime is being loaded, and stopping a process that has just mapped one; see
//! `xsched_abi::loader`.

use aya_ebpf::bindings::BPF_RB_FORCE_WAKEUP;
use aya_ebpf::helpers::generated::{bpf_probe_read_user_str, bpf_send_signal};
use aya_ebpf::macros::map;
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::TracePointContext;
use xsched_abi::loader::{HASH_EMPTY, PATH_LEN_MAX, hash_byte};
use xsched_abi::{Counter, LoaderStop, Opened, RUNTIME_NAME_MARKS, RecordKind};

use crate::count::count;
use crate::driver;
use crate::events::{EVENTS, now_ns};
use crate::scope::Current;

/// Thread groups that last opened a runtime without probes.
#[map]
static OPENING: HashMap<u32, u8> = HashMap::with_max_entries(4096, 0);

/// Hashes of the paths of probed files. User space adds to it.
#[map]
static KNOWN: HashMap<u64, u8> = HashMap::with_max_entries(4096, 0);

/// Offsets of `filename` and `flags` in `syscalls:sys_enter_openat`.
const OPENAT_FILENAME: usize = 24;
const OPENAT_FLAGS: usize = 32;

/// `O_WRONLY` and `O_RDWR`: the file is opened for writing.
const WRITES: u64 = 3;

/// `SIGSTOP` on every architecture that AMD's GPUs are used with.
pub(crate) const SIGSTOP: u32 = 19;

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
    if len <= 0 {
        return;
    }
    driver::note_open(current, &path);
    let hash = hash_if_marked(&raw const path);
    if hash == 0 {
        return;
    }
    // SAFETY: as above.
    if unsafe { ctx.read_at::<u64>(OPENAT_FLAGS) }.is_ok_and(|flags| flags & WRITES != 0) {
        // A file that is there afterwards has no probes.
        let _ = KNOWN.remove(hash);
        return;
    }
    if KNOWN.get_ptr(hash).is_some() {
        // The loader tries several folders and takes the last one.
        let _ = OPENING.remove(current.tgid);
        return;
    }
    let _ = OPENING.insert(current.tgid, 1, 0);
    match EVENTS.reserve::<Opened>(0) {
        Some(mut entry) => {
            let opened: *mut Opened = entry.as_mut_ptr();
            // Field by field: a second copy of the path does not fit on the program's stack.
            // SAFETY: the reservation is as large as the record, and private to this program before it is submitted.
            unsafe {
                (*opened).kind = RecordKind::Opened as u32;
                (*opened).tgid = current.tgid;
                (*opened).time_ns = now_ns();
                (*opened).hash = hash;
                (&raw mut (*opened).path).copy_from_nonoverlapping(&raw const path, 1);
            }
            entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
        }
        None => count(Counter::LateProbes),
    }
}

/// Hash of a path that contains one of the marks, or 0.
///
/// A function of its own, which the verifier checks once: it would follow what comes after the loop for each length that a path
/// can have.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hash_if_marked(path: *const [u8; PATH_LEN_MAX]) -> u64 {
    // SAFETY: callers pass a path, or the verifier's null.
    let Some(path) = (unsafe { path.as_ref() }) else { return 0 };
    let mut hash = HASH_EMPTY;
    let mut zeros = 0;
    // A window of eight bytes slides along the path.
    let mut window = 0u64;
    for &byte in path {
        if byte == 0 {
            break;
        }
        hash = hash_byte(hash, byte);
        window = window >> 8 | u64::from(byte) << 56;
        // Not by comparison: after one that holds, the verifier knows the value and follows it through the rest of the path.
        zeros |= highest_if_zero(window ^ RUNTIME_NAME_MARKS[0]);
        zeros |= highest_if_zero(window ^ RUNTIME_NAME_MARKS[1]);
    }
    if zeros >> 63 != 0 { hash } else { 0 }
}

/// A word whose highest bit is set if `word` is zero.
#[inline(always)]
const fn highest_if_zero(word: u64) -> u64 {
    word.wrapping_sub(1) & !word
}

#[inline(always)]
pub(crate) fn stop() {
    let Some(current) = Current::stoppable() else { return };
    if OPENING.get_ptr(current.tgid).is_none() {
        return;
    }
    let _ = OPENING.remove(current.tgid);
    // Without a record of the stop, the process would never be continued.
    let Some(mut entry) = EVENTS.reserve::<LoaderStop>(0) else { return count(Counter::LateProbes) };
    entry.write(LoaderStop { kind: RecordKind::LoaderStop as u32, tgid: current.tgid, time_ns: now_ns() });
    // First the signal, then the record. A reader of the record may answer with SIGCONT, which also cancels a stop that has not
    // taken effect yet (`prepare_signal` in <https://github.com/torvalds/linux/blob/v6.12/kernel/signal.c>). SAFETY: the helper
    // signals the current process; it takes no pointers.
    if unsafe { bpf_send_signal(SIGSTOP) } != 0 {
        count(Counter::LateProbes);
    }
    entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
}
