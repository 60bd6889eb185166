//! Walking a stack by unwind tables, from the entry of a probed function up.
//!
//! Functions that the verifier is to check once are `extern "C"` and not inlined. It checks such a global function by itself, for
//! any arguments (<https://docs.ebpf.io/linux/concepts/functions>). It would follow an inlined one through every round of every loop
//! around it.

use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::helpers::generated::bpf_ringbuf_output;
use xsched_abi::chain::{DEPTH_MAX, FRAMES_MAX, chain_seed, mix};
use xsched_abi::memo::WORDS_MAX;
use xsched_abi::unwind::{RBP_UNCHANGED, Registers, Row, Rule, Step, step};
use xsched_abi::{ChainEnd, Counter, RecordKind, Space, Stack};

use crate::count::count;
use crate::events::{EVENTS, now_ns};
use crate::generated::generated_frame;
use crate::log;
use crate::memo;
use crate::scope::Current;
use crate::scratch::{self, NOT_REMEMBERED, ON, Scratch};
use crate::shipped::{begin_shipping, cancel_shipping, has_sent};
use crate::snapshot;
use crate::space;
use crate::zero;

/// The chain of calls to which a probed function at its entry returns: its id, or 0 if it could not be shipped.
///
/// `registers` are those of the caller after the return.
#[inline(always)]
pub(crate) fn chain(current: Current, registers: Registers, depth: u32) -> u64 {
    let Some(scratch) = scratch::take() else {
        count(Counter::WalksBusy);
        return 0;
    };
    let chain = in_scratch(scratch, current, registers, depth);
    scratch.give_back();
    chain
}

#[inline(always)]
fn in_scratch(scratch: &mut Scratch, current: Current, registers: Registers, depth: u32) -> u64 {
    scratch.tid = current.tid;
    scratch.rip = registers.rip;
    scratch.rsp = registers.rsp;
    scratch.rbp = registers.rbp;
    scratch.first_rsp = registers.rsp;
    let Some(space) = space::of(current.tgid) else {
        scratch.space = Space::default();
        return snapshot::take_snapshot(scratch, current.tgid, 0);
    };
    scratch.space = space;
    if space::is_stale(current.tgid, &space) {
        return snapshot::take_snapshot(scratch, current.tgid, 0);
    }
    let known = memo::find_walk(scratch, current.tgid);
    if known != 0 {
        return known;
    }
    begin(scratch, current.tgid);
    let end = walk(scratch, depth);
    let is_current = space::is_current(current.tgid, &space);
    if end == space::NEEDS_TABLE || !is_current {
        scratch.rip = registers.rip;
        scratch.rsp = registers.rsp;
        scratch.rbp = registers.rbp;
        return snapshot::take_snapshot(scratch, current.tgid, is_current.into());
    }
    log::walked(current.tgid, scratch.stack.count, scratch.rip, end);
    scratch.stack.end = end;
    scratch.stack.chain = mix(scratch.stack.chain, end.into()) | 1;
    if ship(scratch) == 0 {
        return 0;
    }
    if ChainEnd::is_final_number(end) {
        memo::store_walk(scratch);
    }
    scratch.stack.chain
}

#[inline(always)]
fn begin(scratch: &mut Scratch, tgid: u32) {
    let stack = &mut scratch.stack;
    stack.kind = RecordKind::Stack as u32;
    stack.tgid = tgid;
    stack.chain = mix(chain_seed(tgid, scratch.space.generation), scratch.rip);
    stack.generation = scratch.space.generation;
    // Its time is set when it is shipped: reading the clock takes as long as three frames do.
    stack.count = 1;
    zero::words(&mut stack.interrupted);
    scratch.addresses[0] = scratch.rip;
    zero::word(&mut scratch.interrupted);
    zero::word(&mut scratch.rbp_slot);
    zero::word(&mut scratch.uses_first_rbp);
    zero::word(&mut scratch.word_count);
    // No address lies in it.
    zero::word(&mut scratch.code.end);
}

/// Walks to the end; returns a [`ChainEnd`] or [`space::NEEDS_TABLE`].
#[inline(always)]
fn walk(scratch: &mut Scratch, depth: u32) -> u32 {
    for _ in 0..DEPTH_MAX {
        if scratch.stack.count >= depth {
            break;
        }
        let mut end = frame(scratch);
        if end == ChainEnd::Generated as u32 {
            end = generated_frame(scratch);
        }
        if end != ON {
            return end;
        }
    }
    ChainEnd::Depth as u32
}

/// Goes one frame up; returns [`ON`] or how the walk ends.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn frame(scratch: *mut Scratch) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return ChainEnd::Unreadable as u32 };
    // A return address may already belong to the next function.
    let address = if scratch.interrupted == 0 { scratch.rip.wrapping_sub(1) } else { scratch.rip };
    let row = match space::row(scratch, address) {
        Ok(row) => row,
        Err(end) => return end,
    };
    let at = Registers { rip: scratch.rip, rsp: scratch.rsp, rbp: scratch.rbp };
    let to = step(&row, &at, |address| scratch.word(address));
    depend(scratch, &row, &at, &to);
    let (registers, interrupted) = match to {
        Step::Caller(registers) => (registers, 0),
        Step::Interrupted(registers) => (registers, 1),
        Step::End => return ChainEnd::Complete as u32,
        Step::Stop(stop) => return ChainEnd::from(stop) as u32,
    };
    scratch.advance(&registers, interrupted)
}

/// Records what the step from `at` depended on. A saved frame pointer counts when a later frame is found by it, and not where it
/// is saved. Most functions keep another value in that register, which differs from call to call.
#[inline(always)]
fn depend(scratch: &mut Scratch, row: &Row, at: &Registers, to: &Step) {
    let offset = row.offset as i64 as u64;
    let rule = row.rule();
    if matches!(rule, Rule::Rbp | Rule::RbpDeref) {
        if scratch.rbp_slot == 0 {
            scratch.uses_first_rbp = 1;
        } else {
            depend_on(scratch, scratch.rbp_slot, at.rbp);
        }
    }
    match *to {
        Step::Caller(Registers { rip, rsp: cfa, .. }) => {
            depend_on(scratch, cfa.wrapping_sub(8), rip);
            let is_deref = matches!(rule, Rule::RbpDeref);
            if is_deref {
                depend_on(scratch, at.rbp.wrapping_add(offset), cfa);
            }
            if row.rbp != RBP_UNCHANGED {
                let base = if is_deref { at.rbp } else { cfa };
                scratch.rbp_slot = base.wrapping_add((row.rbp as i64 as u64).wrapping_mul(8));
            }
        }
        Step::Interrupted(Registers { rip, rsp, .. }) => {
            depend_on(scratch, at.rsp.wrapping_add(signal_frame::RIP), rip);
            depend_on(scratch, at.rsp.wrapping_add(signal_frame::RSP), rsp);
            scratch.rbp_slot = at.rsp.wrapping_add(signal_frame::RBP);
        }
        // A word that is absent or zero may be another one next time. A walk that ends so is remembered with the frames before
        // it only if it ends at a rule, which belongs to an address.
        Step::End if !matches!(rule, Rule::End) => depend_on_end(scratch, &rule, at, offset),
        Step::End | Step::Stop(_) => {}
    }
}

/// A return address of zero counts like other words.
#[inline(always)]
fn depend_on_end(scratch: &mut Scratch, rule: &Rule, at: &Registers, offset: u64) {
    let cfa = match rule {
        Rule::Rsp => at.rsp.wrapping_add(offset),
        Rule::Rbp => at.rbp.wrapping_add(offset),
        _ => {
            scratch.word_count = NOT_REMEMBERED;
            return;
        }
    };
    depend_on(scratch, cfa.wrapping_sub(8), 0);
}

#[inline(always)]
fn depend_on(scratch: &mut Scratch, address: u64, word: u64) {
    let offset = address.wrapping_sub(scratch.first_rsp);
    let index = scratch.word_count as usize;
    if index < WORDS_MAX && offset < 1 << 32 {
        scratch.word_offsets[index] = offset as u32;
        scratch.word_values[index] = word;
        scratch.word_count = index as u32 + 1;
    } else {
        scratch.word_count = NOT_REMEMBERED;
    }
}

/// Ships the chain unless that has been done; returns 0 if the ring is full.
///
/// A function of its own: the stack of a program and of the functions that it calls is 512 bytes in total.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ship(scratch: *mut Scratch) -> u32 {
    // SAFETY: callers pass an element that they own, or the verifier's null.
    let Some(scratch) = (unsafe { scratch.as_mut() }) else { return 0 };
    let chain = scratch.stack.chain;
    if !begin_shipping(chain) {
        return 1;
    }
    scratch.stack.time_ns = now_ns();
    let count = u64::from(scratch.stack.count).min(FRAMES_MAX as u64);
    let size = size_of::<Stack>() as u64 + 8 * count;
    // SAFETY: the addresses follow the record without a gap, so that many bytes are there.
    let sent = unsafe {
        bpf_ringbuf_output(
            (&raw const EVENTS).cast_mut().cast(),
            (&raw mut scratch.stack).cast(),
            size,
            u64::from(BPF_RB_NO_WAKEUP),
        )
    };
    if sent != 0 {
        cancel_shipping(chain);
        self::count(Counter::StackRingFull);
        return 0;
    }
    has_sent(chain);
    1
}

/// Offsets in a signal's frame, as in `xsched_abi::unwind`.
mod signal_frame {
    pub(super) const RBP: u64 = 120;
    pub(super) const RSP: u64 = 160;
    pub(super) const RIP: u64 = 168;
}

const _: () = assert!(
    core::mem::offset_of!(Scratch, addresses) - core::mem::offset_of!(Scratch, stack) == size_of::<Stack>()
);
