//! Operations of double precision.

use super::{Execution, map1, map2, map3};
use crate::fault::Cause;
use crate::float::{self, Exact, NAN_64, Rounding, quiet_64};
use crate::opcodes::Op;

fn nan_of(operands: &[f64]) -> f64 {
    operands.iter().find(|operand| operand.is_nan()).map_or(NAN_64, |&nan| quiet_64(nan))
}

fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        return if b.is_nan() { quiet_64(a) } else { b };
    }
    if b.is_nan() || a < b || (a == b && a.is_sign_negative()) { a } else { b }
}

fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        return if b.is_nan() { quiet_64(a) } else { b };
    }
    if b.is_nan() || a > b || (a == b && a.is_sign_positive()) { a } else { b }
}

fn fract(value: f64) -> f64 {
    (value - value.floor()).min(f64::from_bits(0x3fef_ffff_ffff_ffff))
}

impl Execution<'_> {
    fn unary_64(&mut self, f: impl Fn(f64) -> f64) -> Result<(), Cause> {
        let values = map1(&self.f64s(0)?, |a| {
            let value = f(a);
            if value.is_nan() { nan_of(&[a]) } else { value }
        });
        self.put_f64(&values)
    }

    fn binary_64(&mut self, f: impl Fn(f64, f64) -> f64) -> Result<(), Cause> {
        let values = map2(&self.f64s(0)?, &self.f64s(1)?, |a, b| {
            let value = f(a, b);
            if value.is_nan() { nan_of(&[a, b]) } else { value }
        });
        self.put_f64(&values)
    }

    fn fused_64(&mut self) -> Result<(), Cause> {
        if self.wave.rounding_64() != Rounding::Nearest {
            return Err(Cause::Rounding(self.wave.mode.round_16_64()));
        }
        let values = map3(&self.f64s(0)?, &self.f64s(1)?, &self.f64s(2)?, |a, b, c| {
            let value = a.mul_add(b, c);
            if value.is_nan() { nan_of(&[a, b, c]) } else { value }
        });
        self.put_f64(&values)
    }

    /// Double precision, or else the next family.
    pub(super) fn float64(&mut self) -> Result<(), Cause> {
        let rounding = self.wave.rounding_64();
        match self.i.op {
            Op::VTrigPreopF64 => self.part_of_two_over_pi(),
            Op::VAddF64 => self.binary_64(|a, b| Exact::sum(a, b).to_f64(rounding)),
            Op::VMulF64 => self.binary_64(|a, b| Exact::product(a, b).to_f64(rounding)),
            Op::VFmaF64 => self.fused_64(),
            Op::VMinF64 => self.binary_64(min),
            Op::VMaxF64 => self.binary_64(max),
            Op::VFractF64 => self.unary_64(fract),
            Op::VTruncF64 => self.unary_64(f64::trunc),
            Op::VCeilF64 => self.unary_64(f64::ceil),
            Op::VFloorF64 => self.unary_64(f64::floor),
            Op::VRndneF64 => self.unary_64(float::round_even),
            Op::VRcpF64 => self.unary_64(f64::recip),
            Op::VRsqF64 => self.unary_64(|a| a.sqrt().recip()),
            Op::VSqrtF64 => self.unary_64(f64::sqrt),
            Op::VFrexpMantF64 => self.unary_64(float::frexp_mantissa),
            Op::VFrexpExpI32F64 => {
                let values = map1(&self.f64s(0)?, |a| float::frexp_exponent(a) as u32);
                self.put_u32(&values)
            }
            Op::VLdexpF64 => {
                let values = map2(&self.f64s(0)?, &self.u32s(1)?, |a, exponent| {
                    let value = float::ldexp(a, exponent as i32);
                    if value.is_nan() { nan_of(&[a]) } else { value }
                });
                self.put_f64(&values)
            }
            _ => self.float16(),
        }
    }
}
