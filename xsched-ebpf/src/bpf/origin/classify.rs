//! Answers a question: a walk, a look-up, a write to a slot.

use aya_ebpf::bindings::BPF_RB_FORCE_WAKEUP;
use aya_ebpf::btf_maps::{HashOfMaps, LruHashMap};
use aya_ebpf::macros::btf_map;
use aya_ebpf::programs::ProbeContext;
use core::sync::atomic::{Ordering, compiler_fence};
use xsched_abi::chain::DEPTH_MAX;
use xsched_abi::unwind::Registers;
use xsched_abi::{Counter, RecordKind};
use xsched_protocol::return_probe::is_trampoline;
use xsched_protocol::verdict::{
    Decided, VERDICT_PAGES_MAX, VERDICT_SLOTS, Verdict, VerdictKey, VerdictPage, Wanted,
};

use crate::count::count;
use crate::events::EVENTS;
use crate::scope::Current;
use crate::{pages, shadow, walk};

/// A [`VerdictKey`], and a [`Decided`], as words, like a page.
type Words = [u64; 2];

/// The decisions for the processes of one user. When it is full, the least recently used answers are evicted, and asked for again
/// later. User space makes it and so sets its size.
type Answers = LruHashMap<Words, Words, 1>;

/// By process. User space inserts the map of the process's user when the process joins.
#[btf_map]
static VERDICTS: HashOfMaps<u32, Answers, { VERDICT_PAGES_MAX as usize }> = HashOfMaps::new();

/// `BPF_NOEXIST`: fail if the key is there.
const NOEXIST: u64 = 1;

const PENDING: Decided = Decided { verdict: Verdict::PENDING, origin: 0, rule: 0 };

/// The same as the map holds it.
const PENDING_WORDS: Words = [PENDING.verdict, 0];

const UNKNOWN: Decided = Decided { verdict: Verdict::UNKNOWN.0, origin: 0, rule: 0 };

#[inline(always)]
pub(crate) fn answer(ctx: &ProbeContext) {
    let current = Current::thread();
    let Some(page) = pages::of(current.tgid) else { return };
    // SAFETY: the context's register file is valid while the program runs.
    let regs = unsafe { &*ctx.regs };
    let (slot, ticket, subject) = (regs.rdi, regs.rsi, regs.rdx);
    // Before the look-up: a process that keeps the answer can see whether anything has changed since.
    // SAFETY: the map owns the page; others change the word meanwhile, but whole.
    let generation = unsafe { core::ptr::read_volatile(&raw const (*page).generation) };
    let mut registers = Registers { rip: regs.rcx, rsp: regs.r8, rbp: regs.r9 };
    if is_trampoline(registers.rip) {
        // A return probe is at the function that called the hook.
        registers.rip = shadow::find(current.tid, registers.rsp.wrapping_sub(8)).unwrap_or(registers.rip);
    }
    let chain = walk::chain(current, registers, DEPTH_MAX as u32);
    let decided = if chain == 0 { UNKNOWN } else { look_up(VerdictKey { chain, subject }, current.tgid) };
    write(page, slot, generation, chain, ticket, decided);
}

#[inline(always)]
fn look_up(key: VerdictKey, tgid: u32) -> Decided {
    // SAFETY: a map that was just taken from the other lives until the program has ended; if it was replaced, what is written to
    // it is not read.
    let Some(answers) = (unsafe { VERDICTS.get(&tgid) }) else { return UNKNOWN };
    let words: Words = [key.chain, key.subject];
    if let Some(decided) = answers.get_ptr(words) {
        // SAFETY: the map may give the element to another key at any time. User space inserts new elements rather than changing
        // old ones, so an element that is evicted meanwhile held the answer when it was found.
        return unsafe { *decided.cast::<Decided>() };
    }
    // The first program that asks notifies user space.
    if answers.insert(words, PENDING_WORDS, NOEXIST).is_ok() {
        match EVENTS.reserve::<Wanted>(0) {
            Some(mut entry) => {
                entry.write(Wanted { kind: RecordKind::Wanted as u32, tgid, key });
                entry.submit(u64::from(BPF_RB_FORCE_WAKEUP));
            }
            None => {
                let _ = answers.remove(words);
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
    // SAFETY: the map owns the page, and the slot is the calling thread's own; if the process has assigned it to two of its
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
