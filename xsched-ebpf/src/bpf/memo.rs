//! Remembered walks.
//!
//! A program launches from the same call sites again and again. An element holds one walk: where it began, every word of the stack
//! that it depended on, and the chain that resulted. If all these words and the process's mappings are unchanged, the walk would give
//! the same result: a hit is exact.
//!
//! Elements are in sets of four. Two things choose the set: where a walk begins, and one more word of the stack. A Python program
//! reaches one launch, at one depth, along many paths, and that word tells the paths apart. Which word does is learnt: when a set
//! is full, another word is tried (`HINTS`).
//!
//! Elements are large and scattered, so each cache line of an element is probably cold. What a reader needs first lies together
//! elsewhere (`SETS`): for each element a hash, and a sequence number that is odd while a program writes the element. A reader
//! compares the sequence before and after. For the same reason, a walk is remembered only when it is made for the second time.
//! The first time leaves only a mark, in memory that is warm by then.
//!
//! The tracer has both maps in its memory: it publishes walks to processes that record calls themselves.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use core::sync::atomic::{Ordering, compiler_fence};
use xsched_abi::chain::{chain_seed, mix};
use xsched_abi::memo::{SET_COUNT, Start, WAYS, WORDS_MAX, Walk, Way};

use crate::atomic;
use crate::scratch::Scratch;
use crate::words::{words_agree, write_words};

#[map]
static MEMO: Array<Walk> = Array::with_max_entries(SET_COUNT * WAYS, BPF_F_MMAPABLE);

#[map]
static SETS: Array<[Way; WAYS as usize]> = Array::with_max_entries(SET_COUNT, BPF_F_MMAPABLE);

/// For each start of walks: how far above the stack pointer the word lies that chooses the set, or 0 if none does.
#[map]
static HINTS: Array<u32> = Array::with_max_entries(HINTS_COUNT, 0);

const HINTS_COUNT: u32 = 1 << 12;

const _: () = assert!(size_of::<[Way; WAYS as usize]>() == 64, "a set is one line of the processor's cache");

/// The key that selects a set.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Key {
    start: Start,
    rbp: u64,
    start_hash: u64,
    hash: u64,
}

/// The key for a walk that begins with the registers in `scratch`.
#[inline(always)]
fn key(scratch: &Scratch, tgid: u32) -> Key {
    let generation = scratch.space.generation;
    let start = Start { generation, rip: scratch.rip, rsp: scratch.rsp, tgid: tgid.into() };
    let start_hash = mix(mix(chain_seed(tgid, generation), scratch.rip), scratch.rsp);
    let hint = HINTS.get(start_hash as u32 % HINTS_COUNT).map_or(0, |hint| *hint);
    let word = match hint {
        0 => 0,
        // SAFETY: the helper checks the user address.
        _ => unsafe { bpf_probe_read_user((scratch.rsp + u64::from(hint)) as *const u64) }.unwrap_or(0),
    };
    Key { start, rbp: scratch.rbp, start_hash, hash: mix(start_hash, word) }
}

/// The chain of a remembered walk that began with the registers in `scratch`, or 0. Leaves the key in `scratch`.
///
/// A function of its own: the stack of a program and of the functions that it calls is 512 bytes in total.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn find_walk(scratch: *mut Scratch, tgid: u32) -> u64 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    scratch.memo = key(scratch, tgid);
    find(scratch)
}

#[inline(always)]
fn find(scratch: &mut Scratch) -> u64 {
    let key = scratch.memo;
    let set = key.hash as u32 % SET_COUNT;
    let Some(ways) = SETS.get(set) else { return 0 };
    for index in 0..WAYS {
        let way = &ways[index as usize];
        if way.hash != key.hash {
            continue;
        }
        let Some(walk) = MEMO.get_ptr_mut(set * WAYS + index) else { break };
        // SAFETY: the map owns the element. A value that a writer changes meanwhile is not used: see below.
        let walk = unsafe { &mut *walk };
        let sequence = read_sequence(way);
        if sequence & 1 == 0
            && walk.start == key.start
            && (walk.uses_rbp == 0 || walk.rbp == key.rbp)
            && words_agree(&raw mut walk.words, scratch) != 0
        {
            let chain = walk.chain;
            if read_sequence(way) == sequence {
                return chain;
            }
        }
    }
    0
}

#[inline(always)]
fn read_sequence(way: &Way) -> u32 {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the reference is valid.
    let sequence = unsafe { core::ptr::read_volatile(&raw const way.sequence) };
    compiler_fence(Ordering::SeqCst);
    sequence
}

/// Remembers the walk in `scratch`, under the key that [`find_walk`] has left there.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn store_walk(scratch: *mut Scratch) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    if let Some(scratch) = unsafe { scratch.as_mut() } {
        let key = scratch.memo;
        store(scratch, &key);
    }
    0
}

#[inline(always)]
fn store(scratch: &mut Scratch, key: &Key) {
    let count = scratch.word_count as usize;
    if count == 0 || count > WORDS_MAX {
        return;
    }
    // A value that differs from walk to walk.
    scratch.walk_count = scratch.walk_count.wrapping_add(1);
    let salt = mix(scratch.walk_count, scratch.first_rsp) as u32;
    let mut hash = key.hash;
    if !was_made_before(hash, salt) {
        return;
    }
    let index = match way_for(hash, salt) {
        Some(index) => index,
        None => {
            // The set is full of walks with this start: another word is to choose the set.
            let pick = salt as usize % WORDS_MAX;
            let index = if pick < count { pick } else { count / 2 };
            let offset = scratch.word_offsets[index % WORDS_MAX];
            if let Some(hint) = HINTS.get_ptr_mut(key.start_hash as u32 % HINTS_COUNT) {
                // SAFETY: the map owns the element; a race leaves one of two words that are both suitable.
                unsafe { *hint = offset };
            }
            hash = mix(key.start_hash, scratch.word_values[index % WORDS_MAX]);
            (salt >> 8) % WAYS
        }
    };
    let set = hash as u32 % SET_COUNT;
    let (Some(ways), Some(walk)) = (SETS.get_ptr_mut(set), MEMO.get_ptr_mut(set * WAYS + index)) else {
        return;
    };
    // SAFETY: the map owns the element. The index is below the bound already, but the verifier has to see that.
    let way = unsafe { &raw mut (*ways)[(index % WAYS) as usize] };
    write(way, walk, scratch, key, hash);
}

/// Whether the key's set has a mark of it. If not, adds one in place of another, which `salt` selects.
#[inline(always)]
fn was_made_before(hash: u64, salt: u32) -> bool {
    let mark = (hash >> 32) as u32;
    let Some(ways) = SETS.get_ptr_mut(hash as u32 % SET_COUNT) else { return false };
    for index in 0..WAYS as usize {
        // SAFETY: the map owns the element.
        if unsafe { core::ptr::read_volatile(&raw const (*ways)[index].made_once) } == mark {
            return true;
        }
    }
    // SAFETY: as above; the index is below the bound. If several programs write, one of the marks stays.
    unsafe { core::ptr::write_volatile(&raw mut (*ways)[((salt >> 16) % WAYS) as usize].made_once, mark) };
    false
}

/// A way of the key's set that is free, or else one that holds a walk of another key; `salt` selects which.
#[inline(always)]
fn way_for(hash: u64, salt: u32) -> Option<u32> {
    let ways = SETS.get(hash as u32 % SET_COUNT)?;
    let mut chosen = None;
    for n in 0..WAYS {
        let index = n.wrapping_add(salt) % WAYS;
        let way = &ways[index as usize];
        if way.sequence == 0 {
            return Some(index);
        }
        if way.hash != hash {
            chosen = Some(index);
        }
    }
    chosen
}

#[inline(always)]
fn write(way: *mut Way, walk: *mut Walk, scratch: &mut Scratch, key: &Key, hash: u64) {
    // SAFETY: the map owns the element; the sequence is only changed atomically.
    let (sequence, owned) = unsafe {
        let sequence = core::ptr::read_volatile(&raw const (*way).sequence);
        (
            sequence,
            sequence & 1 == 0
                && atomic::replace(&raw mut (*way).sequence, sequence, sequence.wrapping_add(1)),
        )
    };
    if !owned {
        return;
    }
    // SAFETY: the exchange has made this program the only writer; readers check the sequence again.
    let (way, walk) = unsafe { (&mut *way, &mut *walk) };
    way.hash = hash;
    walk.chain = scratch.stack.chain;
    walk.start = key.start;
    walk.rbp = key.rbp;
    walk.uses_rbp = scratch.uses_first_rbp;
    // Only the used words, because the others' lines are cold.
    write_words(&raw mut walk.words, scratch);
    atomic::store(&mut way.sequence, sequence.wrapping_add(2));
}
