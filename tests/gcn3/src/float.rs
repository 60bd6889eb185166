//! Floats as the hardware computes them: half precision, exact intermediate results, rounding, denormals, NaNs.

/// How results are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Up,
    Down,
    Zero,
}

impl Rounding {
    /// The mode with this code.
    pub(crate) fn of_code(code: u8) -> Self {
        [Self::Nearest, Self::Up, Self::Down, Self::Zero][usize::from(code & 3)]
    }
}

/// A result before its rounding: the sum of both, of which the second is too small to change the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    high: f64,
    low: f64,
}

impl Exact {
    /// A value of double precision.
    pub(crate) fn of(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }

    /// A sum.
    pub(crate) fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        // Knuth's two-sum: exact but for overflow.
        let b_part = high - a;
        let low = (a - (high - b_part)) + (b - b_part);
        Self { high, low: if low.is_finite() { low } else { 0.0 } }
    }

    /// A product.
    pub(crate) fn product(a: f64, b: f64) -> Self {
        let high = a * b;
        let low = a.mul_add(b, -high);
        Self { high, low: if low.is_finite() { low } else { 0.0 } }
    }

    /// The nearest or next value of double precision.
    pub(crate) fn to_f64(self, rounding: Rounding) -> f64 {
        let (high, low) = (self.high, self.low);
        if low == 0.0 || !high.is_finite() {
            return high;
        }
        match rounding {
            Rounding::Up if low > 0.0 => high.next_up(),
            Rounding::Down if low < 0.0 => high.next_down(),
            Rounding::Zero if high > 0.0 && low < 0.0 => high.next_down(),
            Rounding::Zero if high < 0.0 && low > 0.0 => high.next_up(),
            _ => high,
        }
    }

    /// The value of double precision that keeps what later roundings need: inexact ones end in a 1.
    fn odd(self) -> f64 {
        let (high, low) = (self.high, self.low);
        if low == 0.0 || !high.is_finite() || high.to_bits() & 1 != 0 {
            return high;
        }
        if (low > 0.0) == (high > 0.0) {
            f64::from_bits(high.to_bits() + 1)
        } else {
            f64::from_bits(high.to_bits().wrapping_sub(1))
        }
    }

    /// The nearest or next value of single precision.
    pub(crate) fn to_f32(self, rounding: Rounding) -> f32 {
        let exact = self.odd();
        let nearest = exact as f32;
        if rounding == Rounding::Nearest || exact.is_nan() {
            return nearest;
        }
        let back = f64::from(nearest);
        match rounding {
            Rounding::Up if back < exact => nearest.next_up(),
            Rounding::Down if back > exact => nearest.next_down(),
            Rounding::Zero if back.abs() > exact.abs() => {
                if nearest > 0.0 {
                    nearest.next_down()
                } else {
                    nearest.next_up()
                }
            }
            _ => nearest,
        }
    }

    /// The nearest or next value of half precision.
    pub(crate) fn to_f16(self, rounding: Rounding) -> u16 {
        f64_to_f16(self.odd(), rounding)
    }
}

/// A half's value, which double precision has exactly.
pub(crate) fn f16_to_f64(value: u16) -> f64 {
    f64::from(f16_to_f32(value))
}

/// Whether a half is a NaN.
pub(crate) fn is_nan_16(value: u16) -> bool {
    value & 0x7fff > 0x7c00
}

/// The first half that is a NaN, made quiet; else the hardware's own.
pub(crate) fn nan_of_16(operands: &[u16]) -> u16 {
    operands.iter().copied().find(|&operand| is_nan_16(operand)).map_or(0x7e00, |nan| nan | 0x200)
}

/// A half as a float of single precision.
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let float = match magnitude {
        // Infinities and NaNs; a signalling NaN stays one.
        0x7c00.. => 0x7f80_0000 | (magnitude & 0x3ff) << 13,
        0x400.. => (magnitude << 13) + ((127 - 15) << 23),
        // Denormals: units of 2 to the -24.
        _ => (magnitude as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
    };
    f32::from_bits(sign | float)
}

/// A float of double precision as a half.
pub(crate) fn f64_to_f16(value: f64, rounding: Rounding) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    if value.is_nan() {
        return sign | 0x7e00 | (bits >> 42) as u16 & 0x1ff;
    }
    if value.is_infinite() {
        return sign | 0x7c00;
    }
    // In units of the last place, which is never smaller than that of denormals.
    let exponent = ((bits >> 52 & 0x7ff) as i32 - 1023).max(-14);
    if exponent > 15 {
        return sign | overflowed(rounding, sign != 0);
    }
    let scaled = value.abs() * power_of_two(10 - exponent);
    let down = scaled.floor();
    let rest = scaled - down;
    let is_up = match rounding {
        Rounding::Nearest => rest > 0.5 || (rest == 0.5 && down % 2.0 != 0.0),
        Rounding::Up => rest > 0.0 && sign == 0,
        Rounding::Down => rest > 0.0 && sign != 0,
        Rounding::Zero => false,
    };
    let units = down as u32 + u32::from(is_up);
    // A mantissa of 1024 units carries into the exponent by itself.
    let magnitude = units.wrapping_add(((exponent + 14) as u32) << 10);
    sign | if magnitude >= 0x7c00 { overflowed(rounding, sign != 0) } else { magnitude as u16 }
}

/// What is too large for a half: infinity, or the largest number.
fn overflowed(rounding: Rounding, is_negative: bool) -> u16 {
    match (rounding, is_negative) {
        (Rounding::Zero, _) | (Rounding::Up, true) | (Rounding::Down, false) => 0x7bff,
        _ => 0x7c00,
    }
}

/// Two to the `exponent`, which is that of a normal float.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `value` times two to the `exponent`, rounded once.
pub(crate) fn ldexp(value: f64, exponent: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let mantissa = frexp_mantissa(value);
    let total = frexp_exponent(value).saturating_add(exponent);
    match total {
        1025.. => f64::INFINITY.copysign(value),
        -1000..=1024 => mantissa * 2.0 * power_of_two(total - 1),
        // Only the last factor rounds.
        -1075..=-1001 => mantissa * power_of_two(-100) * power_of_two(total + 100),
        _ => 0.0_f64.copysign(value),
    }
}

/// The mantissa of a float, from a half to one; zeros, infinities and NaNs are their own.
pub(crate) fn frexp_mantissa(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let bits = normalised(value).to_bits();
    f64::from_bits(bits & 0x800f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000)
}

/// The exponent that belongs to that mantissa; 0 for zeros, infinities and NaNs.
pub(crate) fn frexp_exponent(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let exponent = (normalised(value).to_bits() >> 52 & 0x7ff) as i32 - 1022;
    if value.is_normal() { exponent } else { exponent - 64 }
}

/// A denormal float times two to the 64th; others as they are.
fn normalised(value: f64) -> f64 {
    if value.is_normal() { value } else { value * power_of_two(64) }
}

/// The even integer next to a half.
pub(crate) fn round_even(value: f64) -> f64 {
    value.round_ties_even()
}

/// 0 for a denormal.
pub(crate) fn flush_32(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// 0 for a denormal.
pub(crate) fn flush_16(bits: u16) -> u16 {
    if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}

/// 0 for a denormal.
pub(crate) fn flush_64(bits: u64) -> u64 {
    if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 0x8000_0000_0000_0000 } else { bits }
}

/// The hardware's NaN.
pub(crate) const NAN_32: f32 = f32::from_bits(0x7fc0_0000);
pub(crate) const NAN_64: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// A NaN that does not signal, with the same payload.
pub(crate) fn quiet_32(value: f32) -> f32 {
    f32::from_bits(value.to_bits() | 0x40_0000)
}

/// The same in double precision.
pub(crate) fn quiet_64(value: f64) -> f64 {
    f64::from_bits(value.to_bits() | 0x8_0000_0000_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_goes_through_both_conversions() {
        for bits in 0..=u16::MAX {
            let back = f64_to_f16(f64::from(f16_to_f32(bits)), Rounding::Nearest);
            let is_signalling = bits & 0x7c00 == 0x7c00 && bits & 0x3ff != 0 && bits & 0x200 == 0;
            assert_eq!(back, if is_signalling { bits | 0x200 } else { bits }, "{bits:#x}");
        }
    }

    #[test]
    fn halves_are_rounded_in_every_mode() {
        let all = |value| {
            [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero].map(|r| f64_to_f16(value, r))
        };
        // Between 1 and the next half, at the middle, and a little above it.
        assert_eq!(all(1.0 + 1.0 / 2048.0), [0x3c00, 0x3c01, 0x3c00, 0x3c00]);
        assert_eq!(all(1.0 + 1.01 / 2048.0), [0x3c01, 0x3c01, 0x3c00, 0x3c00]);
        assert_eq!(all(-1.0 - 3.0 / 2048.0), [0xbc02, 0xbc01, 0xbc02, 0xbc01]);
        assert_eq!(all(65520.0), [0x7c00, 0x7c00, 0x7bff, 0x7bff]);
        assert_eq!(all(-1e6), [0xfc00, 0xfbff, 0xfc00, 0xfbff]);
        assert_eq!(all(1e-10), [0, 1, 0, 0]);
    }

    #[test]
    fn single_precision_is_rounded_in_every_mode() {
        let all = |exact: Exact| {
            [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero].map(|r| exact.to_f32(r))
        };
        let next = 1.0_f32.next_up();
        // A middle that a product's lost part moves up.
        let middle = 1.0 + f64::from(f32::EPSILON) / 2.0;
        assert_eq!(all(Exact::of(middle)), [1.0, next, 1.0, 1.0]);
        assert_eq!(all(Exact::sum(middle, 1e-30)), [next, next, 1.0, 1.0]);
        assert_eq!(all(Exact::sum(-middle, 1e-30)), [-1.0, -1.0, -next, -1.0]);
    }

    #[test]
    fn scaling_by_powers_of_two_is_rounded_once() {
        let cases = [
            (1.0, 3, 8.0),
            (1.5, -1074, f64::from_bits(2)),
            (1.0, -1074, f64::from_bits(1)),
            (0.75, -1074, f64::from_bits(1)),
            (0.5, -1074, 0.0),
            (f64::from_bits(1), 1074, 1.0),
            (f64::from_bits(1), 2097, 2.0_f64.powi(1023)),
            (f64::MAX, -2099, 0.0),
            (f64::MAX, -2098, f64::from_bits(1)),
            (1.0, 5000, f64::INFINITY),
            (-1.0, -5000, -0.0),
        ];
        for (value, exponent, expected) in cases {
            assert_eq!(ldexp(value, exponent).to_bits(), f64::to_bits(expected), "{value} {exponent}");
        }
    }
}
