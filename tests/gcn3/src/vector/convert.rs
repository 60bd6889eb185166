//! Conversions between types.

use super::{Execution, map1, map2, map3};
use crate::fault::Cause;
use crate::float::{self, Exact, Rounding, f64_to_f16, quiet_32, quiet_64};
use crate::opcodes::Op;

/// A float as a byte, saturated.
fn to_byte(value: f32) -> u32 {
    u32::from(float::round_even(f64::from(value)) as u8)
}

/// A fraction between -1 and 1, or 0 and 1, as a share of the largest integer.
fn normalised(value: f32, low: f64, largest: f64) -> i32 {
    let value = f64::from(value);
    if value.is_nan() { 0 } else { float::round_even(value.clamp(low, 1.0) * largest) as i32 }
}

/// Rounded down, then saturated.
fn floor_to_i32(value: f64) -> u32 {
    value.floor() as i32 as u32
}

/// A float of double precision in single precision.
fn narrowed(value: f64, rounding: Rounding) -> f32 {
    if value.is_nan() {
        // The upper part of the payload stays.
        let sign = (value.to_bits() >> 32) as u32 & 0x8000_0000;
        return f32::from_bits(sign | 0x7fc0_0000 | (value.to_bits() >> 29) as u32 & 0x3f_ffff);
    }
    Exact::of(value).to_f32(rounding)
}

fn widened(value: f32) -> f64 {
    if value.is_nan() {
        let bits = u64::from(quiet_32(value).to_bits());
        return quiet_64(f64::from_bits(
            (bits & 0x8000_0000) << 32 | 0x7ff0_0000_0000_0000 | (bits & 0x7f_ffff) << 29,
        ));
    }
    f64::from(value)
}

impl Execution<'_> {
    fn put_integer(&mut self, of: impl Fn(f32) -> u32) -> Result<(), Cause> {
        let values = map1(&self.f32s(0)?, of);
        self.put_u32(&values)
    }

    fn put_float(&mut self, of: impl Fn(u32) -> f64) -> Result<(), Cause> {
        let rounding = Rounding::of_code(self.wave.mode.round_32());
        let values = map1(&self.u32s(0)?, |a| Exact::of(of(a)).to_f32(rounding));
        self.put_f32(&values)
    }

    /// Two results of 16 bits in one dword.
    fn put_pair(&mut self, low: &[u16; 64], high: &[u16; 64]) -> Result<(), Cause> {
        let values = map2(low, high, |low, high| u32::from(low) | u32::from(high) << 16);
        self.put_u32(&values)
    }

    fn pack_f32(&mut self, of: impl Fn(f32) -> u16) -> Result<(), Cause> {
        let (low, high) = (map1(&self.f32s(0)?, &of), map1(&self.f32s(1)?, &of));
        self.put_pair(&low, &high)
    }

    fn pack_u32(&mut self, of: impl Fn(u32) -> u16) -> Result<(), Cause> {
        let (low, high) = (map1(&self.u32s(0)?, &of), map1(&self.u32s(1)?, &of));
        self.put_pair(&low, &high)
    }

    /// Conversions, or else the next family.
    pub(super) fn convert(&mut self) -> Result<(), Cause> {
        let rounding = Rounding::of_code(self.wave.mode.round_16_64());
        let rounding_32 = Rounding::of_code(self.wave.mode.round_32());
        match self.i.op {
            Op::VCvtF32I32 => self.put_float(|a| f64::from(a as i32)),
            Op::VCvtF32U32 => self.put_float(f64::from),
            Op::VCvtF32Ubyte0 => self.put_float(|a| f64::from(a as u8)),
            Op::VCvtF32Ubyte1 => self.put_float(|a| f64::from((a >> 8) as u8)),
            Op::VCvtF32Ubyte2 => self.put_float(|a| f64::from((a >> 16) as u8)),
            Op::VCvtF32Ubyte3 => self.put_float(|a| f64::from((a >> 24) as u8)),
            // Four bits with a sign, in sixteenths.
            Op::VCvtOffF32I4 => self.put_float(|a| f64::from(((a << 28) as i32) >> 28) / 16.0),
            // Rust's conversions saturate, and take 0 for a NaN, as the hardware does.
            Op::VCvtU32F32 => self.put_integer(|a| a as u32),
            Op::VCvtI32F32 => self.put_integer(|a| a as i32 as u32),
            Op::VCvtRpiI32F32 => self.put_integer(|a| floor_to_i32(f64::from(a) + 0.5)),
            Op::VCvtFlrI32F32 => self.put_integer(|a| floor_to_i32(f64::from(a))),
            Op::VCvtI32F64 => {
                let values = map1(&self.f64s(0)?, |a| a as i32 as u32);
                self.put_u32(&values)
            }
            Op::VCvtU32F64 => {
                let values = map1(&self.f64s(0)?, |a| a as u32);
                self.put_u32(&values)
            }
            Op::VCvtF64I32 => {
                let values = map1(&self.u32s(0)?, |a| f64::from(a as i32));
                self.put_f64(&values)
            }
            Op::VCvtF64U32 => {
                let values = map1(&self.u32s(0)?, f64::from);
                self.put_f64(&values)
            }
            Op::VCvtF32F64 => {
                let values = map1(&self.f64s(0)?, |a| narrowed(a, rounding_32));
                self.put_f32(&values)
            }
            Op::VCvtF64F32 => {
                let values = map1(&self.f32s(0)?, widened);
                self.put_f64(&values)
            }
            Op::VCvtF16F32 => {
                let values = map1(&self.f32s(0)?, |a| f64_to_f16(widened(a), rounding));
                self.put_f16(&values)
            }
            Op::VCvtF32F16 => {
                let values = map1(&self.f16s(0)?, |a| if a.is_nan() { quiet_32(a) } else { a });
                self.put_f32(&values)
            }
            Op::VCvtF16U16 => {
                let values = map1(&self.u16s(0)?, |a| f64_to_f16(f64::from(a), rounding));
                self.put_f16(&values)
            }
            Op::VCvtF16I16 => {
                let values = map1(&self.u16s(0)?, |a| f64_to_f16(f64::from(a as i16), rounding));
                self.put_f16(&values)
            }
            Op::VCvtU16F16 => {
                let values = map1(&self.f16s(0)?, |a| a as u16);
                self.put_u16(&values)
            }
            Op::VCvtI16F16 => {
                let values = map1(&self.f16s(0)?, |a| a as i16 as u16);
                self.put_u16(&values)
            }
            Op::VCvtPkrtzF16F32 => self.pack_f32(|a| f64_to_f16(widened(a), Rounding::Zero)),
            Op::VCvtPknormI16F32 => self.pack_f32(|a| normalised(a, -1.0, 32767.0) as u16),
            Op::VCvtPknormU16F32 => self.pack_f32(|a| normalised(a, 0.0, 65535.0) as u16),
            Op::VCvtPkU16U32 => self.pack_u32(|a| a.min(0xffff) as u16),
            Op::VCvtPkI16I32 => self.pack_u32(|a| (a as i32).clamp(-32768, 32767) as u16),
            Op::VCvtPkU8F32 => {
                let values = map3(&self.f32s(0)?, &self.u32s(1)?, &self.u32s(2)?, |a, at, old| {
                    let shift = (at & 3) * 8;
                    old & !(255 << shift) | to_byte(a) << shift
                });
                self.put_u32(&values)
            }
            _ => self.integer(),
        }
    }
}
