//! Comparisons: a mask of the lanes for which they hold.

use std::num::FpCategory;

use super::Execution;
use crate::compare::{Compare, CompareType};
use crate::decode::operand;
use crate::fault::Cause;
use crate::wave::{Vector, mask};

/// The bit of a float's class: signalling and quiet NaN, then from -infinity to infinity.
fn class(category: FpCategory, is_negative: bool, is_quiet: bool) -> u32 {
    let bit = match (category, is_negative) {
        (FpCategory::Nan, _) => u32::from(is_quiet),
        (FpCategory::Infinite, true) => 2,
        (FpCategory::Normal, true) => 3,
        (FpCategory::Subnormal, true) => 4,
        (FpCategory::Zero, true) => 5,
        (FpCategory::Zero, false) => 6,
        (FpCategory::Subnormal, false) => 7,
        (FpCategory::Normal, false) => 8,
        (FpCategory::Infinite, false) => 9,
    };
    1 << bit
}

fn class_16(bits: u16) -> u32 {
    let category = match bits & 0x7fff {
        0 => FpCategory::Zero,
        1..0x400 => FpCategory::Subnormal,
        0x400..0x7c00 => FpCategory::Normal,
        0x7c00 => FpCategory::Infinite,
        _ => FpCategory::Nan,
    };
    class(category, bits & 0x8000 != 0, bits & 0x200 != 0)
}

fn class_32(value: f32) -> u32 {
    class(value.classify(), value.is_sign_negative(), value.to_bits() & 0x40_0000 != 0)
}

fn class_64(value: f64) -> u32 {
    class(value.classify(), value.is_sign_negative(), value.to_bits() & 0x8_0000_0000_0000 != 0)
}

fn integers<T: Ord>(compare: Compare, a: &Vector<T>, b: &Vector<T>) -> u64 {
    mask(|lane| compare.holds(&a[lane], &b[lane]))
}

fn floats<T: PartialOrd>(compare: Compare, a: &Vector<T>, b: &Vector<T>) -> u64 {
    mask(|lane| compare.holds_for_floats(&a[lane], &b[lane]))
}

impl Execution<'_> {
    pub(super) fn compare(&mut self) -> Result<(), Cause> {
        let compare = self.i.compare.ok_or(Cause::Unsupported)?;
        let holds = self.holds(compare)? & self.exec;
        let to = self.i.dst;
        self.wave.set_pair(to, holds);
        if compare.writes_exec {
            self.wave.set_pair(operand::EXEC, holds);
        }
        Ok(())
    }

    fn holds(&self, compare: Compare) -> Result<u64, Cause> {
        Ok(match compare.of {
            CompareType::Float(16) => floats(compare, &self.f16s(0)?, &self.f16s(1)?),
            CompareType::Float(32) => floats(compare, &self.f32s(0)?, &self.f32s(1)?),
            CompareType::Float(_) => floats(compare, &self.f64s(0)?, &self.f64s(1)?),
            CompareType::Signed(16) => {
                let (a, b) = (self.u16s(0)?, self.u16s(1)?);
                integers(compare, &a.map(|a| a as i16), &b.map(|b| b as i16))
            }
            CompareType::Signed(32) => {
                let (a, b) = (self.u32s(0)?, self.u32s(1)?);
                integers(compare, &a.map(|a| a as i32), &b.map(|b| b as i32))
            }
            CompareType::Signed(_) => {
                let (a, b) = (self.signed_64s(0)?, self.signed_64s(1)?);
                integers(compare, &a, &b)
            }
            CompareType::Unsigned(16) => integers(compare, &self.u16s(0)?, &self.u16s(1)?),
            CompareType::Unsigned(32) => integers(compare, &self.u32s(0)?, &self.u32s(1)?),
            CompareType::Unsigned(_) => integers(compare, &self.u64s(0)?, &self.u64s(1)?),
            CompareType::Class(bits) => {
                let wanted = self.u32s(1)?;
                let classes = match bits {
                    16 => self.modified_16(0)?.map(class_16),
                    32 => self.modified_32(0)?.map(|value| class_32(f32::from_bits(value))),
                    _ => self.modified_64(0)?.map(|value| class_64(f64::from_bits(value))),
                };
                mask(|lane| classes[lane] & wanted[lane] != 0)
            }
        })
    }

    /// A literal is extended with its sign.
    fn signed_64s(&self, index: usize) -> Result<Vector<i64>, Cause> {
        if self.i.src[index] == operand::LITERAL {
            return Ok([i64::from(self.i.literal as i32); 64]);
        }
        Ok(self.u64s(index)?.map(|value| value as i64))
    }
}
