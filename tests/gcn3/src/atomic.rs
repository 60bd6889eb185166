//! What atomic operations do with a word of memory.

use crate::opcodes::Op;

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add,
    Sub,
    ReverseSub,
    Inc,
    Dec,
    MinSigned,
    MaxSigned,
    MinUnsigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    /// Replaces the bits of the first value by those of the second.
    Mask,
    Exchange,
    /// Writes if the word is as expected; floats compare as floats.
    Compare,
    CompareFloat,
    MinFloat,
    MaxFloat,
    AddFloat,
    /// Subtracts the first value, or adds the second if the word is smaller.
    Wrap,
}

/// An atomic operation with its width, and whether it always returns the old word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub(crate) action: Action,
    pub(crate) is_wide: bool,
    pub(crate) returns: bool,
}

impl Atomic {
    /// The atomic operation of an instruction, if it is one on one word.
    pub(crate) fn of(op: Op) -> Option<Self> {
        let name = op.name();
        if let Some(rest) = name.strip_prefix("ds_") {
            return Self::of_ds(rest);
        }
        let rest = name.strip_prefix("flat_atomic_").or_else(|| name.strip_prefix("buffer_atomic_"))?;
        let (rest, is_wide) = rest.strip_suffix("_x2").map_or((rest, false), |rest| (rest, true));
        let action = match rest {
            "swap" => Action::Exchange,
            "cmpswap" => Action::Compare,
            "add" => Action::Add,
            "sub" => Action::Sub,
            "smin" => Action::MinSigned,
            "umin" => Action::MinUnsigned,
            "smax" => Action::MaxSigned,
            "umax" => Action::MaxUnsigned,
            "and" => Action::And,
            "or" => Action::Or,
            "xor" => Action::Xor,
            "inc" => Action::Inc,
            "dec" => Action::Dec,
            _ => return None,
        };
        Some(Self { action, is_wide, returns: false })
    }

    fn of_ds(name: &str) -> Option<Self> {
        let (kind, of_type) = name.rsplit_once('_')?;
        let (kind, returns) = kind.strip_suffix("_rtn").map_or((kind, false), |kind| (kind, true));
        let action = match (kind, of_type.chars().next()?) {
            ("add", 'u') => Action::Add,
            ("sub", _) => Action::Sub,
            ("rsub", _) => Action::ReverseSub,
            ("inc", _) => Action::Inc,
            ("dec", _) => Action::Dec,
            ("min", 'i') => Action::MinSigned,
            ("max", 'i') => Action::MaxSigned,
            ("min", 'u') => Action::MinUnsigned,
            ("max", 'u') => Action::MaxUnsigned,
            ("and", _) => Action::And,
            ("or", _) => Action::Or,
            ("xor", _) => Action::Xor,
            ("mskor", _) => Action::Mask,
            ("wrxchg", _) => Action::Exchange,
            ("cmpst", 'b') => Action::Compare,
            ("cmpst", _) => Action::CompareFloat,
            ("min", _) => Action::MinFloat,
            ("max", _) => Action::MaxFloat,
            ("add", _) => Action::AddFloat,
            ("wrap", _) => Action::Wrap,
            _ => return None,
        };
        Some(Self { action, is_wide: of_type.ends_with("64"), returns })
    }

    /// The word that comes in place of `old`: the first value, and the one to compare with or the second.
    pub(crate) fn apply(self, old: u64, value: u64, second: u64) -> u64 {
        if self.is_wide {
            apply_64(self.action, old, value, second)
        } else {
            u64::from(apply_32(self.action, old as u32, value as u32, second as u32))
        }
    }
}

fn replaced_if<T>(is_replaced: bool, old: T, value: T) -> T {
    if is_replaced { value } else { old }
}

fn apply_32(action: Action, old: u32, value: u32, second: u32) -> u32 {
    let float = f32::from_bits;
    match action {
        Action::MinSigned => (old as i32).min(value as i32) as u32,
        Action::MaxSigned => (old as i32).max(value as i32) as u32,
        Action::CompareFloat => replaced_if(float(old) == float(second), old, value),
        Action::MinFloat => replaced_if(float(value) < float(old), old, value),
        Action::MaxFloat => replaced_if(float(value) > float(old), old, value),
        Action::AddFloat => (float(old) + float(value)).to_bits(),
        Action::ReverseSub => value.wrapping_sub(old),
        _ => apply_64(action, u64::from(old), u64::from(value), u64::from(second)) as u32,
    }
}

fn apply_64(action: Action, old: u64, value: u64, second: u64) -> u64 {
    let float = f64::from_bits;
    match action {
        Action::Add => old.wrapping_add(value),
        Action::Sub => old.wrapping_sub(value),
        Action::ReverseSub => value.wrapping_sub(old),
        Action::Inc => {
            if old >= value {
                0
            } else {
                old + 1
            }
        }
        Action::Dec => {
            if old == 0 || old > value {
                value
            } else {
                old - 1
            }
        }
        Action::MinSigned => (old as i64).min(value as i64) as u64,
        Action::MaxSigned => (old as i64).max(value as i64) as u64,
        Action::MinUnsigned => old.min(value),
        Action::MaxUnsigned => old.max(value),
        Action::And => old & value,
        Action::Or => old | value,
        Action::Xor => old ^ value,
        Action::Mask => old & !value | second,
        Action::Exchange => value,
        Action::Compare => replaced_if(old == second, old, value),
        Action::CompareFloat => replaced_if(float(old) == float(second), old, value),
        Action::MinFloat => replaced_if(float(value) < float(old), old, value),
        Action::MaxFloat => replaced_if(float(value) > float(old), old, value),
        Action::AddFloat => (float(old) + float(value)).to_bits(),
        Action::Wrap => {
            if old >= value {
                old - value
            } else {
                old.wrapping_add(second)
            }
        }
    }
}
