//! One step up a stack, for the BPF programs and user space.
//!
//! Optimised code keeps no frame pointers, so the way to the caller depends on the instruction. `.eh_frame` describes it in a language
//! that is far too large for a probe. User space translates it into rows of eight bytes; this module defines their layout and meaning.
//!
//! ```text
//! pages   one u32 for each 64 KiB of the file's addresses, from the first that has rows: index of its first row;
//!         one more at the end: the number of rows
//! rows    sorted by address; each is valid from its `pc_low` to the next row
//!
//! page 3        page 4                  page 5
//! │ 0     2c0   │ 0        40     f00c  │ 0
//! │ Gap   Rsp   │ Rsp      Rbp    Gap   │ Gap
//! ```
//!
//! The first row of a page is at the beginning of the page; where needed it repeats the rule in force. So a search needs one page's
//! rows only, always finds a row, and takes at most [`SEARCH_STEPS_MAX`] steps.
//!
//! Rows describe the stack pointer, the frame pointer and the return address, since no rule of a compiler needs more. A rule that they
//! cannot express is [`Rule::Unsupported`], never an approximation.

#![expect(
    clippy::inline_always,
    reason = "the verifier sees a BPF program as one body, and knows values better than arguments"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits of an address that select a row within a page.
pub const PAGE_BITS: u32 = 16;

/// Steps of the longest search: a page has at most 2^16 rows.
pub const SEARCH_STEPS_MAX: u32 = PAGE_BITS + 1;

/// Value of [`Row::rbp`]: the function has not touched the frame pointer.
pub const RBP_UNCHANGED: i8 = i8::MIN;

/// What the kernel has pushed when a signal handler begins (`struct rt_sigframe`,
/// <https://github.com/torvalds/linux/blob/v6.12/arch/x86/include/asm/sigframe.h>), seen from the stack pointer of
/// the code that returns from the signal.
mod signal_frame {
    pub(super) const RBP: u64 = 120;
    pub(super) const RSP: u64 = 160;
    pub(super) const RIP: u64 = 168;
}

/// How to find the caller from a range of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    /// Low 16 bits of the first address, as an address of the ELF file.
    pub pc_low: u16,
    /// A [`Rule`].
    pub rule: u8,
    /// One eighth of the offset at which the caller's rbp was saved, relative to the canonical frame address (or to rbp, with
    /// [`Rule::RbpDeref`]); or [`RBP_UNCHANGED`].
    pub rbp: i8,
    /// An offset in bytes; its base depends on the rule.
    pub offset: i32,
}

/// The location of the canonical frame address (CFA): the value of the stack pointer before the call.
///
/// The return address lies eight bytes below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// There is no unwind information for these addresses.
    Gap = 0,
    /// The outermost frame: its return address is undefined.
    End = 1,
    /// `rsp + offset`.
    Rsp = 2,
    /// `rbp + offset`.
    Rbp = 3,
    /// `rsp + 8`, and 8 more from byte `offset` of each 16-byte entry of a procedure linkage table on.
    Plt = 4,
    /// The word at `rbp + offset`: the function has realigned its stack.
    RbpDeref = 5,
    /// The frame of a signal; all saved registers lie above rsp.
    Signal = 6,
    /// There is a rule that rows cannot express.
    Unsupported = 7,
}

/// The registers of a frame that rows describe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Instruction pointer. In all but the innermost frame and interrupted ones this is a return address, which may
    /// already belong to the next function: look up the address before it.
    pub rip: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Frame pointer, or any value that the function keeps there.
    pub rbp: u64,
}

/// The result of a [`step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller. Its instruction pointer is a return address.
    Caller(Registers),
    /// The function that a signal has interrupted. Its instruction pointer is the instruction that comes next.
    Interrupted(Registers),
    /// There is no caller: the stack has been walked to its end.
    End,
    /// There may be a caller, but it cannot be found.
    Stop(Stop),
}

/// Why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stop {
    /// [`Rule::Gap`].
    Gap = 0,
    /// [`Rule::Unsupported`].
    Unsupported = 1,
    /// A word of the stack could not be read.
    Unreadable = 2,
    /// The caller's frame would not lie above this one: the stack or the table is not what it seems to be.
    NotAscending = 3,
}

impl Row {
    /// A row; `offset` and `rbp` as in the fields.
    pub const fn new(pc_low: u16, rule: Rule, offset: i32, rbp: i8) -> Self {
        Self { pc_low, rule: rule as u8, rbp, offset }
    }

    /// Its rule. Anything unknown is [`Rule::Unsupported`].
    #[inline(always)]
    pub const fn rule(&self) -> Rule {
        match self.rule {
            0 => Rule::Gap,
            1 => Rule::End,
            2 => Rule::Rsp,
            3 => Rule::Rbp,
            4 => Rule::Plt,
            5 => Rule::RbpDeref,
            6 => Rule::Signal,
            _ => Rule::Unsupported,
        }
    }
}

/// Index of the row in force at `pc_low`, among the rows `first..end` of one page.
///
/// `pc_low_of` reads the field of the row at an index. None if the range is empty, if a row cannot be read, or if the
/// page has no row at its beginning.
#[inline(always)]
pub fn search(
    first: u32,
    end: u32,
    pc_low: u16,
    mut pc_low_of: impl FnMut(u32) -> Option<u16>,
) -> Option<u32> {
    // Rows before `low` are at or before `pc_low`, rows from `high` on are after it.
    let (mut low, mut high) = (first, end);
    for _ in 0..SEARCH_STEPS_MAX {
        if low >= high {
            break;
        }
        // Wrapping throughout: nothing here overflows, and a check would be a panic, which BPF programs must not have.
        let middle = low.wrapping_add(high.wrapping_sub(low) >> 1);
        if pc_low_of(middle)? <= pc_low {
            low = middle.wrapping_add(1);
        } else {
            high = middle;
        }
    }
    if low > first { Some(low.wrapping_sub(1)) } else { None }
}

/// Steps from the registers in one frame to those in its caller.
///
/// `row` is the row in force at the frame's address (see [`Registers::rip`]). `read` reads eight bytes of the stack
/// at any address, aligned or not. A zero return address ends the walk like an undefined one: stacks that are set up by hand end
/// that way.
#[inline(always)]
pub fn step(row: &Row, at: &Registers, mut read: impl FnMut(u64) -> Option<u64>) -> Step {
    let offset = i64::from(row.offset) as u64;
    let saved_rbp = (i64::from(row.rbp) as u64).wrapping_mul(8);
    let (cfa, rbp_base) = match row.rule() {
        Rule::Rsp => {
            let cfa = at.rsp.wrapping_add(offset);
            (cfa, cfa)
        }
        Rule::Rbp => {
            let cfa = at.rbp.wrapping_add(offset);
            (cfa, cfa)
        }
        Rule::Plt => {
            let pushed = if (at.rip & 15) >= offset { 16 } else { 8 };
            let cfa = at.rsp.wrapping_add(pushed);
            (cfa, cfa)
        }
        Rule::RbpDeref => match read(at.rbp.wrapping_add(offset)) {
            Some(cfa) => (cfa, at.rbp),
            None => return Step::Stop(Stop::Unreadable),
        },
        Rule::Signal => return interrupted(at, read),
        Rule::End => return Step::End,
        Rule::Unsupported => return Step::Stop(Stop::Unsupported),
        Rule::Gap => return Step::Stop(Stop::Gap),
    };
    // At the least the return address lies between the two.
    if cfa <= at.rsp {
        return Step::Stop(Stop::NotAscending);
    }
    let Some(rip) = read(cfa.wrapping_sub(8)) else { return Step::Stop(Stop::Unreadable) };
    if rip == 0 {
        return Step::End;
    }
    let rbp = if row.rbp == RBP_UNCHANGED {
        at.rbp
    } else {
        match read(rbp_base.wrapping_add(saved_rbp)) {
            Some(rbp) => rbp,
            None => return Step::Stop(Stop::Unreadable),
        }
    };
    Step::Caller(Registers { rip, rsp: cfa, rbp })
}

/// The step over a signal frame. It may lead to lower addresses: handlers may run on an alternate stack
/// (<https://man7.org/linux/man-pages/man2/sigaltstack.2.html>).
#[inline(always)]
fn interrupted(at: &Registers, mut read: impl FnMut(u64) -> Option<u64>) -> Step {
    let mut saved = |offset| read(at.rsp.wrapping_add(offset));
    match (saved(signal_frame::RIP), saved(signal_frame::RSP), saved(signal_frame::RBP)) {
        (Some(rip), Some(rsp), Some(rbp)) => Step::Interrupted(Registers { rip, rsp, rbp }),
        _ => Step::Stop(Stop::Unreadable),
    }
}

const _: () = assert!(size_of::<Row>() == 8);

#[cfg(test)]
mod tests;
