//! Translates a row of DWARF's call frame information (DWARF 5, section 6.4, <https://dwarfstd.org/doc/DWARF5.pdf>) into an
//! equivalent rule.
//!
//! A row without an equivalent rule becomes [`Rule::Unsupported`], never a rule that is only right in most cases.

use gimli::{
    CfaRule, Operation, Reader, RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use xsched_abi::unwind::{RBP_UNCHANGED, Row, Rule};

/// The length of the longest expression that is supported: that of linkage tables.
const OPERATIONS_MAX: usize = 9;

/// Offsets of saved registers from the stack pointer in a signal frame. glibc describes them for `__restore_rt`:
/// <https://sourceware.org/git/?p=glibc.git;a=blob;f=sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c;hb=refs/tags/glibc-2.36>.
const SIGNAL_RBP: i64 = 120;
const SIGNAL_RSP: i64 = 160;
const SIGNAL_RIP: i64 = 168;

pub(crate) const UNSUPPORTED: Row = Row::new(0, Rule::Unsupported, 0, 0);
pub(crate) const GAP: Row = Row::new(0, Rule::Gap, 0, 0);
const END: Row = Row::new(0, Rule::End, 0, 0);
const SIGNAL: Row = Row::new(0, Rule::Signal, 0, 0);

/// The value or the address that an expression computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Computed {
    /// A register (rbp or rsp) and an offset.
    Sum(Base, i64),
    /// The word at the sum.
    Deref(Base, i64),
    /// `rsp + 8 + ((rip & 15) >= n) * 8`: the frame address in a linkage table, before and after its push. Linkers write it:
    /// <https://sourceware.org/git/?p=binutils-gdb.git;a=blob;f=bfd/elf64-x86-64.c;hb=refs/tags/binutils-2_40>.
    Plt(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Rsp,
    Rbp,
}

/// The rule of a row; its `pc_low` is zero.
pub(crate) fn translate<R: Reader<Offset = usize>>(
    row: &UnwindTableRow<usize>,
    section: &impl UnwindSection<R>,
    encoding: gimli::Encoding,
) -> Row {
    let read = |expression: &UnwindExpression<usize>| computed(expression, section, encoding);
    translated(row, &read).unwrap_or(UNSUPPORTED)
}

fn translated(
    row: &UnwindTableRow<usize>,
    read: &impl Fn(&UnwindExpression<usize>) -> Option<Computed>,
) -> Option<Row> {
    let cfa = match row.cfa() {
        &CfaRule::RegisterAndOffset { register, offset } => match register {
            X86_64::RSP => Some(Computed::Sum(Base::Rsp, offset)),
            X86_64::RBP => Some(Computed::Sum(Base::Rbp, offset)),
            _ => None,
        },
        CfaRule::Expression(expression) => read(expression),
    };
    match row.register(X86_64::RA)? {
        RegisterRule::Undefined => return Some(END),
        RegisterRule::Offset(-8) => {}
        RegisterRule::Expression(rip) => return signal(row, cfa?, &rip, read),
        _ => return None,
    }
    let rbp = saved_rbp(row, read)?;
    match cfa? {
        Computed::Sum(base, offset) => {
            // An address relative to the frame address's register can be converted into one relative to the frame address.
            let rbp = match rbp {
                Saved::Nowhere => RBP_UNCHANGED,
                Saved::FromCfa(bytes) => words(bytes)?,
                Saved::From(saved_base, bytes) if saved_base == base => words(bytes.checked_sub(offset)?)?,
                Saved::From(..) => return None,
            };
            let rule = if base == Base::Rsp { Rule::Rsp } else { Rule::Rbp };
            Some(Row::new(0, rule, i32::try_from(offset).ok()?, rbp))
        }
        Computed::Deref(Base::Rbp, offset) => {
            let rbp = match rbp {
                Saved::Nowhere => RBP_UNCHANGED,
                Saved::From(Base::Rbp, bytes) => words(bytes)?,
                Saved::From(..) | Saved::FromCfa(_) => return None,
            };
            Some(Row::new(0, Rule::RbpDeref, i32::try_from(offset).ok()?, rbp))
        }
        Computed::Deref(Base::Rsp, _) => None,
        Computed::Plt(pushed_from) => {
            let rbp = match rbp {
                Saved::Nowhere => RBP_UNCHANGED,
                Saved::FromCfa(bytes) => words(bytes)?,
                Saved::From(..) => return None,
            };
            Some(Row::new(0, Rule::Plt, i32::try_from(pushed_from).ok()?, rbp))
        }
    }
}

/// Where the caller's rbp is saved.
enum Saved {
    Nowhere,
    FromCfa(i64),
    From(Base, i64),
}

fn saved_rbp(
    row: &UnwindTableRow<usize>,
    read: &impl Fn(&UnwindExpression<usize>) -> Option<Computed>,
) -> Option<Saved> {
    match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => Some(Saved::Nowhere),
        Some(RegisterRule::Offset(bytes)) => Some(Saved::FromCfa(bytes)),
        Some(RegisterRule::Expression(address)) => match read(&address)? {
            Computed::Sum(base, bytes) => Some(Saved::From(base, bytes)),
            _ => None,
        },
        Some(_) => None,
    }
}

/// The rule of a signal frame, which libc describes with one expression for each register.
fn signal(
    row: &UnwindTableRow<usize>,
    cfa: Computed,
    rip: &UnwindExpression<usize>,
    read: &impl Fn(&UnwindExpression<usize>) -> Option<Computed>,
) -> Option<Row> {
    let Some(RegisterRule::Expression(rbp)) = row.register(X86_64::RBP) else { return None };
    let is_signal = cfa == Computed::Deref(Base::Rsp, SIGNAL_RSP)
        && read(rip)? == Computed::Sum(Base::Rsp, SIGNAL_RIP)
        && read(&rbp)? == Computed::Sum(Base::Rsp, SIGNAL_RBP);
    is_signal.then_some(SIGNAL)
}

fn words(bytes: i64) -> Option<i8> {
    let words = i8::try_from(bytes / 8).ok()?;
    (bytes % 8 == 0 && words != RBP_UNCHANGED).then_some(words)
}

fn computed<R: Reader<Offset = usize>>(
    expression: &UnwindExpression<usize>,
    section: &impl UnwindSection<R>,
    encoding: gimli::Encoding,
) -> Option<Computed> {
    let mut parsed = expression.get(section).ok()?.operations(encoding);
    let mut operations = Vec::with_capacity(OPERATIONS_MAX);
    while let Some(operation) = parsed.next().ok()? {
        if operations.len() == OPERATIONS_MAX {
            return None;
        }
        operations.push(operation);
    }
    let (first, rest) = operations.split_first()?;
    let &Operation::RegisterOffset { register, offset, .. } = first else { return None };
    let base = match register {
        X86_64::RSP => Base::Rsp,
        X86_64::RBP => Base::Rbp,
        _ => return None,
    };
    match rest {
        [] => Some(Computed::Sum(base, offset)),
        [Operation::Deref { size: 8, .. }] => Some(Computed::Deref(base, offset)),
        [
            Operation::RegisterOffset { register: X86_64::RA, offset: 0, .. },
            Operation::UnsignedConstant { value: 15 },
            Operation::And,
            Operation::UnsignedConstant { value: pushed_from },
            Operation::Ge,
            Operation::UnsignedConstant { value: 3 },
            Operation::Shl,
            Operation::Plus,
        ] if base == Base::Rsp && offset == 8 => Some(Computed::Plt(*pushed_from)),
        _ => None,
    }
}
