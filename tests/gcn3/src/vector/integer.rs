//! Operations of integers and bits.

use super::{Execution, map1, map2, map3};
use crate::fault::Cause;
use crate::opcodes::Op;
use crate::scalar::sign_run;
use crate::wave::LANES;

/// The low 24 bits, with their sign.
fn signed_24(value: u32) -> i64 {
    i64::from((value << 8) as i32 >> 8)
}

fn unsigned_24(value: u32) -> u64 {
    u64::from(value & 0xff_ffff)
}

/// The bytes of two dwords whose differences count.
fn differences(a: u32, b: u32) -> u32 {
    a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(&a, b)| u32::from(a.abs_diff(b))).sum()
}

/// The same, without the bytes in which `reference` is 0.
fn masked_differences(a: u32, reference: u32) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(reference.to_le_bytes());
    pairs.filter(|&(_, b)| b != 0).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
}

/// One byte of the result of `v_perm_b32`: `selection` says which of the eight bytes, or a constant.
fn permuted_byte(bytes: u64, selection: u8) -> u8 {
    let sign = |byte: u32| if bytes >> (byte * 8 + 7) & 1 != 0 { 0xff } else { 0 };
    match selection {
        0..=7 => (bytes >> (selection * 8)) as u8,
        8 => sign(1),
        9 => sign(3),
        10 => sign(5),
        11 => sign(7),
        12 => 0,
        _ => 0xff,
    }
}

fn permuted(high: u32, low: u32, selection: u32) -> u32 {
    let bytes = u64::from(high) << 32 | u64::from(low);
    u32::from_le_bytes(selection.to_le_bytes().map(|selection| permuted_byte(bytes, selection)))
}

fn lerp(a: u32, b: u32, round_up: u32) -> u32 {
    let (a, b, up) = (a.to_le_bytes(), b.to_le_bytes(), round_up.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|byte| {
        ((u32::from(a[byte]) + u32::from(b[byte]) + u32::from(up[byte] & 1)) >> 1) as u8
    }))
}

fn field(value: u32, offset: u32, width: u32) -> u32 {
    (value >> (offset & 31)) & ((1 << (width & 31)) - 1)
}

fn signed_field(value: u32, offset: u32, width: u32) -> u32 {
    let (offset, width) = (offset & 31, (width & 31).min(32 - (offset & 31)));
    if width == 0 {
        return 0;
    }
    ((((value >> offset) << (32 - width)) as i32) >> (32 - width)) as u32
}

fn median<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

/// -1 if no bit is set.
fn position(found: u32) -> u32 {
    if found == 32 { u32::MAX } else { found }
}

impl Execution<'_> {
    fn unary(&mut self, f: impl Fn(u32) -> u32) -> Result<(), Cause> {
        let values = map1(&self.u32s(0)?, f);
        self.put_u32(&values)
    }

    fn binary(&mut self, f: impl Fn(u32, u32) -> u32) -> Result<(), Cause> {
        let values = map2(&self.u32s(0)?, &self.u32s(1)?, f);
        self.put_u32(&values)
    }

    fn signed(&mut self, f: impl Fn(i32, i32) -> i32) -> Result<(), Cause> {
        self.binary(|a, b| f(a as i32, b as i32) as u32)
    }

    fn ternary(&mut self, f: impl Fn(u32, u32, u32) -> u32) -> Result<(), Cause> {
        let values = map3(&self.u32s(0)?, &self.u32s(1)?, &self.u32s(2)?, f);
        self.put_u32(&values)
    }

    fn signed_ternary(&mut self, f: impl Fn(i32, i32, i32) -> i32) -> Result<(), Cause> {
        self.ternary(|a, b, c| f(a as i32, b as i32, c as i32) as u32)
    }

    /// Of these, the result saturates if the instruction clamps.
    fn saturating(
        &mut self,
        plain: impl Fn(i32, i32) -> i32,
        clamped: impl Fn(i32, i32) -> i32,
    ) -> Result<(), Cause> {
        let clamps = self.i.clamp;
        let values = map2(&self.u32s(0)?, &self.u32s(1)?, |a, b| {
            let (a, b) = (a as i32, b as i32);
            (if clamps { clamped(a, b) } else { plain(a, b) }) as u32
        });
        self.put(&values)
    }

    fn shift_64(&mut self, f: impl Fn(u64, u32) -> u64) -> Result<(), Cause> {
        let values = map2(&self.u32s(0)?, &self.u64s(1)?, |by, value| f(value, by & 63));
        self.put_u64(&values)
    }

    fn binary_u16(&mut self, f: impl Fn(u16, u16) -> u16) -> Result<(), Cause> {
        let values = map2(&self.u16s(0)?, &self.u16s(1)?, f);
        self.put_u16(&values)
    }

    /// Of these, the result saturates if the instruction clamps.
    fn saturating_16(
        &mut self,
        plain: impl Fn(u16, u16) -> u16,
        clamped: impl Fn(u16, u16) -> u16,
    ) -> Result<(), Cause> {
        let clamps = self.i.clamp;
        let values =
            map2(&self.u16s(0)?, &self.u16s(1)?, |a, b| if clamps { clamped(a, b) } else { plain(a, b) });
        self.put_half(&values)
    }

    fn signed_16(&mut self, f: impl Fn(i16, i16) -> i16) -> Result<(), Cause> {
        self.binary_u16(|a, b| f(a as i16, b as i16) as u16)
    }

    fn ternary_u16(&mut self, f: impl Fn(u16, u16, u16) -> u16) -> Result<(), Cause> {
        let values = map3(&self.u16s(0)?, &self.u16s(1)?, &self.u16s(2)?, f);
        self.put_u16(&values)
    }

    fn signed_ternary_16(&mut self, f: impl Fn(i16, i16, i16) -> i16) -> Result<(), Cause> {
        self.ternary_u16(|a, b, c| f(a as i16, b as i16, c as i16) as u16)
    }

    fn mad_u16(&mut self) -> Result<(), Cause> {
        let values =
            map3(&self.u16s(0)?, &self.u16s(1)?, &self.u16s(2)?, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
        self.put_u16(&values)
    }

    /// Counts the lanes below each lane of a mask's half.
    fn count_below(&mut self, is_high: bool) -> Result<(), Cause> {
        let (half, more) = (self.u32s(0)?, self.u32s(1)?);
        let values = std::array::from_fn(|lane| {
            let below = match (is_high, lane) {
                (false, 0..32) => (1 << lane) - 1,
                (false, _) => u32::MAX,
                (true, 0..32) => 0,
                (true, _) => (1 << (lane - 32)) - 1,
            };
            (half[lane] & below).count_ones().wrapping_add(more[lane])
        });
        self.put_u32(&values)
    }

    /// A product of 32 bits plus 64 bits, and whether the sum is larger than that.
    fn mad_64(&mut self, product: impl Fn(u32, u32) -> (u64, bool)) -> Result<(), Cause> {
        let (a, b, c) = (self.u32s(0)?, self.u32s(1)?, self.u64s(2)?);
        let (mut values, mut carry) = ([0; LANES], 0);
        for lane in 0..LANES {
            let (product, is_negative) = product(a[lane], b[lane]);
            let (sum, overflow) = product.overflowing_add(c[lane]);
            values[lane] = sum;
            carry |= u64::from(overflow != is_negative) << lane;
        }
        self.put_mask(carry);
        self.put_u64(&values)
    }

    /// Dwords, or else the next family.
    pub(super) fn integer(&mut self) -> Result<(), Cause> {
        match self.i.op {
            Op::VMulI32I24 => self.binary(|a, b| (signed_24(a) * signed_24(b)) as u32),
            Op::VMulHiI32I24 => self.binary(|a, b| ((signed_24(a) * signed_24(b)) >> 32) as u32),
            Op::VMulU32U24 => self.binary(|a, b| (unsigned_24(a) * unsigned_24(b)) as u32),
            Op::VMulHiU32U24 => self.binary(|a, b| ((unsigned_24(a) * unsigned_24(b)) >> 32) as u32),
            Op::VMadI32I24 => self.ternary(|a, b, c| ((signed_24(a) * signed_24(b)) as u32).wrapping_add(c)),
            Op::VMadU32U24 => {
                self.ternary(|a, b, c| ((unsigned_24(a) * unsigned_24(b)) as u32).wrapping_add(c))
            }
            Op::VMinI32 => self.signed(i32::min),
            Op::VMaxI32 => self.signed(i32::max),
            Op::VMinU32 => self.binary(u32::min),
            Op::VMaxU32 => self.binary(u32::max),
            Op::VLshrrevB32 => self.binary(|by, value| value >> (by & 31)),
            Op::VAshrrevI32 => self.binary(|by, value| (value as i32 >> (by & 31)) as u32),
            Op::VLshlrevB32 => self.binary(|by, value| value << (by & 31)),
            Op::VAndB32 => self.binary(|a, b| a & b),
            Op::VOrB32 => self.binary(|a, b| a | b),
            Op::VXorB32 => self.binary(|a, b| a ^ b),
            Op::VNotB32 => self.unary(|a| !a),
            Op::VBfrevB32 => self.unary(u32::reverse_bits),
            Op::VFfbhU32 => self.unary(|a| position(a.leading_zeros())),
            Op::VFfblB32 => self.unary(|a| position(a.trailing_zeros())),
            Op::VFfbhI32 => self.unary(sign_run),
            Op::VBfeU32 => self.ternary(field),
            Op::VBfeI32 => self.ternary(signed_field),
            Op::VBfiB32 => self.ternary(|mask, a, b| mask & a | !mask & b),
            Op::VBfmB32 => self.binary(|width, at| ((1 << (width & 31)) - 1) << (at & 31)),
            Op::VAlignbitB32 => {
                self.ternary(|high, low, by| ((u64::from(high) << 32 | u64::from(low)) >> (by & 31)) as u32)
            }
            Op::VAlignbyteB32 => self
                .ternary(|high, low, by| ((u64::from(high) << 32 | u64::from(low)) >> ((by & 3) * 8)) as u32),
            Op::VMin3I32 => self.signed_ternary(|a, b, c| a.min(b).min(c)),
            Op::VMax3I32 => self.signed_ternary(|a, b, c| a.max(b).max(c)),
            Op::VMed3I32 => self.signed_ternary(median),
            Op::VMin3U32 => self.ternary(|a, b, c| a.min(b).min(c)),
            Op::VMax3U32 => self.ternary(|a, b, c| a.max(b).max(c)),
            Op::VMed3U32 => self.ternary(median),
            Op::VMulLoU32 => self.binary(u32::wrapping_mul),
            Op::VMulHiU32 => self.binary(|a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
            Op::VMulHiI32 => self.signed(|a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32),
            Op::VBcntU32B32 => self.binary(|a, b| a.count_ones().wrapping_add(b)),
            Op::VMbcntLoU32B32 => self.count_below(false),
            Op::VMbcntHiU32B32 => self.count_below(true),
            Op::VLshlrevB64 => self.shift_64(|value, by| value << by),
            Op::VLshrrevB64 => self.shift_64(|value, by| value >> by),
            Op::VAshrrevI64 => self.shift_64(|value, by| (value as i64 >> by) as u64),
            Op::VMadU64U32 => self.mad_64(|a, b| (u64::from(a) * u64::from(b), false)),
            Op::VMadI64I32 => self.mad_64(|a, b| {
                let product = i64::from(a as i32) * i64::from(b as i32);
                (product as u64, product < 0)
            }),
            Op::VLshlAddU32 => self.ternary(|a, by, c| (a << (by & 31)).wrapping_add(c)),
            Op::VAddLshlU32 => self.ternary(|a, b, by| a.wrapping_add(b) << (by & 31)),
            Op::VAdd3U32 => self.ternary(|a, b, c| a.wrapping_add(b).wrapping_add(c)),
            Op::VLshlOrB32 => self.ternary(|a, by, c| a << (by & 31) | c),
            Op::VAndOrB32 => self.ternary(|a, b, c| a & b | c),
            Op::VOr3B32 => self.ternary(|a, b, c| a | b | c),
            Op::VXadU32 => self.ternary(|a, b, c| (a ^ b).wrapping_add(c)),
            Op::VAddI32 => self.saturating(i32::wrapping_add, i32::saturating_add),
            Op::VSubI32 => self.saturating(i32::wrapping_sub, i32::saturating_sub),
            Op::VMadU32U16 => {
                let product = map2(&self.u16s(0)?, &self.u16s(1)?, |a, b| u32::from(a) * u32::from(b));
                let values = map2(&product, &self.u32s(2)?, u32::wrapping_add);
                self.put_u32(&values)
            }
            Op::VMadI32I16 => {
                let product = map2(&self.u16s(0)?, &self.u16s(1)?, |a, b| {
                    (i32::from(a as i16) * i32::from(b as i16)) as u32
                });
                let values = map2(&product, &self.u32s(2)?, u32::wrapping_add);
                self.put_u32(&values)
            }
            Op::VSatPkU8I16 => self.unary(|a| {
                let byte = |half: u32| (half as i16).clamp(0, 255) as u32;
                byte(a) | byte(a >> 16) << 8
            }),
            Op::VPermB32 => self.ternary(permuted),
            Op::VLerpU8 => self.ternary(lerp),
            Op::VSadU8 => self.ternary(|a, b, c| differences(a, b).wrapping_add(c)),
            Op::VSadHiU8 => self.ternary(|a, b, c| (differences(a, b) << 16).wrapping_add(c)),
            Op::VSadU32 => self.ternary(|a, b, c| a.abs_diff(b).wrapping_add(c)),
            Op::VSadU16 => self.ternary(|a, b, c| {
                let low = u32::from((a as u16).abs_diff(b as u16));
                let high = (a >> 16).abs_diff(b >> 16);
                low.wrapping_add(high).wrapping_add(c)
            }),
            Op::VMsadU8 => self.ternary(|a, b, c| masked_differences(a, b).wrapping_add(c)),
            _ => self.integer_16(),
        }
    }

    /// Words of 16 bits, the last family.
    fn integer_16(&mut self) -> Result<(), Cause> {
        match self.i.op {
            Op::VAddU16 => self.saturating_16(u16::wrapping_add, u16::saturating_add),
            Op::VSubU16 => self.saturating_16(u16::wrapping_sub, u16::saturating_sub),
            Op::VSubrevU16 => self.saturating_16(|a, b| b.wrapping_sub(a), |a, b| b.saturating_sub(a)),
            Op::VAddI16 => {
                self.saturating_16(u16::wrapping_add, |a, b| (a as i16).saturating_add(b as i16) as u16)
            }
            Op::VSubI16 => {
                self.saturating_16(u16::wrapping_sub, |a, b| (a as i16).saturating_sub(b as i16) as u16)
            }
            Op::VMulLoU16 => self.binary_u16(u16::wrapping_mul),
            Op::VLshlrevB16 => self.binary_u16(|by, value| value << (by & 15)),
            Op::VLshrrevB16 => self.binary_u16(|by, value| value >> (by & 15)),
            Op::VAshrrevI16 => self.binary_u16(|by, value| (value as i16 >> (by & 15)) as u16),
            Op::VMaxU16 => self.binary_u16(u16::max),
            Op::VMinU16 => self.binary_u16(u16::min),
            Op::VMaxI16 => self.signed_16(i16::max),
            Op::VMinI16 => self.signed_16(i16::min),
            Op::VMadU16
            | Op::VMadI16
            | Op::VMadLegacyU16
            | Op::VMadLegacyI16
            | Op::VMadHalfU16
            | Op::VMadHalfI16 => self.mad_u16(),
            Op::VMin3U16 => self.ternary_u16(|a, b, c| a.min(b).min(c)),
            Op::VMax3U16 => self.ternary_u16(|a, b, c| a.max(b).max(c)),
            Op::VMed3U16 => self.ternary_u16(median),
            Op::VMin3I16 => self.signed_ternary_16(|a, b, c| a.min(b).min(c)),
            Op::VMax3I16 => self.signed_ternary_16(|a, b, c| a.max(b).max(c)),
            Op::VMed3I16 => self.signed_ternary_16(median),
            _ => Err(Cause::Unsupported),
        }
    }
}
