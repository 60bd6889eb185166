//! Stacks that cannot be walked here yet: they go to user space as copies, each chain once.
//!
//! Which stacks are equal if their frames are unknown? A walk reads return addresses, which point into code, and saved frame pointers,
//! which point into the stack. So a digest over every word that points into either, with its position, distinguishes all stacks
//! whose walks could differ. It distinguishes more, since many such words are read by no walk. But a loop leaves most of them
//! unchanged, and its launches need one snapshot.
//!
//! A snapshot has these words and no others (`xsched_abi::snapshot`), since a stack may have frames of tens of kilobytes. Where not all
//! code of the process is known, it has every word that may be an address.

use aya_ebpf::helpers::bpf_probe_read_user_buf;
use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_ringbuf_output};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, RingBuf};
use xsched_abi::chain::{Range, chain_seed, mix};
use xsched_abi::snapshot::{REPLACED_MAX, Replaced, SNAPSHOT_MAX, WINDOW, WINDOW_BITS, WORDS_MAX};
use xsched_abi::{Counter, RecordKind, Snapshot};
use xsched_protocol::return_probe::is_trampoline;

use crate::atomic;
use crate::count::count;
use crate::events::{now_ns, wakeup};
use crate::scratch::Scratch;
use crate::shadow;
use crate::shipped::{begin_shipping, cancel_shipping, has_sent};
use crate::space;

/// Snapshots for user space, which sets the size.
#[map]
static SNAPSHOTS: RingBuf = RingBuf::with_byte_size(1 << 23, 0);

/// Memory in which snapshots are put together. A pool like that of walks.
#[map]
static GATHERED: Array<Gathered> = Array::with_max_entries(GATHERED_COUNT, 0);

/// One for each processor of a large machine: a program needs it only for a snapshot that has not been shipped.
const GATHERED_COUNT: u32 = 128;

/// Elements that are tried before giving up.
const TRIES: u32 = 16;

/// Windows of a snapshot; the first may be short.
const WINDOWS: usize = SNAPSHOT_MAX / WINDOW + 1;

/// Windows in a row that cannot be read before the stack counts as ended, unless a word points behind them: 68 KiB. The pages of a large
/// frame are not there if they were never used. But to find out that a page is not there takes a microsecond.
const MISSING_MAX: u32 = 34;

/// Bits of an index of a snapshot's words. There is space for all: the verifier needs to see it at each word.
const MASK: u64 = WORDS_MAX as u64 - 1;

const PAGE: u64 = 4096;

/// A snapshot that is being put together.
#[repr(C)]
pub struct Gathered {
    owner: u64,
    /// Where words point that are kept: into code, and into the stack.
    kept: [Span; 3],
    /// Of the window that is being added: words of the snapshot without and with it, and a bit for each word that is kept and for each that is zero.
    begin: u64,
    count: u64,
    kept_bits: u64,
    zero_bits: u64,
    snapshot: Snapshot,
    words: [u64; WORDS_MAX],
}

/// A range of addresses as words are compared with it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Span {
    start: u64,
    /// A word that is this far from the start or farther is outside.
    size: u64,
}

impl Span {
    /// All addresses of a range, and its end: the last instruction may be a call, and return there. None of an empty one.
    #[inline(always)]
    fn of(range: Range) -> Self {
        let size = range.end.wrapping_sub(range.start);
        Self { start: range.start, size: if size == 0 { 0 } else { size.wrapping_add(1) } }
    }

    /// 1 if a word lies in it. Arithmetic: the verifier would follow both branches for each word of a window, and the processor would
    /// often take the wrong one.
    #[inline(always)]
    fn contains(self, word: u64) -> u64 {
        let distance = word.wrapping_sub(self.start);
        // The size is below 1 << 63.
        (distance.wrapping_sub(self.size) & !distance) >> 63
    }
}

/// Whether a word may be an address of user space: most words of a stack are not.
#[inline(always)]
fn may_be_address(word: u64) -> bool {
    word.wrapping_sub(PAGE) < (1 << 47) - PAGE
}

/// Ships the stack above the registers in `scratch`, unless one with the same chain has been shipped; returns the chain's id, or 0
/// if there was no space for it. `is_sure`: all code of the process is known.
///
/// A function of its own: the stack of a program and of the functions that it calls is 512 bytes in total.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn take_snapshot(scratch: *mut Scratch, tgid: u32, is_sure: u32) -> u64 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    digest(scratch, tgid);
    let chain = scratch.digest | 1;
    if !begin_shipping(chain) {
        return chain;
    }
    let Some(copy) = take() else {
        cancel_shipping(chain);
        count(Counter::WalksBusy);
        return 0;
    };
    let stack = Span { start: scratch.rsp, size: SNAPSHOT_MAX as u64 };
    copy.kept = if is_sure != 0 {
        let [low, high] = scratch.space.ranges;
        [Span::of(low), Span::of(high), stack]
    } else {
        // Every word that may be an address.
        let any = Span { start: 1 << 16, size: (1 << 47) - (1 << 16) };
        [any, any, stack]
    };
    copy.snapshot.tgid = tgid;
    gather(copy, scratch);
    let is_sent = send(copy, scratch);
    atomic::store(&mut copy.owner, 0);
    if is_sent {
        has_sent(chain);
        return chain;
    }
    cancel_shipping(chain);
    count(Counter::SnapshotRingFull);
    0
}

/// Takes an element of the pool.
#[inline(always)]
fn take() -> Option<&'static mut Gathered> {
    // SAFETY: the helper takes nothing. It only selects where the search begins.
    let first = unsafe { bpf_get_smp_processor_id() };
    for n in 0..TRIES {
        let copy = GATHERED.get_ptr_mut((first + n) % GATHERED_COUNT)?;
        // SAFETY: the map owns the element; the owner word is only changed atomically.
        if unsafe { atomic::replace(&raw mut (*copy).owner, 0, 1) } {
            // SAFETY: the exchange has made this program the only one that uses the element.
            return Some(unsafe { &mut *copy });
        }
    }
    None
}

/// Leaves the digest in `scratch`, and in `replaced` the replaced return addresses, and the length of the stack as far as it can be read.
#[inline(always)]
fn digest(scratch: &mut Scratch, tgid: u32) {
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
    scratch.missing_page = 0;
    scratch.len = 0;
    scratch.missing = 0;
    scratch.reach = 0;
    let mut address = scratch.rsp;
    for _ in 0..WINDOWS {
        if take_in(scratch, address) == 0 {
            break;
        }
        address = next_window(address);
    }
}

/// Reads and digests the window at an address. Returns 0 where the stack ends.
///
/// A function of its own: the verifier would follow each of its branches for each window.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_in(scratch: *mut Scratch, address: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    if address.wrapping_sub(scratch.rsp) >= SNAPSHOT_MAX as u64 {
        return 0;
    }
    if read_window(scratch, address) == 0 {
        scratch.missing += 1;
        let is_pointed_behind = address.wrapping_sub(scratch.rsp) < scratch.reach;
        return u32::from(scratch.missing <= MISSING_MAX || is_pointed_behind);
    }
    scratch.missing = 0;
    digest_window(scratch, address);
    scratch.len = next_window(address).wrapping_sub(scratch.rsp);
    1
}

#[inline(always)]
fn next_window(address: u64) -> u64 {
    (address & !(WINDOW as u64 - 1)).wrapping_add(WINDOW as u64)
}

/// Reads the stack from `address` on to the end of its window. Returns the number of bytes: all of them, as they lie on one page, or 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_window(scratch: *mut Scratch, address: u64) -> u64 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    scratch.window_at = address;
    scratch.window_len = 0;
    if address & 7 != 0 || address / PAGE == scratch.missing_page {
        return 0;
    }
    let len = WINDOW as u64 - address % WINDOW as u64;
    // The verifier of Linux 6.1 must see the comparison on the register that is passed on: see `words`.
    // SAFETY: the pointer is that of a local variable.
    let len = unsafe { core::ptr::read_volatile(&raw const len) };
    if len > WINDOW as u64 {
        return 0;
    }
    // SAFETY: the window has at least `len` bytes; the helper checks the user address.
    let read = unsafe {
        let window = core::slice::from_raw_parts_mut((&raw mut scratch.window).cast::<u8>(), len as usize);
        bpf_probe_read_user_buf(address as *const u8, window)
    };
    if read.is_err() {
        scratch.missing_page = address / PAGE;
        return 0;
    }
    scratch.window_len = len;
    len
}

/// Digests the window, which holds the stack at `address`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn digest_window(scratch: *mut Scratch, address: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let [low, high] = scratch.space.ranges;
    let (low, high) = (Span::of(low), Span::of(high));
    let stack = Span { start: scratch.rsp, size: SNAPSHOT_MAX as u64 };
    let len = scratch.window_len();
    let (mut digest, mut reach) = (scratch.digest, scratch.reach);
    for index in 0..WINDOW / 8 {
        if 8 * index as u64 >= len {
            break;
        }
        let word = scratch.window[index];
        if !may_be_address(word) {
            continue;
        }
        if low.contains(word) | high.contains(word) | stack.contains(word) != 0 {
            digest = mix(mix(digest, word), address.wrapping_add(8 * index as u64));
            let distance = word.wrapping_sub(stack.start);
            if distance < stack.size && distance > reach {
                reach = distance;
            }
        }
        if is_trampoline(word) {
            scratch.digest = digest;
            digest_replaced(scratch, address.wrapping_add(8 * index as u64));
            digest = scratch.digest;
        }
    }
    scratch.digest = digest;
    scratch.reach = reach;
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

/// Puts the words of the stack into `copy`, as far as the digest found it readable or as there is space.
#[inline(always)]
fn gather(copy: &mut Gathered, scratch: &mut Scratch) {
    copy.snapshot.word_count = 0;
    copy.snapshot.len = 0;
    scratch.missing_page = 0;
    let mut address = scratch.rsp;
    for _ in 0..WINDOWS {
        read_window(scratch, address);
        if gather_window(copy, scratch, address) == 0 {
            break;
        }
        address = next_window(address);
    }
}

/// Appends the words of the window, which holds the stack at `address`, that are kept. Returns 0 at the end, or if there is no space.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn gather_window(copy: *mut Gathered, scratch: *mut Scratch, address: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(copy) = (unsafe { copy.as_mut() }) else { return 0 };
    // SAFETY: as above.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let is_full = copy.snapshot.word_count > (WORDS_MAX - 2 * WINDOW_BITS - WINDOW / 8) as u32;
    if address.wrapping_sub(scratch.rsp) >= scratch.len || is_full {
        return 0;
    }
    let len = scratch.window_len();
    copy.begin = copy.snapshot.word_count.into();
    copy.count = copy.begin.wrapping_add(2 * WINDOW_BITS as u64);
    for part in 0..WINDOW_BITS {
        store(&mut copy.kept_bits, 0);
        store(&mut copy.zero_bits, 0);
        for bit in 0..64 {
            let index = 64 * part + bit;
            if 8 * index as u64 >= len {
                break;
            }
            let word = scratch.window[index];
            if may_be_address(word) {
                gather_word(copy, word, bit as u64);
            } else if word == 0 {
                let bits = load(&copy.zero_bits);
                store(&mut copy.zero_bits, bits | 1 << bit);
            }
        }
        // Loaded again: the compiler knows its bound and would leave out the masks, but the verifier of Linux 6.1 does not.
        let begin = load(&copy.begin);
        copy.words[(begin.wrapping_add(part as u64) & MASK) as usize] = copy.kept_bits;
        copy.words[(begin.wrapping_add((WINDOW_BITS + part) as u64) & MASK) as usize] = copy.zero_bits;
    }
    copy.snapshot.word_count = copy.count as u32;
    copy.snapshot.len = next_window(address).wrapping_sub(scratch.rsp) as u32;
    1
}

/// Appends a word if it is kept. `bit` is its own in this part of the window.
///
/// A function of its own: the verifier would follow what it leaves in registers for each word of a window.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn gather_word(copy: *mut Gathered, word: u64, bit: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(copy) = (unsafe { copy.as_mut() }) else { return 0 };
    let [low, high, stack] = copy.kept;
    let is_kept = low.contains(word) | high.contains(word) | stack.contains(word);
    let count = copy.count & MASK;
    // One that is not kept is overwritten by the next.
    copy.words[count as usize] = word;
    copy.count = count.wrapping_add(is_kept);
    copy.kept_bits |= is_kept << (bit & 63);
    1
}

/// Reads a word that stays in memory: the verifier would follow each value of a variable separately.
#[inline(always)]
fn load(word: &u64) -> u64 {
    // SAFETY: the reference is valid.
    unsafe { core::ptr::read_volatile(word) }
}

/// Writes such a word.
#[inline(always)]
fn store(word: &mut u64, value: u64) {
    // SAFETY: the reference is valid.
    unsafe { core::ptr::write_volatile(word, value) };
}

/// Ships what was put together. Returns false if the ring is full.
#[inline(always)]
fn send(copy: &mut Gathered, scratch: &Scratch) -> bool {
    // Field by field: the record does not fit on the stack beside those of the callers.
    let snapshot = &mut copy.snapshot;
    snapshot.kind = RecordKind::Snapshot as u32;
    snapshot.chain = scratch.digest | 1;
    snapshot.generation = scratch.space.generation;
    snapshot.time_ns = now_ns();
    snapshot.rip = scratch.rip;
    snapshot.rsp = scratch.rsp;
    snapshot.rbp = scratch.rbp;
    snapshot.replaced_count = scratch.replaced_count;
    snapshot.replaced = scratch.replaced;
    let count = u64::from(snapshot.word_count).min(WORDS_MAX as u64);
    let size = size_of::<Snapshot>() as u64 + 8 * count;
    let flags = wakeup(&SNAPSHOTS, size as usize);
    // SAFETY: the words follow the snapshot without a gap, so that many bytes are there.
    let sent = unsafe {
        bpf_ringbuf_output((&raw const SNAPSHOTS).cast_mut().cast(), (&raw mut *snapshot).cast(), size, flags)
    };
    sent == 0
}

const _: () = assert!(WORDS_MAX.is_power_of_two());
const _: () = assert!(
    core::mem::offset_of!(Gathered, words) - core::mem::offset_of!(Gathered, snapshot)
        == size_of::<Snapshot>()
);
