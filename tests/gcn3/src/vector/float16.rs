//! Operations of half precision. Their intermediate results are exact or of double precision, and are rounded once.

use super::float32::{circular, cosine, max, median, min, sine};
use super::{Execution, map1, map2, map3};
use crate::fault::Cause;
use crate::float::{self, Exact, Rounding, f16_to_f64, f64_to_f16, flush_16, is_nan_16, nan_of_16};
use crate::opcodes::Op;
use crate::wave::Vector;

/// An operation of single precision whose result is one of the operands.
fn chosen(value: f32) -> u16 {
    f64_to_f16(f64::from(value), Rounding::Nearest)
}

impl Execution<'_> {
    fn rounding_16(&self) -> Rounding {
        self.wave.rounding_64()
    }

    fn unary_16(&mut self, f: impl Fn(f64) -> f64) -> Result<(), Cause> {
        let rounding = self.rounding_16();
        let values = map1(&self.halves(0)?, |a| {
            let value = f64_to_f16(f(f16_to_f64(a)), rounding);
            if is_nan_16(value) { nan_of_16(&[a]) } else { value }
        });
        self.put_f16(&values)
    }

    fn binary_16(&mut self, f: impl Fn(f64, f64) -> f64) -> Result<(), Cause> {
        let rounding = self.rounding_16();
        let values = map2(&self.halves(0)?, &self.halves(1)?, |a, b| {
            // Sums and products of two halves are exact in double precision.
            let value = f64_to_f16(f(f16_to_f64(a), f16_to_f64(b)), rounding);
            if is_nan_16(value) { nan_of_16(&[a, b]) } else { value }
        });
        self.put_f16(&values)
    }

    fn chosen_16(&mut self, f: impl Fn(f32, f32) -> f32) -> Result<(), Cause> {
        let values = map2(&self.f16s(0)?, &self.f16s(1)?, |a, b| chosen(f(a, b)));
        self.put_f16(&values)
    }

    fn chosen_of_three_16(&mut self, f: impl Fn(f32, f32, f32) -> f32) -> Result<(), Cause> {
        let values = map3(&self.f16s(0)?, &self.f16s(1)?, &self.f16s(2)?, |a, b, c| chosen(f(a, b, c)));
        self.put_f16(&values)
    }

    /// The sum `c` of a product that is rounded first, or of the exact one.
    fn mad_16(&mut self, c: &Vector<u16>, is_fused: bool) -> Result<(), Cause> {
        let rounding = self.rounding_16();
        let flushes = self.wave.mode.flushes_out_16_64();
        let values = map3(&self.halves(0)?, &self.halves(1)?, c, |a, b, c| {
            let exact = f16_to_f64(a) * f16_to_f64(b);
            let product = if is_fused {
                exact
            } else {
                let rounded = f64_to_f16(exact, rounding);
                f16_to_f64(if flushes { flush_16(rounded) } else { rounded })
            };
            let value = Exact::sum(product, f16_to_f64(c)).to_f16(rounding);
            if is_nan_16(value) { nan_of_16(&[a, b, c]) } else { value }
        });
        self.put_f16(&values)
    }

    fn old_f16(&self) -> Result<Vector<u16>, Cause> {
        let dst = self.i.dst;
        let register = dst.checked_sub(crate::decode::operand::VECTOR).ok_or(Cause::Operand(dst))?;
        let values = self.wave.vgpr.get(usize::from(register)).ok_or(Cause::Operand(dst))?;
        let flushes = self.wave.mode.flushes_in_16_64();
        Ok(map1(values, |value| if flushes { flush_16(value as u16) } else { value as u16 }))
    }

    /// Half precision, or else the next family.
    pub(super) fn float16(&mut self) -> Result<(), Cause> {
        match self.i.op {
            Op::VAddF16 => self.binary_16(|a, b| a + b),
            Op::VSubF16 => self.binary_16(|a, b| a - b),
            Op::VSubrevF16 => self.binary_16(|a, b| b - a),
            Op::VMulF16 => self.binary_16(|a, b| a * b),
            Op::VMinF16 => self.chosen_16(min),
            Op::VMaxF16 => self.chosen_16(max),
            Op::VMacF16 => {
                let c = self.old_f16()?;
                self.mad_16(&c, false)
            }
            Op::VMadF16 | Op::VMadmkF16 | Op::VMadakF16 | Op::VMadLegacyF16 | Op::VMadHalfF16 => {
                let c = self.halves(2)?;
                self.mad_16(&c, false)
            }
            Op::VFmaF16 | Op::VFmaLegacyF16 | Op::VFmaHalfF16 => {
                let c = self.halves(2)?;
                self.mad_16(&c, true)
            }
            Op::VRcpF16 => self.unary_16(f64::recip),
            Op::VSqrtF16 => self.unary_16(f64::sqrt),
            Op::VRsqF16 => self.unary_16(|a| a.sqrt().recip()),
            Op::VLogF16 => self.unary_16(f64::log2),
            Op::VExpF16 => self.unary_16(f64::exp2),
            Op::VFloorF16 => self.unary_16(f64::floor),
            Op::VCeilF16 => self.unary_16(f64::ceil),
            Op::VTruncF16 => self.unary_16(f64::trunc),
            Op::VRndneF16 => self.unary_16(float::round_even),
            Op::VFractF16 => self.unary_16(|a| (a - a.floor()).min(f16_to_f64(0x3bff))),
            Op::VSinF16 => self.unary_16(|a| f64::from(circular(a as f32, sine))),
            Op::VCosF16 => self.unary_16(|a| f64::from(circular(a as f32, cosine))),
            Op::VFrexpMantF16 => self.unary_16(float::frexp_mantissa),
            Op::VFrexpExpI16F16 => {
                let values = map1(&self.halves(0)?, |a| float::frexp_exponent(f16_to_f64(a)) as u16);
                self.put_u16(&values)
            }
            Op::VLdexpF16 => {
                let rounding = self.rounding_16();
                let values = map2(&self.halves(0)?, &self.u16s(1)?, |a, exponent| {
                    let value = float::ldexp(f16_to_f64(a), i32::from(exponent as i16));
                    if is_nan_16(a) { nan_of_16(&[a]) } else { f64_to_f16(value, rounding) }
                });
                self.put_f16(&values)
            }
            Op::VMin3F16 => self.chosen_of_three_16(|a, b, c| min(min(a, b), c)),
            Op::VMax3F16 => self.chosen_of_three_16(|a, b, c| max(max(a, b), c)),
            Op::VMed3F16 => self.chosen_of_three_16(median),
            Op::VPackB32F16 => {
                let values = map2(&self.halves(0)?, &self.halves(1)?, |low, high| {
                    u32::from(low) | u32::from(high) << 16
                });
                self.put_u32(&values)
            }
            Op::VDivFixupF16 | Op::VDivFixupLegacyF16 | Op::VDivFixupHalfF16 => self.division_16(),
            _ => self.convert(),
        }
    }

    /// The quotient of two halves from its approximation: only signs and special cases are left to do.
    fn division_16(&mut self) -> Result<(), Cause> {
        let values = map3(&self.halves(0)?, &self.halves(1)?, &self.halves(2)?, |quotient, b, a| {
            let sign = (a ^ b) & 0x8000;
            let (size_a, size_b) = (a & 0x7fff, b & 0x7fff);
            match (size_a, size_b) {
                (0x7c01.., _) => nan_of_16(&[a]),
                (_, 0x7c01..) => nan_of_16(&[b]),
                (0, 0) | (0x7c00, 0x7c00) => 0xfe00,
                (0x7c00, _) | (_, 0) => sign | 0x7c00,
                (0, _) | (_, 0x7c00) => sign,
                _ if is_nan_16(quotient) => sign | 0x7c00,
                _ => sign | quotient & 0x7fff,
            }
        });
        self.put_f16(&values)
    }
}
