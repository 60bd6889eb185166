//! Memory for one walk.
//!
//! A program has 512 bytes of stack, and a program that preempts it would share its per-CPU memory. So there is a pool: each element
//! has an owner word, taken by compare-and-exchange. A program cannot be killed, so each element is given back.

use aya_ebpf::helpers::bpf_probe_read_user_buf;
use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use xsched_abi::chain::{FRAMES_MAX, mix};
use xsched_abi::memo::WORDS_MAX;
use xsched_abi::snapshot::{self, REPLACED_MAX, Replaced};
use xsched_abi::unwind::Registers;
use xsched_abi::{ChainEnd, Code, Space, Stack};
use xsched_protocol::return_probe::is_trampoline;

use crate::atomic;
use crate::memo;
use crate::shadow;
use crate::words::Plan;

#[map]
static SCRATCH: Array<Scratch> = Array::with_max_entries(SCRATCH_COUNT, 0);

/// Several for each processor of a large machine: a program that is preempted in a walk keeps its element.
const SCRATCH_COUNT: u32 = 512;

/// Elements that are tried before giving up.
const TRIES: u32 = 16;

/// Bytes of stack that are read at once.
pub(crate) const WINDOW: usize = snapshot::WINDOW;

/// A count of more words than are remembered.
pub(crate) const NOT_REMEMBERED: u32 = WORDS_MAX as u32 + 1;

/// A frame was found, and the walk continues.
pub(crate) const ON: u32 = u32::MAX;

/// The state of one walk.
#[repr(C)]
pub struct Scratch {
    owner: u64,
    /// Address and length of the part of the stack in `window`.
    pub(crate) window_at: u64,
    pub(crate) window_len: u64,
    /// The last word that was read.
    word: u64,
    /// The thread.
    pub(crate) tid: u32,
    /// Whether the frame was interrupted and did not make a call.
    pub(crate) interrupted: u32,
    /// Why there is no row for an address: see `space::find_row`.
    pub(crate) no_row: u32,
    pub(crate) reserved: u32,
    /// Number of walks that were made with this element and remembered.
    pub(crate) walk_count: u64,
    /// Registers in the frame.
    pub(crate) rip: u64,
    pub(crate) rsp: u64,
    pub(crate) rbp: u64,
    /// Where `rbp` was read; 0 while it is that of the innermost frame.
    pub(crate) rbp_slot: u64,
    /// Whether the walk depended on the innermost frame's rbp.
    pub(crate) uses_first_rbp: u32,
    /// Number of words in `word_values`, and of those that did not fit.
    pub(crate) word_count: u32,
    /// The stack pointer of the innermost frame.
    pub(crate) first_rsp: u64,
    /// Of a snapshot: digest, length, how far above the stack pointer words point into the stack, the last page that could not be
    /// read, windows in a row that could not, and replaced return addresses.
    pub(crate) digest: u64,
    pub(crate) len: u64,
    pub(crate) reach: u64,
    pub(crate) missing_page: u64,
    pub(crate) missing: u32,
    pub(crate) replaced_count: u32,
    pub(crate) replaced: [Replaced; REPLACED_MAX],
    /// The key under which the walk is remembered.
    pub(crate) memo: memo::Key,
    /// Used while the walk is being remembered: how its words will be read.
    pub(crate) plan: Plan,
    /// The process's mappings when the walk began.
    pub(crate) space: Space,
    /// The last mapping that was used.
    pub(crate) code: Code,
    /// The record, with its addresses.
    pub(crate) stack: Stack,
    pub(crate) addresses: [u64; FRAMES_MAX],
    /// The words of the stack that the walk depended on: distance from `first_rsp`, value.
    pub(crate) word_offsets: [u32; WORDS_MAX],
    pub(crate) word_values: [u64; WORDS_MAX],
    pub(crate) window: [u64; WINDOW / 8],
}

/// Takes an element of the pool, with an empty window.
#[inline(always)]
pub(crate) fn take() -> Option<&'static mut Scratch> {
    // SAFETY: the helper takes nothing. It only selects where the search begins, so that processors rarely try the same
    // element.
    let first = unsafe { bpf_get_smp_processor_id() };
    for n in 0..TRIES {
        let scratch = SCRATCH.get_ptr_mut((first + n) % SCRATCH_COUNT)?;
        // SAFETY: the map owns the element; the owner word is only changed atomically.
        if unsafe { atomic::replace(&raw mut (*scratch).owner, 0, 1) } {
            // SAFETY: the exchange has made this program the only one that uses the element.
            let scratch = unsafe { &mut *scratch };
            scratch.window_len = 0;
            return Some(scratch);
        }
    }
    None
}

impl Scratch {
    /// Gives the element back.
    #[inline(always)]
    pub(crate) fn give_back(&mut self) {
        atomic::store(&mut self.owner, 0);
    }

    /// The eight bytes at `address` of the stack; the return address, where a return probe has replaced it.
    #[inline(always)]
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        let is_there = read_word(self, address) != 0;
        // Loaded in any case. Otherwise the compiler keeps a register for a word that was not read, and the verifier refuses
        // programs that copy a register which was never written. SAFETY: the reference is valid.
        let word = unsafe { core::ptr::read_volatile(&raw const self.word) };
        if is_there { Some(word) } else { None }
    }

    /// Records a caller. Returns [`ON`], or that the chain is full.
    #[inline(always)]
    pub(crate) fn advance(&mut self, registers: &Registers, interrupted: u32) -> u32 {
        let index = self.stack.count as usize;
        if index >= FRAMES_MAX {
            return ChainEnd::Depth as u32;
        }
        self.addresses[index] = registers.rip;
        self.stack.interrupted[(index / 64) % 2] |= u64::from(interrupted) << (index % 64);
        self.stack.count = index as u32 + 1;
        self.stack.chain = mix(self.stack.chain, registers.rip);
        self.rip = registers.rip;
        self.rsp = registers.rsp;
        self.rbp = registers.rbp;
        self.interrupted = interrupted;
        ON
    }

    /// Number of bytes in the window.
    #[inline(always)]
    pub(crate) fn window_len(&self) -> u64 {
        self.window_len
    }
}

/// Leaves the word at `address` in `scratch`; 0 if it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_word(scratch: *mut Scratch, address: u64) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let mut offset = address.wrapping_sub(scratch.window_at);
    if offset >= scratch.window_len || offset & 7 != 0 {
        if refill(scratch, address) == 0 {
            return 0;
        }
        offset = 0;
    }
    let word = scratch.window[(offset as usize / 8) % (WINDOW / 8)];
    scratch.word = word;
    if is_trampoline(word) {
        match shadow::find(scratch.tid, address) {
            Some(replaced) => scratch.word = replaced,
            None => return 0,
        }
    }
    1
}

/// Reads the stack from `address` on into the window: as much as fits, or less near the end of the memory there.
/// Returns the number of bytes.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn refill(scratch: *mut Scratch, address: u64) -> u64 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let window = (&raw mut scratch.window).cast::<u8>();
    scratch.window_at = address;
    scratch.window_len = 0;
    for len in [WINDOW, 256, 8] {
        // SAFETY: the window has at least `len` bytes; the helper checks the user address.
        let read = unsafe {
            bpf_probe_read_user_buf(address as *const u8, core::slice::from_raw_parts_mut(window, len))
        };
        if read.is_ok() {
            scratch.window_len = len as u64;
            break;
        }
    }
    scratch.window_len
}
