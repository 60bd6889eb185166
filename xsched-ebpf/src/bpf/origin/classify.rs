//! Answering: a walk, a look-up, a slot.

use aya_ebpf::bindings::BPF_RB_FORCE_WAKEUP;
use aya_ebpf::macros::map;
use aya_ebpf::maps::LruHashMap;
use aya_ebpf::programs::ProbeContext;
use core::sync::atomic::{Ordering, compiler_fence};
use xsched_abi::chain::{DEPTH_MAX, is_trampoline};
use xsched_abi::unwind::Registers;
use xsched_abi::verdict::{Decided, VERDICT_SLOTS, Verdict, VerdictKey, VerdictPage, Wanted};
use xsched_abi::{Counter, RecordKind};

use crate::count::count;
use crate::events::EVENTS;
use crate::scope::Current;
use crate::{pages, shadow, walk};

/// What user space has decided. Where there is no room for another, what nobody has asked for lately goes, and is asked
/// for anew.
#[map]
static VERDICTS: LruHashMap<VerdictKey, Decided> = LruHashMap::with_max_entries(1 << 16, 0);

/// `BPF_NOEXIST`: fail if the key is there.
const NOEXIST: u64 = 1;

const PENDING: Decided = Decided { verdict: Verdict::PENDING, origin: 0, rule: 0 };

const UNKNOWN: Decided = Decided { verdict: Verdict::UNKNOWN.0, origin: 0, rule: 0 };

#[inline(always)]
pub(crate) fn answer(ctx: &ProbeContext) {
    let current = Current::thread();
    let Some(page) = pages::of(current.tgid) else { return };
    // SAFETY: the context's register file is valid while the program runs.
    let regs = unsafe { &*ctx.regs };
    let (slot, ticket, subject) = (regs.rdi, regs.rsi, regs.rdx);
    // Before anything is looked at: who keeps the answer sees whether anything has changed since.
    // SAFETY: the map owns the page; others change the word meanwhile, but whole.
    let generation = unsafe { core::ptr::read_volatile(&raw const (*page).generation) };
    let mut registers = Registers { rip: regs.rcx, rsp: regs.r8, rbp: regs.r9 };
    if is_trampoline(registers.rip) {
        // A return probe is at the function whose caller asks.
        registers.rip = shadow::find(current.tid, registers.rsp.wrapping_sub(8)).unwrap_or(registers.rip);
    }
    let chain = walk::chain(current, registers, DEPTH_MAX as u32);
    let decided = if chain == 0 { UNKNOWN } else { look_up(VerdictKey { chain, subject }, current.tgid) };
    write(page, slot, generation, chain, ticket, decided);
}

#[inline(always)]
fn look_up(key: VerdictKey, tgid: u32) -> Decided {
    if let Some(decided) = VERDICTS.get_ptr(key) {
        // SAFETY: the map may give the element to another key at any time. User space writes new elements rather than
        // changing old ones, and one that is given away meanwhile held the answer when it was found.
        return unsafe { *decided };
    }
    // Whoever is first asks user space.
    if VERDICTS.insert(key, PENDING, NOEXIST).is_ok() {
        match EVENTS.reserve::<Wanted>(0) {
            Some(mut entry) => {
                entry.write(Wanted { kind: RecordKind::Wanted as u32, tgid, key });
                entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
            }
            None => {
                let _ = VERDICTS.remove(key);
                count(Counter::RingFull);
            }
        }
    }
    PENDING
}

#[inline(always)]
fn write(page: *mut VerdictPage, slot: u64, generation: u64, chain: u64, ticket: u64, decided: Decided) {
    let index = slot as usize;
    if index >= VERDICT_SLOTS {
        return;
    }
    // SAFETY: the map owns the page, and the slot is the calling thread's own; if the process has given it to two of its
    // threads, it gets mixed answers.
    unsafe {
        let slot = &raw mut (*page).slots[index];
        (*slot).verdict = decided.verdict;
        (*slot).chain = chain;
        (*slot).origin = decided.origin;
        (*slot).rule = decided.rule;
        (*slot).generation = generation;
        compiler_fence(Ordering::SeqCst);
        core::ptr::write_volatile(&raw mut (*slot).ticket, ticket);
    }
}
