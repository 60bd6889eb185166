//! The three steps around the Newton iteration of a division: scale the operands, undo the scale, and the special cases.

use super::{Execution, map3};
use crate::fault::Cause;
use crate::float::{self, NAN_32, NAN_64, quiet_32, quiet_64};
use crate::opcodes::Op;
use crate::wave::LANES;

/// Exponent with its bias.
fn exponent_32(value: f32) -> i32 {
    (value.to_bits() >> 23 & 255) as i32
}

fn exponent_64(value: f64) -> i32 {
    (value.to_bits() >> 52 & 2047) as i32
}

fn ldexp_32(value: f32, exponent: i32) -> f32 {
    float::ldexp(f64::from(value), exponent) as f32
}

/// Which of the operands are scaled, and whether the quotient is scaled back: numerator, denominator, back.
///
/// `far`: the quotient comes near the largest number; `tiny`: the numerator's exponent leaves no room for a remainder.
struct Scale {
    numerator: i32,
    denominator: i32,
    back: bool,
}

impl Scale {
    fn of_32(denominator: f32, numerator: f32) -> Self {
        let scale = |numerator, denominator, back| Self { numerator, denominator, back };
        let quotient = f64::from(numerator) / f64::from(denominator);
        let is_small = |value: f64| value != 0.0 && value.abs() < f64::from(f32::MIN_POSITIVE);
        let inverse = 1.0 / f64::from(denominator);
        if exponent_32(numerator) - exponent_32(denominator) >= 96 {
            scale(0, 64, true)
        } else if denominator.is_subnormal() {
            scale(64, 64, false)
        } else if is_small(inverse) && is_small(quotient) {
            scale(0, -64, true)
        } else if is_small(inverse) {
            scale(-64, -64, false)
        } else if is_small(quotient) {
            scale(64, 0, true)
        } else if exponent_32(numerator) <= 23 {
            scale(64, 64, false)
        } else {
            scale(0, 0, false)
        }
    }

    fn of_64(denominator: f64, numerator: f64) -> Self {
        let scale = |numerator, denominator, back| Self { numerator, denominator, back };
        let inverse = 1.0 / denominator;
        // The quotient itself may underflow to 0.
        let quotient = f64::from(exponent_64(numerator) - exponent_64(denominator));
        let quotient_is_small = (numerator / denominator).is_subnormal()
            || (numerator != 0.0 && denominator.is_normal() && quotient < -1022.0);
        if exponent_64(numerator) - exponent_64(denominator) >= 768 {
            scale(0, 128, true)
        } else if denominator.is_subnormal() {
            scale(128, 128, false)
        } else if inverse.is_subnormal() && quotient_is_small {
            scale(0, -128, true)
        } else if inverse.is_subnormal() {
            scale(-128, -128, false)
        } else if quotient_is_small {
            scale(128, 0, true)
        } else if exponent_64(numerator) <= 53 {
            scale(128, 128, false)
        } else {
            scale(0, 0, false)
        }
    }
}

fn fixed_32(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    let sign = if denominator.is_sign_negative() == numerator.is_sign_negative() { 1.0 } else { -1.0 };
    if numerator.is_nan() {
        quiet_32(numerator)
    } else if denominator.is_nan() {
        quiet_32(denominator)
    } else if (denominator == 0.0 && numerator == 0.0)
        || (denominator.is_infinite() && numerator.is_infinite())
    {
        f32::from_bits(0xffc0_0000)
    } else if denominator == 0.0 || numerator.is_infinite() {
        sign * f32::INFINITY
    } else if denominator.is_infinite()
        || numerator == 0.0
        || exponent_32(numerator) - exponent_32(denominator) < -150
    {
        sign * 0.0
    } else if quotient.is_nan() {
        // The iteration overflowed.
        sign * f32::INFINITY
    } else {
        sign * quotient.abs()
    }
}

fn fixed_64(quotient: f64, denominator: f64, numerator: f64) -> f64 {
    let sign = if denominator.is_sign_negative() == numerator.is_sign_negative() { 1.0 } else { -1.0 };
    if numerator.is_nan() {
        quiet_64(numerator)
    } else if denominator.is_nan() {
        quiet_64(denominator)
    } else if (denominator == 0.0 && numerator == 0.0)
        || (denominator.is_infinite() && numerator.is_infinite())
    {
        f64::from_bits(0xfff8_0000_0000_0000)
    } else if denominator == 0.0 || numerator.is_infinite() {
        sign * f64::INFINITY
    } else if denominator.is_infinite()
        || numerator == 0.0
        || exponent_64(numerator) - exponent_64(denominator) < -1075
    {
        sign * 0.0
    } else if quotient.is_nan() {
        // The iteration overflowed.
        sign * f64::INFINITY
    } else {
        sign * quotient.abs()
    }
}

impl Execution<'_> {
    pub(super) fn division(&mut self) -> Result<(), Cause> {
        match self.i.op {
            Op::VDivScaleF32 => self.scale_32(),
            Op::VDivScaleF64 => self.scale_64(),
            Op::VDivFmasF32 => {
                let (a, b, c) = (self.f32s(0)?, self.f32s(1)?, self.f32s(2)?);
                let back = self.wave.vcc();
                let values = std::array::from_fn(|lane| {
                    let value = a[lane].mul_add(b[lane], c[lane]);
                    match (back >> lane & 1 != 0, exponent_32(c[lane]) > 127) {
                        (false, _) => value,
                        (true, true) => ldexp_32(value, 64),
                        (true, false) => ldexp_32(value, -64),
                    }
                });
                self.put_f32(&values)
            }
            Op::VDivFmasF64 => {
                let (a, b, c) = (self.f64s(0)?, self.f64s(1)?, self.f64s(2)?);
                let back = self.wave.vcc();
                let values = std::array::from_fn(|lane| {
                    let value = a[lane].mul_add(b[lane], c[lane]);
                    match (back >> lane & 1 != 0, exponent_64(c[lane]) > 1023) {
                        (false, _) => value,
                        (true, true) => float::ldexp(value, 128),
                        (true, false) => float::ldexp(value, -128),
                    }
                });
                self.put_f64(&values)
            }
            Op::VDivFixupF32 => {
                let values = map3(&self.f32s(0)?, &self.f32s(1)?, &self.f32s(2)?, fixed_32);
                self.put_f32(&values)
            }
            _ => {
                let values = map3(&self.f64s(0)?, &self.f64s(1)?, &self.f64s(2)?, fixed_64);
                self.put_f64(&values)
            }
        }
    }

    /// The first source is the one that is scaled: the denominator, which is the second, or the numerator, which is the third.
    fn scale_32(&mut self) -> Result<(), Cause> {
        let (scaled, denominator, numerator) = (self.f32s(0)?, self.f32s(1)?, self.f32s(2)?);
        let (mut values, mut back) = ([0.0; LANES], 0);
        for lane in 0..LANES {
            let (b, a) = (denominator[lane], numerator[lane]);
            if a == 0.0 || b == 0.0 {
                values[lane] = NAN_32;
                continue;
            }
            let scale = Scale::of_32(b, a);
            back |= u64::from(scale.back) << lane;
            let is_denominator = scaled[lane].to_bits() == b.to_bits();
            let by = if is_denominator { scale.denominator } else { scale.numerator };
            values[lane] = if by == 0 { scaled[lane] } else { ldexp_32(scaled[lane], by) };
        }
        self.put_mask(back);
        self.put_f32(&values)
    }

    fn scale_64(&mut self) -> Result<(), Cause> {
        let (scaled, denominator, numerator) = (self.f64s(0)?, self.f64s(1)?, self.f64s(2)?);
        let (mut values, mut back) = ([0.0; LANES], 0);
        for lane in 0..LANES {
            let (b, a) = (denominator[lane], numerator[lane]);
            if a == 0.0 || b == 0.0 {
                values[lane] = NAN_64;
                continue;
            }
            let scale = Scale::of_64(b, a);
            back |= u64::from(scale.back) << lane;
            let is_denominator = scaled[lane].to_bits() == b.to_bits();
            let by = if is_denominator { scale.denominator } else { scale.numerator };
            values[lane] = if by == 0 { scaled[lane] } else { float::ldexp(scaled[lane], by) };
        }
        self.put_mask(back);
        self.put_f64(&values)
    }
}
