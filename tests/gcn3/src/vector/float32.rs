//! Operations of single precision.
//!
//! Sums, products and their like are rounded correctly. The functions that the hardware approximates (`v_rcp`, `v_rsq`,
//! `v_sqrt`, `v_exp`, `v_log`, `v_sin`, `v_cos`) are computed in double precision and rounded: they are within half a unit of
//! the last place of the true value, where the hardware promises one, so results may differ from its in the last place.

use super::{Execution, map1, map2, map3};
use crate::fault::Cause;
use crate::float::{self, Exact, NAN_32, Rounding, flush_32, quiet_32};
use crate::opcodes::Op;
use crate::wave::{Vector, Wave};

/// The NaN that an operation with a NaN as result has: its first operand that is one, or the hardware's own.
fn nan_of(operands: &[f32]) -> f32 {
    operands.iter().find(|operand| operand.is_nan()).map_or(NAN_32, |&nan| quiet_32(nan))
}

/// The smaller of two; a number before a NaN, and -0 before 0.
pub(super) fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        return if b.is_nan() { quiet_32(a) } else { b };
    }
    if b.is_nan() || a < b || (a == b && a.is_sign_negative()) { a } else { b }
}

/// The larger of two; a number before a NaN, and 0 before -0.
pub(super) fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        return if b.is_nan() { quiet_32(a) } else { b };
    }
    if b.is_nan() || a > b || (a == b && a.is_sign_positive()) { a } else { b }
}

/// The one in the middle of three.
pub(super) fn median(a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
}

/// What is left of a value behind its floor, below 1.
pub(super) fn fract(value: f32) -> f32 {
    let rest = value - value.floor();
    if rest.is_nan() { nan_of(&[value]) } else { rest.min(f32::from_bits(0x3f7f_ffff)) }
}

/// Sine or cosine of turns.
pub(super) fn circular(turns: f32, of: impl Fn(f64) -> f64) -> f32 {
    if !turns.is_finite() {
        return nan_of(&[turns]);
    }
    // The whole turns are removed exactly.
    let turns = f64::from(turns);
    (of((turns - turns.trunc()) * std::f64::consts::TAU)) as f32
}

/// Sine at the quarters of a turn exactly, as `circular` needs it.
pub(super) fn sine(angle: f64) -> f64 {
    let quarters = angle / std::f64::consts::FRAC_PI_2;
    if quarters == quarters.trunc() {
        [0.0, 1.0, 0.0, -1.0][(quarters as i64).rem_euclid(4) as usize]
    } else {
        angle.sin()
    }
}

/// Cosine in the same way.
pub(super) fn cosine(angle: f64) -> f64 {
    let quarters = angle / std::f64::consts::FRAC_PI_2;
    if quarters == quarters.trunc() {
        [1.0, 0.0, -1.0, 0.0][(quarters as i64).rem_euclid(4) as usize]
    } else {
        angle.cos()
    }
}

/// A function of double precision, rounded to single precision.
fn through(value: f32, f: impl Fn(f64) -> f64) -> f32 {
    let result = f(f64::from(value)) as f32;
    if result.is_nan() { nan_of(&[value]) } else { result }
}

impl Execution<'_> {
    fn unary_32(&mut self, f: impl Fn(f32) -> f32) -> Result<(), Cause> {
        let values = map1(&self.f32s(0)?, f);
        self.put_f32(&values)
    }

    fn binary_32(&mut self, f: impl Fn(f32, f32) -> f32) -> Result<(), Cause> {
        let values = map2(&self.f32s(0)?, &self.f32s(1)?, |a, b| {
            let value = f(a, b);
            if value.is_nan() { nan_of(&[a, b]) } else { value }
        });
        self.put_f32(&values)
    }

    fn ternary_32(&mut self, f: impl Fn(f32, f32, f32) -> f32) -> Result<(), Cause> {
        let values = map3(&self.f32s(0)?, &self.f32s(1)?, &self.f32s(2)?, |a, b, c| {
            let value = f(a, b, c);
            if value.is_nan() { nan_of(&[a, b, c]) } else { value }
        });
        self.put_f32(&values)
    }

    fn rounding_32(&self) -> Rounding {
        Rounding::of_code(self.wave.mode.round_32())
    }

    fn add(&mut self, sign_a: f32, sign_b: f32) -> Result<(), Cause> {
        match self.rounding_32() {
            Rounding::Nearest => self.binary_32(|a, b| sign_a * a + sign_b * b),
            rounding => self
                .binary_32(|a, b| Exact::sum(f64::from(sign_a * a), f64::from(sign_b * b)).to_f32(rounding)),
        }
    }

    fn multiply(&mut self) -> Result<(), Cause> {
        match self.rounding_32() {
            Rounding::Nearest => self.binary_32(|a, b| a * b),
            rounding => self.binary_32(|a, b| Exact::of(f64::from(a) * f64::from(b)).to_f32(rounding)),
        }
    }

    /// The sum `c` of a product that is rounded first. These operations know no denormals, whatever the mode.
    fn mad(&mut self, sources: [&Vector<f32>; 3], product: impl Fn(f32, f32) -> f32) -> Result<(), Cause> {
        let values = self.mad_values(sources, product);
        self.put_f32(&values)
    }

    /// Its results before modifiers.
    pub(super) fn mad_values(
        &self,
        sources: [&Vector<f32>; 3],
        product: impl Fn(f32, f32) -> f32,
    ) -> Vector<f32> {
        let flush = |value: f32| f32::from_bits(flush_32(value.to_bits()));
        let rounding = self.rounding_32();
        let [a, b, c] = sources;
        if rounding == Rounding::Nearest {
            map3(a, b, c, |a, b, c| {
                let (a, b, c) = (flush(a), flush(b), flush(c));
                let value = flush(flush(product(a, b)) + c);
                if value.is_nan() { nan_of(&[a, b, c]) } else { value }
            })
        } else {
            map3(a, b, c, |a, b, c| {
                let (a, b, c) = (flush(a), flush(b), flush(c));
                let product = Exact::of(f64::from(a) * f64::from(b)).to_f32(rounding);
                let value = flush(Exact::sum(f64::from(flush(product)), f64::from(c)).to_f32(rounding));
                if value.is_nan() { nan_of(&[a, b, c]) } else { value }
            })
        }
    }

    /// The destination's own value, as a source.
    fn old_f32(&self) -> Result<Vector<f32>, Cause> {
        let dst = self.i.dst;
        let register = dst.checked_sub(crate::decode::operand::VECTOR).ok_or(Cause::Operand(dst))?;
        let values = self.wave.vgpr.get(usize::from(register)).ok_or(Cause::Operand(dst))?;
        Ok(map1(values, f32::from_bits))
    }

    fn fused_multiply_add(&mut self) -> Result<(), Cause> {
        match self.rounding_32() {
            Rounding::Nearest => self.ternary_32(f32::mul_add),
            rounding => self.ternary_32(|a, b, c| {
                // The product is exact in double precision.
                Exact::sum(f64::from(a) * f64::from(b), f64::from(c)).to_f32(rounding)
            }),
        }
    }

    /// Single precision, or else the next family.
    pub(super) fn float32(&mut self) -> Result<(), Cause> {
        match self.i.op {
            Op::VAddF32 => self.add(1.0, 1.0),
            Op::VSubF32 => self.add(1.0, -1.0),
            Op::VSubrevF32 => self.add(-1.0, 1.0),
            Op::VMulF32 => self.multiply(),
            Op::VMulLegacyF32 => self.binary_32(|a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b }),
            Op::VMinF32 => self.binary_32(min),
            Op::VMaxF32 => self.binary_32(max),
            Op::VMacF32 => {
                let sources = (self.f32s(0)?, self.f32s(1)?, self.old_f32()?);
                self.mad([&sources.0, &sources.1, &sources.2], |a, b| a * b)
            }
            Op::VMadF32 | Op::VMadmkF32 | Op::VMadakF32 => {
                let sources = (self.f32s(0)?, self.f32s(1)?, self.f32s(2)?);
                self.mad([&sources.0, &sources.1, &sources.2], |a, b| a * b)
            }
            Op::VMadLegacyF32 => {
                let sources = (self.f32s(0)?, self.f32s(1)?, self.f32s(2)?);
                let product = |a: f32, b: f32| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
                self.mad([&sources.0, &sources.1, &sources.2], product)
            }
            Op::VFmaF32 => self.fused_multiply_add(),
            Op::VMin3F32 => self.ternary_32(|a, b, c| min(min(a, b), c)),
            Op::VMax3F32 => self.ternary_32(|a, b, c| max(max(a, b), c)),
            Op::VMed3F32 => self.ternary_32(median),
            Op::VFractF32 => self.unary_32(fract),
            Op::VTruncF32 => self.unary_32(|a| through(a, f64::trunc)),
            Op::VCeilF32 => self.unary_32(|a| through(a, f64::ceil)),
            Op::VFloorF32 => self.unary_32(|a| through(a, f64::floor)),
            Op::VRndneF32 => self.unary_32(|a| through(a, float::round_even)),
            Op::VExpF32 | Op::VExpLegacyF32 => self.unary_32(|a| through(a, f64::exp2)),
            Op::VLogF32 | Op::VLogLegacyF32 => self.unary_32(|a| through(a, f64::log2)),
            Op::VRcpF32 | Op::VRcpIflagF32 => self.unary_32(|a| through(a, f64::recip)),
            Op::VRsqF32 => self.unary_32(|a| through(a, |a| a.sqrt().recip())),
            Op::VSqrtF32 => self.unary_32(|a| through(a, f64::sqrt)),
            Op::VSinF32 => self.unary_32(|a| circular(a, sine)),
            Op::VCosF32 => self.unary_32(|a| circular(a, cosine)),
            Op::VFrexpMantF32 => self.unary_32(|a| through(a, float::frexp_mantissa)),
            Op::VFrexpExpI32F32 => {
                let values = map1(&self.f32s(0)?, |a| float::frexp_exponent(f64::from(a)) as u32);
                self.put_u32(&values)
            }
            Op::VLdexpF32 => {
                let values = map2(&self.f32s(0)?, &self.u32s(1)?, |a, exponent| {
                    through(a, |a| float::ldexp(a, exponent as i32))
                });
                self.put_f32(&values)
            }
            Op::VDivScaleF32
            | Op::VDivFmasF32
            | Op::VDivFixupF32
            | Op::VDivScaleF64
            | Op::VDivFmasF64
            | Op::VDivFixupF64 => self.division(),
            _ => self.float64(),
        }
    }
}

impl Wave {
    /// Whether the mode's rounding to nearest makes double precision simple.
    pub(super) fn rounding_64(&self) -> Rounding {
        Rounding::of_code(self.mode.round_16_64())
    }
}
