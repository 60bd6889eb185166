//! Operations of gfx9 on two halves of each dword (VOP3P), and those that mix half and single precision.

use super::float32::{max, min};
use super::{Execution, clamp_16, map1, map2, map3};
use crate::decode::Lanes;
use crate::fault::Cause;
use crate::float::{Exact, Rounding, f16_to_f32, f16_to_f64, f64_to_f16, flush_16, is_nan_16, nan_of_16};
use crate::opcodes::Op;
use crate::wave::{Vector, inline_float};

/// An operation whose result is one of its operands.
fn chosen(f: impl Fn(f32, f32) -> f32, a: u16, b: u16) -> u16 {
    f64_to_f16(f64::from(f(f16_to_f32(a), f16_to_f32(b))), Rounding::Nearest)
}

impl Execution<'_> {
    /// Which halves of the sources make one half of the result, and whose signs are turned.
    fn chosen_halves(&self, is_high: bool) -> (u8, u8) {
        match self.i.lanes {
            Lanes::Halves { high, negates_high, .. } if is_high => (high, negates_high),
            Lanes::Halves { low, .. } => (low, self.i.neg),
            _ => (0, self.i.neg),
        }
    }

    /// A source of one half of the result, without signs.
    fn half(&self, index: usize, is_high: bool) -> Result<Vector<u16>, Cause> {
        let (halves, _) = self.chosen_halves(is_high);
        let source = self.i.src[index];
        let shift = if halves >> index & 1 != 0 { 16 } else { 0 };
        if (240..=248).contains(&source) {
            // An inline float is one of half precision, with nothing above it.
            return Ok([(u32::from(inline_float(source).2) >> shift) as u16; 64]);
        }
        Ok(map1(&self.raw(index)?, |value| (value >> shift) as u16))
    }

    /// The same of half precision.
    fn float_half(&self, index: usize, is_high: bool) -> Result<Vector<u16>, Cause> {
        let (_, negates) = self.chosen_halves(is_high);
        let toggle = u16::from(negates >> index & 1) << 15;
        let flushes = self.wave.mode.flushes_in_16_64();
        Ok(map1(&self.half(index, is_high)?, |value| {
            let value = value ^ toggle;
            if flushes { flush_16(value) } else { value }
        }))
    }

    fn put_halves(&mut self, of: impl Fn(&Self, bool) -> Result<Vector<u16>, Cause>) -> Result<(), Cause> {
        let (low, high) = (of(self, false)?, of(self, true)?);
        self.put(&map2(&low, &high, |low, high| u32::from(low) | u32::from(high) << 16))
    }

    fn packed_integers(&mut self, f: impl Fn(u16, u16) -> u16 + Copy) -> Result<(), Cause> {
        if self.i.clamp {
            return Err(Cause::Unsupported);
        }
        self.put_halves(|this, is_high| Ok(map2(&this.half(0, is_high)?, &this.half(1, is_high)?, f)))
    }

    fn packed_signed(&mut self, f: impl Fn(i16, i16) -> i16 + Copy) -> Result<(), Cause> {
        self.packed_integers(|a, b| f(a as i16, b as i16) as u16)
    }

    /// A sum or difference, which saturates if the instruction clamps.
    fn packed_sum(
        &mut self,
        plain: impl Fn(u16, u16) -> u16 + Copy,
        clamped: impl Fn(u16, u16) -> u16 + Copy,
    ) -> Result<(), Cause> {
        let clamps = std::mem::take(&mut self.i.clamp);
        self.packed_integers(|a, b| if clamps { clamped(a, b) } else { plain(a, b) })
    }

    /// What a half becomes at the end.
    fn finished(&self, value: u16) -> u16 {
        let value = if self.i.clamp { clamp_16(value, !self.wave.mode.clamps_nan()) } else { value };
        if self.wave.mode.flushes_out_16_64() { flush_16(value) } else { value }
    }

    fn packed_floats(&mut self, f: impl Fn(u16, u16) -> u16 + Copy) -> Result<(), Cause> {
        self.put_halves(|this, is_high| {
            let (a, b) = (this.float_half(0, is_high)?, this.float_half(1, is_high)?);
            Ok(map2(&a, &b, |a, b| this.finished(f(a, b))))
        })
    }

    /// A source of a mixed operation: of half or of single precision. The bits that turn signs of upper halves take absolute values.
    fn mixed(&self, index: usize) -> Result<Vector<f32>, Cause> {
        let Lanes::Halves { low, high, negates_high } = self.i.lanes else { return Err(Cause::Unsupported) };
        let bit = |bits: u8| bits >> index & 1 != 0;
        let values = if bit(high) {
            let shift = if bit(low) { 16 } else { 0 };
            let is_inline = (240..=248).contains(&self.i.src[index]);
            let inline = inline_float(self.i.src[index]).2;
            map1(&self.raw(index)?, |value| {
                f16_to_f32(if is_inline { inline } else { (value >> shift) as u16 })
            })
        } else {
            map1(&self.raw(index)?, f32::from_bits)
        };
        Ok(map1(&values, |value| {
            let value = if bit(negates_high) { value.abs() } else { value };
            if bit(self.i.neg) { -value } else { value }
        }))
    }

    fn mad_mix(&mut self) -> Result<Vector<f32>, Cause> {
        let sources = (self.mixed(0)?, self.mixed(1)?, self.mixed(2)?);
        Ok(self.mad_values([&sources.0, &sources.1, &sources.2], |a, b| a * b))
    }

    /// The same with a result of half precision.
    fn mad_mix_half(&mut self, is_high: bool) -> Result<(), Cause> {
        let rounding = self.wave.rounding_64();
        let values = map1(&self.mad_mix()?, |value| f64_to_f16(f64::from(value), rounding));
        self.i.lanes = Lanes::Halves { low: u8::from(is_high) << 3, high: 0, negates_high: 0 };
        self.put_f16(&values)
    }

    /// Operations of VOP3P.
    pub(super) fn packed(&mut self) -> Result<(), Cause> {
        let rounding = self.wave.rounding_64();
        let float = |value: f64, operands: &[u16]| {
            let value = f64_to_f16(value, rounding);
            if is_nan_16(value) { nan_of_16(operands) } else { value }
        };
        match self.i.op {
            Op::VPkMulLoU16 => self.packed_integers(u16::wrapping_mul),
            Op::VPkAddU16 => self.packed_sum(u16::wrapping_add, u16::saturating_add),
            Op::VPkSubU16 => self.packed_sum(u16::wrapping_sub, u16::saturating_sub),
            Op::VPkAddI16 => {
                self.packed_sum(u16::wrapping_add, |a, b| (a as i16).saturating_add(b as i16) as u16)
            }
            Op::VPkSubI16 => {
                self.packed_sum(u16::wrapping_sub, |a, b| (a as i16).saturating_sub(b as i16) as u16)
            }
            Op::VPkLshlrevB16 => self.packed_integers(|by, value| value << (by & 15)),
            Op::VPkLshrrevB16 => self.packed_integers(|by, value| value >> (by & 15)),
            Op::VPkAshrrevI16 => self.packed_integers(|by, value| (value as i16 >> (by & 15)) as u16),
            Op::VPkMaxI16 => self.packed_signed(i16::max),
            Op::VPkMinI16 => self.packed_signed(i16::min),
            Op::VPkMaxU16 => self.packed_integers(u16::max),
            Op::VPkMinU16 => self.packed_integers(u16::min),
            Op::VPkMadI16 | Op::VPkMadU16 if !self.i.clamp => self.put_halves(|this, is_high| {
                let [a, b, c] = [this.half(0, is_high)?, this.half(1, is_high)?, this.half(2, is_high)?];
                Ok(map3(&a, &b, &c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)))
            }),
            Op::VPkAddF16 => self.packed_floats(|a, b| float(f16_to_f64(a) + f16_to_f64(b), &[a, b])),
            Op::VPkMulF16 => self.packed_floats(|a, b| float(f16_to_f64(a) * f16_to_f64(b), &[a, b])),
            Op::VPkMinF16 => self.packed_floats(|a, b| chosen(min, a, b)),
            Op::VPkMaxF16 => self.packed_floats(|a, b| chosen(max, a, b)),
            Op::VPkFmaF16 => self.put_halves(|this, is_high| {
                let of = |index| this.float_half(index, is_high);
                Ok(map3(&of(0)?, &of(1)?, &of(2)?, |a, b, c| {
                    let value = Exact::sum(f16_to_f64(a) * f16_to_f64(b), f16_to_f64(c)).to_f16(rounding);
                    this.finished(if is_nan_16(value) { nan_of_16(&[a, b, c]) } else { value })
                }))
            }),
            Op::VMadMixF32 => {
                let values = self.mad_mix()?;
                self.put_f32(&values)
            }
            Op::VMadMixloF16 => self.mad_mix_half(false),
            Op::VMadMixhiF16 => self.mad_mix_half(true),
            _ => Err(Cause::Unsupported),
        }
    }
}
