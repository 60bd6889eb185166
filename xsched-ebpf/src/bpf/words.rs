//! The words of the stack that a remembered walk depended on, and how they are read again: words that lie close are read together.
//!
//! Most frames are small: a few reads cover the words of forty of them. Some frames are several pages long, and the bytes between
//! their words are not needed. Which words are read together is planned when a walk is remembered, so that a later comparison only
//! follows the plan:
//!
//! ```text
//! stack   ─────[ 1  2   3 4 ]───────────────────────[ 5 ]──────────[ 6 7  8 ]────►
//! reads          └ at most a window, no large gaps    └ alone        └
//! slots          *1 2   3 4                          *5             *6 7  8      * begins the next read
//! ```
//!
//! No read touches a page without any of its words, so it succeeds if they can be read.

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use xsched_abi::memo::{BEGINS, READS_MAX, Read, WORDS_MAX, Words};
use xsched_protocol::return_probe::is_trampoline;

use crate::scratch::{NOT_REMEMBERED, Scratch, WINDOW};
use crate::shadow;

/// The plan so far. In memory rather than in variables: the verifier would follow each value of a variable separately.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Plan {
    /// The last read.
    read: Read,
    /// The number of reads.
    count: u32,
    reserved: u32,
}

/// Bytes between words up to which they are read together.
const GAP_MAX: u32 = 512;

/// Bytes before its first word at which a read begins: a saved frame pointer that is needed later lies lower, mostly next to the
/// return address.
const BEFORE: u32 = 64;

const PAGE: u64 = 4096;

const _: () = assert!(WINDOW / 8 <= 1 << 8 && READS_MAX <= 1 << 6);

/// 1 if the stack has all the words.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn words_agree(words: *mut Words, scratch: *mut Scratch) -> u32 {
    // SAFETY: callers pass an element of the map, or the verifier's null.
    let Some(words) = (unsafe { words.as_mut() }) else { return 0 };
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let count = words.count as usize;
    if count > WORDS_MAX {
        return 0;
    }
    for index in 0..WORDS_MAX {
        if index >= count {
            break;
        }
        let slot = words.slots[index];
        if slot & BEGINS != 0 && !fetch(scratch, words.reads[slot as usize >> 8 & (READS_MAX - 1)]) {
            return 0;
        }
        let position = slot as usize % (WINDOW / 8);
        let word = scratch.window[position];
        if word != words.values[index] && !has_replaced(scratch, position, word, words.values[index]) {
            return 0;
        }
    }
    1
}

/// Reads a piece into the window.
#[inline(always)]
fn fetch(scratch: &mut Scratch, Read { low, len }: Read) -> bool {
    // The verifier of Linux 6.1 must see the comparison on the register that is passed on. The compiler tends to compare a copy;
    // after a volatile load there is none.
    // SAFETY: the pointer is that of a local variable.
    let len = unsafe { core::ptr::read_volatile(&raw const len) };
    if len > WINDOW as u32 {
        return false;
    }
    let address = scratch.first_rsp.wrapping_add(low.into());
    scratch.window_at = address;
    // SAFETY: the window has that many bytes; the helper checks the user address.
    let error = unsafe { bpf_probe_read_user((&raw mut scratch.window).cast(), len, address as *const _) };
    scratch.window_len = if error == 0 { len.into() } else { 0 };
    error == 0
}

/// Whether `word`, at an index in the window, is a return probe's that replaces `value`.
#[inline(always)]
fn has_replaced(scratch: &Scratch, position: usize, word: u64, value: u64) -> bool {
    let address = scratch.window_at.wrapping_add(8 * position as u64);
    is_trampoline(word) && shadow::find(scratch.tid, address) == Some(value)
}

/// Copies the words that the walk in `scratch` depended on, and plans how they are read.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn write_words(words: *mut Words, scratch: *mut Scratch) -> u32 {
    // SAFETY: callers pass an element of the map that they own, or the verifier's null.
    let Some(words) = (unsafe { words.as_mut() }) else { return 0 };
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let count = scratch.word_count as usize;
    words.count = NOT_REMEMBERED;
    scratch.plan.count = 0;
    for index in 0..WORDS_MAX {
        if index >= count {
            break;
        }
        let offset = scratch.word_offsets[index];
        let mut slot = 0;
        let Read { mut low, mut len } = scratch.plan.read;
        let distance = offset.wrapping_sub(low);
        // A word that lies lower counts as very far.
        if scratch.plan.count == 0
            || distance & 7 != 0
            || distance > WINDOW as u32 - 8
            || distance > len + GAP_MAX
        {
            if scratch.plan.count >= READS_MAX as u32 {
                return 0;
            }
            low = begin(scratch.first_rsp, offset);
            len = 0;
            slot = BEGINS | (scratch.plan.count as u16) << 8;
            scratch.plan.count += 1;
        }
        let distance = offset.wrapping_sub(low);
        let read = Read { low, len: if distance < len { len } else { distance + 8 } };
        scratch.plan.read = read;
        words.reads[(scratch.plan.count as usize).wrapping_sub(1) % READS_MAX] = read;
        words.slots[index] = slot | distance as u16 / 8;
        words.values[index] = scratch.word_values[index];
    }
    words.count = scratch.word_count;
    1
}

/// Where a read begins whose first word is at `offset` from the stack pointer: on the same page, and not below that pointer.
#[inline(always)]
fn begin(rsp: u64, offset: u32) -> u32 {
    let in_page = (rsp.wrapping_add(offset.into()) % PAGE) as u32 & !7;
    let available = if in_page < offset { in_page } else { offset & !7 };
    offset - if available < BEFORE { available } else { BEFORE }
}
