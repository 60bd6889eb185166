//! Stacks that cannot be walked here yet: they go to user space as copies, each chain once.
//!
//! Which stacks are equal if their frames are unknown? A walk reads return addresses, which point into code, and saved frame pointers,
//! which point into the stack. So a digest over every word that points into either, with its position, distinguishes all stacks
//! whose walks could differ. It distinguishes more, since many such words are read by no walk. But a loop leaves most of them
//! unchanged, and its launches need one snapshot.

use aya_ebpf::helpers::bpf_probe_read_user_buf;
use aya_ebpf::macros::map;
use aya_ebpf::maps::RingBuf;
use xsched_abi::chain::{REPLACED_MAX, Range, Replaced, SNAPSHOT_MAX, chain_seed, mix};
use xsched_abi::{Counter, RecordKind, Snapshot};
use xsched_protocol::return_probe::is_trampoline;

use crate::count::count;
use crate::events::{now_ns, wakeup};
use crate::scratch::{Scratch, WINDOW, refill};
use crate::shadow;
use crate::shipped::{begin_shipping, cancel_shipping, has_sent};
use crate::space;

/// Snapshots for user space, which sets the size.
#[map]
static SNAPSHOTS: RingBuf = RingBuf::with_byte_size(1 << 23, 0);

/// Windows in one snapshot; the last ones may be short.
const WINDOWS: usize = SNAPSHOT_MAX / WINDOW;

/// Windows of any size until the end of the stack.
const REFILLS: usize = WINDOWS + 8 + 32;

/// Sizes of snapshots of stacks that are not deep: a reservation takes its whole size of the ring.
const SHORT: usize = SNAPSHOT_MAX / 8;
const MIDDLE: usize = SNAPSHOT_MAX / 2;

#[repr(C)]
struct WithStack<const N: usize> {
    snapshot: Snapshot,
    stack: [u8; N],
}

/// Ships the stack above the registers in `scratch`, unless one with the same chain has been shipped; returns the chain's id, or 0
/// if the ring is full.
///
/// A function of its own: the stack of a program and of the functions that it calls is 512 bytes in total.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn take_snapshot(scratch: *mut Scratch, tgid: u32) -> u64 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let len = digest(scratch, tgid);
    let chain = scratch.digest | 1;
    if !begin_shipping(chain) {
        return chain;
    }
    let sent = if len <= SHORT as u64 {
        send::<SHORT>(scratch, tgid)
    } else if len <= MIDDLE as u64 {
        send::<MIDDLE>(scratch, tgid)
    } else {
        send::<SNAPSHOT_MAX>(scratch, tgid)
    };
    if sent {
        has_sent(chain);
        return chain;
    }
    cancel_shipping(chain);
    count(Counter::SnapshotRingFull);
    0
}

/// Leaves the digest in `scratch`, and in `replaced` the replaced return addresses. Returns the length of the readable part of the
/// stack.
#[inline(always)]
fn digest(scratch: &mut Scratch, tgid: u32) -> u64 {
    if scratch.space.generation == 0 {
        // No mapping is known: every word that looks like a pointer may point into code.
        scratch.space.ranges[0] = Range { start: 1 << 32, end: 1 << 47 };
    }
    scratch.digest = mix(chain_seed(tgid, scratch.space.generation), scratch.rip);
    scratch.digest = mix(mix(scratch.digest, scratch.rsp), space::change_count(tgid));
    if scratch.rbp.wrapping_sub(scratch.rsp) < SNAPSHOT_MAX as u64 {
        scratch.digest = mix(scratch.digest, scratch.rbp);
    }
    scratch.replaced_count = 0;
    let mut len = 0;
    for _ in 0..REFILLS {
        if len >= SNAPSHOT_MAX as u64 {
            break;
        }
        let address = scratch.rsp.wrapping_add(len);
        let read = refill(scratch, address);
        if read == 0 {
            break;
        }
        digest_window(scratch, address);
        len += read;
    }
    scratch.len = len.min(SNAPSHOT_MAX as u64);
    scratch.len
}

/// Digests the window, which holds the stack at `address`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn digest_window(scratch: *mut Scratch, address: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let [low, high] = scratch.space.ranges;
    let (rsp, len) = (scratch.rsp, scratch.window_len());
    let mut digest = scratch.digest;
    for index in 0..WINDOW / 8 {
        if 8 * index as u64 >= len {
            break;
        }
        let word = scratch.window[index];
        let is_code = word.wrapping_sub(low.start) < low.end.wrapping_sub(low.start)
            || word.wrapping_sub(high.start) < high.end.wrapping_sub(high.start);
        if is_code || word.wrapping_sub(rsp) < SNAPSHOT_MAX as u64 {
            digest = mix(mix(digest, word), address.wrapping_add(8 * index as u64));
        }
        if is_trampoline(word) {
            scratch.digest = digest;
            digest_replaced(scratch, address.wrapping_add(8 * index as u64));
            digest = scratch.digest;
        }
    }
    scratch.digest = digest;
    1
}

/// Digests and notes the return address that a return probe has replaced at a slot of the stack.
///
/// A function of its own: the verifier would follow each of its branches for each word of a window.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn digest_replaced(scratch: *mut Scratch, slot: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let Some(address) = shadow::find(scratch.tid, slot) else { return 0 };
    scratch.digest = mix(mix(scratch.digest, address), slot);
    let n = scratch.replaced_count as usize;
    if n < REPLACED_MAX {
        scratch.replaced[n] = Replaced { slot, address };
        scratch.replaced_count = n as u32 + 1;
    }
    1
}

/// Ships the first bytes of the stack, as far as the digest found it readable. Returns false if the ring is full.
#[inline(always)]
fn send<const N: usize>(scratch: &mut Scratch, tgid: u32) -> bool {
    let Some(mut entry) = SNAPSHOTS.reserve::<WithStack<N>>(0) else { return false };
    let record: *mut WithStack<N> = entry.as_mut_ptr();
    let len = scratch.len;
    // Field by field: the record does not fit on the stack beside those of the callers.
    // SAFETY: the reservation is as large as the record, and private to this program before it is submitted.
    unsafe {
        let snapshot = &raw mut (*record).snapshot;
        (*snapshot).kind = RecordKind::Snapshot as u32;
        (*snapshot).tgid = tgid;
        (*snapshot).chain = scratch.digest | 1;
        (*snapshot).generation = scratch.space.generation;
        (*snapshot).time_ns = now_ns();
        (*snapshot).rip = scratch.rip;
        (*snapshot).rsp = scratch.rsp;
        (*snapshot).rbp = scratch.rbp;
        (*snapshot).len = len as u32;
        (*snapshot).replaced_count = scratch.replaced_count;
        (*snapshot).replaced = scratch.replaced;
    }
    for n in 0..N / WINDOW {
        let offset = n * WINDOW;
        if offset as u64 >= len {
            break;
        }
        let rest = len - offset as u64;
        let piece = if rest >= WINDOW as u64 { WINDOW } else { rest as usize % WINDOW };
        // SAFETY: the piece lies within the reservation; the helper checks the user address, and clears bytes that it cannot
        // read.
        unsafe {
            let to = (&raw mut (*record).stack).cast::<u8>().add(offset);
            let to = core::slice::from_raw_parts_mut(to, piece);
            let _ = bpf_probe_read_user_buf((scratch.rsp + offset as u64) as *const u8, to);
        }
    }
    entry.submit(wakeup(&SNAPSHOTS, size_of::<WithStack<N>>()));
    true
}
