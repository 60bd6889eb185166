//! Recording of calls to GPU runtimes: the entry probe notes the call, the return probe submits it.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
use aya_ebpf::helpers::bpf_probe_read_user;
use aya_ebpf::helpers::generated::{
    bpf_get_attach_cookie, bpf_get_smp_processor_id, bpf_probe_read_user_str,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::HashMap;
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use core::mem::MaybeUninit;
use xsched_abi::unwind::Registers;
use xsched_abi::{Call, CallKey, Cookie, Counter, Pending, Pointee, RecordKind, TEXT_LEN_MAX, WORD_COUNT};

use crate::count::count;
use crate::events::{EVENTS, now_ns, wakeup};
use crate::filter;
use crate::frame::{Frame, STACK_ARGUMENTS};
use crate::scope::{self, Current};
use crate::{shadow, walk, zero};

/// Calls in progress.
#[map]
static PENDING: HashMap<CallKey, Pending> = HashMap::with_max_entries(16384, 0);

/// Most names fit; a longer one takes a second, larger reservation.
const SHORT_TEXT: usize = 256;

/// Number of arguments in registers.
const REGISTERS: usize = 6;

/// A record with space for text.
#[repr(C)]
struct WithText<const N: usize> {
    call: Call,
    text: [u8; N],
}

#[inline(always)]
fn cookie(ctx: *mut core::ffi::c_void) -> Cookie {
    // SAFETY: the context is the one that the kernel passed to the program.
    Cookie(unsafe { bpf_get_attach_cookie(ctx) })
}

#[inline(always)]
pub(crate) fn enter(ctx: &ProbeContext) {
    let Some(current) = Current::watched() else { return scope::note_unwatched() };
    let cookie = cookie(ctx.as_ptr());
    // SAFETY: the context's register file is valid while the program runs.
    let regs = unsafe { &*ctx.regs };
    // Filled in place: together with the functions that it calls, a program has 512 bytes of stack.
    let mut pending = MaybeUninit::uninit();
    let pending: &mut Pending = zero::cleared(&mut pending);
    let words = &mut pending.words;
    words[0] = regs.rdi;
    words[1] = regs.rsi;
    words[2] = regs.rdx;
    words[3] = regs.rcx;
    words[4] = regs.r8;
    words[5] = regs.r9;
    let return_slot = match Frame::read(ctx, current.tid) {
        Ok(frame) => {
            words[REGISTERS..REGISTERS + STACK_ARGUMENTS].copy_from_slice(&frame.arguments);
            shadow::store(current.tid, frame.return_slot, frame.caller);
            pending.caller = frame.caller;
            frame.return_slot
        }
        Err(return_slot) => {
            count(Counter::ArgumentsUnreadable);
            return_slot
        }
    };
    // Not before the shadow table has the return address. The return probe replaces that even for a call that is left out, and
    // walks from nested calls need it.
    if !filter::takes(cookie) {
        return;
    }
    if let Some(address) = pointee(cookie, words, return_slot) {
        // SAFETY: the helper checks the user address.
        match unsafe { bpf_probe_read_user(address as *const [u64; WORD_COUNT - REGISTERS]) } {
            Ok(fields) => words[REGISTERS..].copy_from_slice(&fields),
            Err(_) => count(Counter::ArgumentsUnreadable),
        }
    }
    let depth = scope::config().map_or(0, |config| config.depth);
    if depth > 0 && pending.caller != 0 && cookie.has_chain() {
        let registers = Registers { rip: pending.caller, rsp: return_slot.wrapping_add(8), rbp: regs.rbp };
        pending.chain = walk::chain(current, registers, depth);
    }
    // Last, so that the time of the walk does not count as the call's.
    pending.begin_ns = now_ns();
    let key =
        CallKey { return_slot, tgid: current.tgid, tid: current.tid, probe: cookie.probe(), reserved: 0 };
    if PENDING.insert(key, &*pending, 0).is_err() {
        count(Counter::PendingFull);
    }
}

/// Address of the words that are kept in place of the first stack arguments.
#[inline(always)]
fn pointee(cookie: Cookie, words: &[u64; WORD_COUNT], return_slot: u64) -> Option<u64> {
    let base = match cookie.pointee()? {
        index if index == Pointee::STACK as usize => return_slot.wrapping_add(8),
        index => argument(Some(index), words)?,
    };
    Some(base.wrapping_add(cookie.pointee_offset()))
}

#[inline(always)]
pub(crate) fn leave(ctx: &RetProbeContext) {
    let Some(current) = Current::watched() else { return };
    let cookie = cookie(ctx.as_ptr());
    // SAFETY: the context's register file is valid while the program runs.
    let regs = unsafe { &*ctx.regs };
    // The return popped the slot.
    let return_slot = regs.rsp.wrapping_sub(8);
    let key =
        CallKey { return_slot, tgid: current.tgid, tid: current.tid, probe: cookie.probe(), reserved: 0 };
    // Calls that were entered before the probes were attached have no entry.
    let Some(pending) = PENDING.get_ptr(key) else { return };
    // SAFETY: only this thread uses this key, and user space removes only keys of dead processes.
    let Pending { begin_ns, caller, chain, words } = unsafe { *pending };
    let _ = PENDING.remove(key);
    let end_ns = now_ns();
    if !filter::keeps(cookie, end_ns.saturating_sub(begin_ns)) {
        return;
    }
    let call = Call {
        kind: RecordKind::Call as u32,
        probe: cookie.probe(),
        tgid: current.tgid,
        tid: current.tid,
        begin_ns,
        end_ns,
        caller,
        ret: regs.rax,
        out: argument(cookie.out(), &words).map_or(0, read_handle),
        chain,
        words,
        // SAFETY: the helper takes nothing.
        cpu: unsafe { bpf_get_smp_processor_id() },
        text_len: 0,
    };
    // The callee has read the text that it was passed by now, so its page is present.
    match text(cookie, &words, regs.rax) {
        Some(text) if text != 0 => submit_text(&call, text),
        _ => submit(&call),
    }
}

/// Address of the text that a call passes or returns.
#[inline(always)]
fn text(cookie: Cookie, words: &[u64; WORD_COUNT], ret: u64) -> Option<u64> {
    let argument = argument(cookie.text(), words)?;
    match cookie.is_text_returned() {
        // A call that failed has returned none.
        true if ret as u32 != 0 => None,
        true => {
            let text = read_handle(argument);
            if text == 0 {
                count(Counter::TextUnreadable);
            }
            Some(text)
        }
        false => Some(argument),
    }
}

#[inline(always)]
fn argument(index: Option<usize>, words: &[u64; WORD_COUNT]) -> Option<u64> {
    let index = index?;
    // The verifier of Linux 6.1 must see the comparison on the register that is used. The compiler tends to compare a copy;
    // after a volatile load there is none.
    // SAFETY: the pointer is that of a local variable.
    let index = unsafe { core::ptr::read_volatile(&raw const index) };
    if index < REGISTERS { Some(words[index]) } else { None }
}

#[inline(always)]
fn read_handle(address: u64) -> u64 {
    // SAFETY: the helper checks the user address.
    unsafe { bpf_probe_read_user(address as *const u64) }.unwrap_or(0)
}

#[inline(always)]
fn submit(call: &Call) {
    match EVENTS.reserve::<Call>(0) {
        Some(mut entry) => {
            entry.write(*call);
            entry.submit(wakeup(&EVENTS, size_of::<Call>()));
        }
        None => count(Counter::RingFull),
    }
}

#[inline(always)]
fn submit_text(call: &Call, text: u64) {
    if !try_submit_text::<SHORT_TEXT>(call, text, false) {
        try_submit_text::<TEXT_LEN_MAX>(call, text, true);
    }
}

/// Submits `call` with the text at `text`. False if the text is longer than `N` and `last` is not set.
#[inline(always)]
fn try_submit_text<const N: usize>(call: &Call, text: u64, last: bool) -> bool {
    let Some(mut entry) = EVENTS.reserve::<WithText<N>>(0) else {
        count(Counter::RingFull);
        return true;
    };
    let record: *mut WithText<N> = entry.as_mut_ptr();
    // SAFETY: the reservation is as large as the record, and private to this program before it is submitted.
    let copied = unsafe {
        (*record).call = *call;
        bpf_probe_read_user_str((&raw mut (*record).text).cast(), N as u32, text as *const _)
    };
    // The helper counts the terminator, and returns N for a text that it had to cut.
    if copied >= N as i64 {
        if !last {
            entry.discard(u64::from(BPF_RB_NO_WAKEUP));
            return false;
        }
        count(Counter::TextCut);
    } else if copied < 0 {
        count(Counter::TextUnreadable);
    }
    // SAFETY: as above.
    unsafe { (*record).call.text_len = if copied > 0 { copied as u32 - 1 } else { 0 } };
    entry.submit(wakeup(&EVENTS, size_of::<WithText<N>>()));
    true
}
