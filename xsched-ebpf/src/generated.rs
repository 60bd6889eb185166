//! One step up a stack out of generated code, for the BPF programs and user space.
//!
//! No table describes code that a program has generated itself. There are two ways out of it:
//!
//! * If the code after the call takes the frame down and returns, the instructions themselves tell where the caller is. CPython's
//!   trampolines for profilers are like that
//!   (<https://docs.python.org/3/howto/perf_profiling.html>).
//! * The code keeps a frame pointer, as that of most just-in-time compilers does.
//!
//! ```text
//! rsp ──► │ what the function keeps │   no word here may be a return address
//! rbp ──► │ the caller's rbp        │
//!         │ return address          │   follows a call, which leads into generated code if that can be seen
//!         │ the caller's frame …    │
//! ```
//!
//! Code without a frame pointer leaves the rbp of an outer function in place, or any other value. If that is the frame pointer of
//! the caller, the true return address lies below it: that is why the words in between are searched. A return address that an
//! earlier call has left there ends the chain, too: a shorter chain is better than a wrong one.

#![expect(
    clippy::inline_always,
    reason = "the verifier sees a BPF program as one body, and knows values better than arguments"
)]

use crate::unwind::Registers;

/// Maximum number of words in a frame; larger frames are not stepped out of.
pub const FRAME_WORDS_MAX: usize = 512;

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// No code.
    NoCode,
    /// Code that is in no file.
    Generated,
    /// Other code.
    Code,
}

/// The memory of the process in which a step is taken.
pub trait Surroundings {
    /// Eight bytes of code.
    fn code(&mut self, address: u64) -> Option<u64>;
    /// Eight bytes of the stack.
    fn stack(&mut self, address: u64) -> Option<u64>;
    /// The kind of an address.
    fn kind(&mut self, address: u64) -> AddressKind;
    /// See the function of this name.
    #[inline(always)]
    fn is_return_address(&mut self, word: u64) -> bool
    where
        Self: Sized,
    {
        is_return_address(word, self)
    }
}

/// The caller of the generated code at `at`. None if it cannot be determined for certain.
#[inline(always)]
pub fn step(at: &Registers, around: &mut impl Surroundings) -> Option<Registers> {
    if at.rsp & 7 != 0 {
        return None;
    }
    match epilogue_at(at.rip, around) {
        Some(epilogue) => by_epilogue(at, epilogue, around),
        None => by_frame_pointer(at, around),
    }
}

#[inline(always)]
fn by_epilogue(at: &Registers, epilogue: Epilogue, around: &mut impl Surroundings) -> Option<Registers> {
    let mut slot = at.rsp.wrapping_add(epilogue.drops.into());
    let mut rbp = at.rbp;
    if epilogue.pops_rbp {
        rbp = around.stack(slot)?;
        slot = slot.wrapping_add(8);
    }
    let rip = around.stack(slot)?;
    if around.is_return_address(rip) { Some(Registers { rip, rsp: slot.wrapping_add(8), rbp }) } else { None }
}

#[inline(always)]
fn by_frame_pointer(at: &Registers, around: &mut impl Surroundings) -> Option<Registers> {
    let size = at.rbp.wrapping_sub(at.rsp);
    if size & 7 != 0 || size > 8 * FRAME_WORDS_MAX as u64 {
        return None;
    }
    for index in 0..FRAME_WORDS_MAX as u64 {
        if 8 * index >= size {
            break;
        }
        let word = around.stack(at.rsp.wrapping_add(8 * index))?;
        if around.is_return_address(word) {
            return None;
        }
    }
    let rip = around.stack(at.rbp.wrapping_add(8))?;
    if !around.is_return_address(rip) || !may_call_generated(rip, around) {
        return None;
    }
    let rbp = around.stack(at.rbp)?;
    Some(Registers { rip, rsp: at.rbp.wrapping_add(16), rbp })
}

/// Whether a word is the address of an instruction after a call.
#[inline(always)]
pub fn is_return_address(word: u64, around: &mut impl Surroundings) -> bool {
    if matches!(around.kind(word.wrapping_sub(1)), AddressKind::NoCode) {
        return false;
    }
    match around.code(word.wrapping_sub(8)) {
        Some(before) => is_indirect_call(before) || direct_call(before).is_some(),
        None => false,
    }
}

/// Whether the call before a return address can have led into generated code.
#[inline(always)]
fn may_call_generated(rip: u64, around: &mut impl Surroundings) -> bool {
    let Some(before) = around.code(rip.wrapping_sub(8)) else { return false };
    if is_indirect_call(before) {
        return true;
    }
    match direct_call(before) {
        Some(distance) => matches!(around.kind(rip.wrapping_add(distance)), AddressKind::Generated),
        None => false,
    }
}

/// The distance from its end to the target of a direct call that the eight bytes of code `before` end with.
#[inline(always)]
const fn direct_call(before: u64) -> Option<u64> {
    // e8, and 32 bits with a sign.
    if before >> 24 & 0xff == 0xe8 { Some((before as i64 >> 32) as u64) } else { None }
}

/// Whether eight bytes of code end in a call by a register or by a word of memory: ff /2.
#[inline(always)]
fn is_indirect_call(before: u64) -> bool {
    let byte = |back: u32| before >> (64 - 8 * back) & 0xff;
    // The byte after the opcode determines how many follow: none (a register, or memory that it points to), a displacement of 8 or
    // 32 bits, and one byte more where its low bits are 4. A prefix before the opcode changes nothing.
    let is = |back: u32, modes: (u64, u64), has_index: bool| {
        let mode = byte(back - 1);
        byte(back) == 0xff && mode >= modes.0 && mode <= modes.1 && (mode & 7 == 4) == has_index
    };
    let register = byte(2) == 0xff && byte(1) >= 0xd0 && byte(1) <= 0xd7;
    register
        || is(2, (0x10, 0x17), false) && byte(1) != 0x15
        || is(3, (0x10, 0x17), true)
        || is(3, (0x50, 0x57), false)
        || is(4, (0x50, 0x57), true)
        || byte(6) == 0xff && byte(5) == 0x15
        || is(6, (0x90, 0x97), false)
        || is(7, (0x90, 0x97), true)
        || byte(7) == 0xff && byte(6) == 0x14 && byte(5) & 7 == 5
}

/// The end of a function: `add rsp, drops; pop rbp; ret`, of which the first two may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Epilogue {
    drops: u32,
    pops_rbp: bool,
}

#[inline(always)]
fn epilogue_at(address: u64, around: &mut impl Surroundings) -> Option<Epilogue> {
    let first = around.code(address)?;
    // Near the end of a mapping there may be only these.
    let second = around.code(address.wrapping_add(8)).unwrap_or(0);
    epilogue(first, second)
}

/// The epilogue at the beginning of sixteen bytes of code.
#[inline(always)]
const fn epilogue(first: u64, second: u64) -> Option<Epilogue> {
    // add rsp, with 8 bits and a sign: 48 83 c4; with 32: 48 81 c4.
    let (drops, rest) = match first & 0xff_ffff {
        0xc4_8348 if first >> 31 & 1 == 0 => (first >> 24 & 0x7f, first >> 32 | second << 32),
        0xc4_8148 if first >> 55 & 1 == 0 => (first >> 24 & 0x7fff_ffff, first >> 56 | second << 8),
        _ => (0, first),
    };
    let pops_rbp = rest & 0xff == 0x5d;
    let rest = if pops_rbp { rest >> 8 } else { rest };
    // ret, or with a prefix that some processors prefer.
    if rest & 0xff == 0xc3 || rest & 0xffff == 0xc3f3 {
        Some(Epilogue { drops: drops as u32, pops_rbp })
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
