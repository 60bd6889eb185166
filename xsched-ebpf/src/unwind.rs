//! One step up a stack, as the BPF programs and user space both take it.
//!
//! Optimised code keeps no frame pointers, so how to find the caller depends on the instruction. `.eh_frame` says it
//! in a language that is far too large for a probe; user space translates it into rows of eight bytes, of which this
//! module holds the layout and the meaning.
//!
//! ```text
//! pages   one u32 for each 64 KiB of the file's addresses, from the first that has rows: index of its first row;
//!         one more at the end: the number of rows
//! rows    sorted by address; each holds from its `pc_low` to the next row
//!
//! page 3        page 4                  page 5
//! │ 0     2c0   │ 0        40     f00c  │ 0
//! │ Gap   Rsp   │ Rsp      Rbp    Gap   │ Gap
//! ```
//!
//! A page always has a row at its very beginning, which repeats the rule in force where need be. So a search needs
//! one page's rows only, always finds something, and takes at most [`SEARCH_STEPS_MAX`] steps.
//!
//! Rows know the stack pointer, the frame pointer and the return address, since no rule of a compiler needs more;
//! what they cannot say is [`Rule::Unsupported`], never something near.

#![expect(
    clippy::inline_always,
    reason = "a BPF program is one body to the verifier, which knows values better than it knows arguments"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits of an address that tell the rows of one page apart.
pub const PAGE_BITS: u32 = 16;

/// Steps of the longest search: a page has at most 2^16 rows.
pub const SEARCH_STEPS_MAX: u32 = PAGE_BITS + 1;

/// Value of [`Row::rbp`]: the function has not touched the frame pointer.
pub const RBP_UNCHANGED: i8 = i8::MIN;

/// What the kernel has pushed when a signal handler begins (`struct rt_sigframe`), seen from the stack pointer of
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
    /// Low 16 bits of the first address, as the ELF file counts.
    pub pc_low: u16,
    /// A [`Rule`].
    pub rule: u8,
    /// Eight times this is where the caller's rbp was saved, relative to the canonical frame address (or to rbp, with
    /// [`Rule::RbpDeref`]); or [`RBP_UNCHANGED`].
    pub rbp: i8,
    /// Bytes; what is added to what is the rule's business.
    pub offset: i32,
}

/// Where the canonical frame address (CFA) is: the stack pointer as it was before the call.
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
    /// `rsp + 8`, and 8 more from byte `offset` of each 16-byte entry of a procedure linkage table.
    Plt = 4,
    /// The word at `rbp + offset`: the function has realigned its stack.
    RbpDeref = 5,
    /// The frame of a signal; the whole register set lies above rsp.
    Signal = 6,
    /// There is a rule, and rows cannot express it.
    Unsupported = 7,
}

/// The registers of one frame that rows know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Instruction pointer. In all but the innermost frame and interrupted ones this is a return address, which may
    /// already belong to the next function: look up the address before it.
    pub rip: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Frame pointer, or whatever the function keeps there.
    pub rbp: u64,
}

/// Where [`step`] has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller. Its instruction pointer is a return address.
    Caller(Registers),
    /// The function that a signal has interrupted. Its instruction pointer is the instruction that comes next.
    Interrupted(Registers),
    /// There is no caller: the stack has been walked to its end.
    End,
    /// There may be a caller, and it cannot be found.
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
    /// The caller's frame would not lie above this one: the stack or the table is not what it seems.
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
        // Wrapping throughout: nothing here overflows, and a check would be a panic that no BPF program can have.
        let middle = low.wrapping_add(high.wrapping_sub(low) >> 1);
        if pc_low_of(middle)? <= pc_low {
            low = middle.wrapping_add(1);
        } else {
            high = middle;
        }
    }
    if low > first { Some(low.wrapping_sub(1)) } else { None }
}

/// From the registers in one frame to those in its caller.
///
/// `row` is the row in force at the frame's address (see [`Registers::rip`]). `read` reads eight bytes of the stack
/// at any address, aligned or not. A zero return address ends the walk as an undefined one does: this is how stacks
/// made by hand are closed.
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

/// The step over a signal frame. It may lead to lower addresses: handlers may run on a stack of their own.
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
