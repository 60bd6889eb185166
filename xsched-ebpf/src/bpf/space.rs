//! The code of a process, and the unwind rows for it: look-ups in the maps that user space fills.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{self, ArrayOfMaps};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::{Array, HashMap};
use aya_ebpf::programs::TracePointContext;
use xsched_abi::chain::{
    CHANGES_COUNT, CHUNK_BITS, CHUNK_ROWS, CHUNKS_MAX, Changes, MAPPINGS_BITS, MAPPINGS_MAX, PAGES_MAX, Page,
    SPACES_MAX,
};
use xsched_abi::unwind::{PAGE_BITS, Row};
use xsched_abi::{ChainEnd, Code, CodeState, Space};

use crate::atomic;
use crate::events::now_ns;
use crate::row_cache;
use crate::scope::Current;
use crate::scratch::Scratch;

#[map]
static SPACES: HashMap<u32, Space> = HashMap::with_max_entries(SPACES_MAX, 0);

#[map]
static MAPPINGS: Array<Code> = Array::with_max_entries(MAPPINGS_MAX, BPF_F_MMAPABLE);

#[map]
static PAGES: Array<Page> = Array::with_max_entries(PAGES_MAX, BPF_F_MMAPABLE);

type Chunk = btf_maps::Array<u64, { CHUNK_ROWS as usize }, { BPF_F_MMAPABLE as usize }>;

/// Rows, a [`Row`] in each `u64`. Chunks are made when they are needed.
#[btf_map]
static CHUNKS: ArrayOfMaps<Chunk, { CHUNKS_MAX as usize }> = ArrayOfMaps::new();

#[map]
static CHANGES: Array<Changes> = Array::with_max_entries(CHANGES_COUNT, 0);

/// Threads in a system call that maps code.
#[map]
static MAPPING: HashMap<u32, u8> = HashMap::with_max_entries(4096, 0);

/// Offset of `prot` in `syscalls:sys_enter_mmap` and `syscalls:sys_enter_mprotect`.
const PROT: usize = 32;

const PROT_EXEC: u64 = 4;

/// The mappings of a process. Copied, since the map may give the element to another process at any time; users of the copy check at
/// the end whether it is still current.
#[inline(always)]
pub(crate) fn of(tgid: u32) -> Option<Space> {
    // SAFETY: see above.
    SPACES.get_ptr(tgid).map(|space| unsafe { *space })
}

/// Whether results that are based on `space` are right: its mappings have not been replaced meanwhile.
#[inline(always)]
pub(crate) fn is_current(tgid: u32, space: &Space) -> bool {
    of(tgid).is_some_and(|now| now.version == space.version)
}

/// Whether a process has mapped code of which user space does not know yet.
#[inline(always)]
pub(crate) fn is_stale(tgid: u32, space: &Space) -> bool {
    match CHANGES.get(tgid % CHANGES_COUNT) {
        Some(changes) => changes.entered != changes.returned || changes.last_ns > space.seen_ns,
        None => true,
    }
}

/// How often a process, or one that shares its element, has begun to map code. Addresses that are shipped before user space knows of
/// the mapping may have one meaning before it and another after.
#[inline(always)]
pub(crate) fn change_count(tgid: u32) -> u64 {
    CHANGES.get(tgid % CHANGES_COUNT).map_or(0, |changes| changes.entered)
}

/// A child begins with its parent's mappings, unless those are out of date.
#[inline(always)]
pub(crate) fn inherit(parent: u32, child: u32) {
    if let Some(space) = of(parent)
        && !is_stale(parent, &space)
    {
        // If it does not fit, the child's stacks are shipped whole until user space has inserted its own.
        let _ = SPACES.insert(child, space, 0);
    }
}

/// A system call that maps memory or changes its protection begins.
#[inline(always)]
pub(crate) fn map_enter(ctx: &TracePointContext) {
    // SAFETY: the offset lies within the tracepoint's record.
    match unsafe { ctx.read_at::<u64>(PROT) } {
        Ok(prot) if prot & PROT_EXEC != 0 => {}
        _ => return,
    }
    if let Some(current) = Current::any()
        && MAPPING.insert(current.tid, 1, 0).is_ok()
        && let Some(changes) = CHANGES.get_ptr_mut(current.tgid % CHANGES_COUNT)
    {
        // SAFETY: the map owns the element, and counts are only added to.
        unsafe { atomic::add(&raw mut (*changes).entered, 1) };
    }
}

/// The system call returns. Returns the process that may have mapped code, if any.
#[inline(always)]
pub(crate) fn map_leave() -> Option<u32> {
    let current = Current::any()?;
    if MAPPING.remove(current.tid).is_err() {
        return None;
    }
    if let Some(changes) = CHANGES.get_ptr_mut(current.tgid % CHANGES_COUNT) {
        // SAFETY: as above. The time is written first: between the two writes the count alone shows that a change is under way.
        unsafe {
            core::ptr::write_volatile(&raw mut (*changes).last_ns, now_ns());
            atomic::add(&raw mut (*changes).returned, 1);
        }
    }
    Some(current.tgid)
}

/// Value of [`find_row`] where there is no row: above every rule, combined with a [`ChainEnd`] or [`NEEDS_TABLE`].
pub(crate) const NO_ROW: u64 = 1 << 63;

/// In place of a [`ChainEnd`]: user space has not made the table yet.
pub(crate) const NEEDS_TABLE: u32 = 0x100;

/// The row of an address. `Err` holds how the walk ends there.
#[inline(always)]
pub(crate) fn row(scratch: &mut Scratch, address: u64) -> Result<Row, u32> {
    let generation = scratch.space.generation;
    let found = match row_cache::find(generation, address) {
        Some(row) => row,
        None => {
            let found = find_row(scratch, address);
            if found == NO_ROW {
                return Err(scratch.no_row);
            }
            if is_current(scratch.stack.tgid, &scratch.space) {
                row_cache::store(generation, address, found);
            }
            found
        }
    };
    // SAFETY: a row is plain data of this size, and every bit pattern is valid.
    Ok(unsafe { core::mem::transmute::<u64, Row>(found) })
}

/// Finds the row of an address, and leaves the mapping in `scratch`. With [`NO_ROW`] it leaves the reason there.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn find_row(scratch: *mut Scratch, address: u64) -> u64 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return NO_ROW };
    scratch.no_row = ChainEnd::UnknownCode as u32;
    if !(scratch.code.start..scratch.code.end).contains(&address) {
        let first = u64::from(scratch.space.first);
        let end = first + u64::from(scratch.space.count);
        let starts_before = |index| MAPPINGS.get(index).is_some_and(|code| code.start <= address);
        match last_that(first, end, MAPPINGS_BITS, starts_before).and_then(|index| MAPPINGS.get(index)) {
            Some(code) if address < code.end => keep(&mut scratch.code, code),
            _ => return NO_ROW,
        }
    }
    let code = &scratch.code;
    if code.state != CodeState::Tabled as u32 {
        scratch.no_row = if code.state == CodeState::Wanted as u32 {
            NEEDS_TABLE
        } else if code.state == CodeState::Generated as u32 {
            ChainEnd::Generated as u32
        } else {
            ChainEnd::NoTable as u32
        };
        return NO_ROW;
    }
    scratch.no_row = ChainEnd::NoRule as u32;
    let in_file = address.wrapping_sub(code.bias);
    let page = (in_file >> PAGE_BITS).wrapping_sub(code.page_first.into());
    if page >= code.page_count.into() {
        return NO_ROW;
    }
    let Some(page) = PAGES.get(code.pages.wrapping_add(page as u32)) else { return NO_ROW };
    let Some(chunk) = CHUNKS.get(page.row >> CHUNK_BITS) else { return NO_ROW };
    let first = u64::from(page.row % CHUNK_ROWS);
    let end = first + u64::from(page.count);
    let pc_low = in_file as u16;
    let begins_before = |index| chunk.get(index).is_some_and(|row| *row as u16 <= pc_low);
    match last_that(first, end, PAGE_BITS, begins_before).and_then(|index| chunk.get(index)) {
        Some(row) => *row,
        None => NO_ROW,
    }
}

/// Copies a mapping field by field. As a whole it would be copied by a function call, for whose frame the 512 bytes of stack of
/// Linux 6.1 leave no space.
#[inline(always)]
fn keep(kept: &mut Code, code: &Code) {
    kept.start = code.start;
    kept.end = code.end;
    kept.bias = code.bias;
    kept.pages = code.pages;
    kept.page_first = code.page_first;
    kept.page_count = code.page_count;
    kept.state = code.state;
}

/// The last index of `first..end` for which `holds`, where it holds up to some index and for none after it; at most
/// 2^`bits` indices.
///
/// Like `xsched_abi::unwind::search`, but with counters of 64 bits. The compiler spills a smaller counter next to the index that
/// is passed to a helper. The verifier then loses track of the counter and finds no end of the loop.
#[inline(always)]
fn last_that(first: u64, end: u64, bits: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (first, end);
    for _ in 0..=u64::from(bits) {
        if low >= high {
            break;
        }
        let middle = low.wrapping_add(high.wrapping_sub(low) >> 1);
        if holds(middle as u32) {
            low = middle.wrapping_add(1);
        } else {
            high = middle;
        }
    }
    if low > first { Some(low.wrapping_sub(1) as u32) } else { None }
}
