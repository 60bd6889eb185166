//! Vector instructions: how the lanes' operands are read and results written. The operations are in the modules below, by the
//! type of their operands.

mod compare;
mod convert;
mod division;
mod float16;
mod float32;
mod float64;
mod integer;
mod lanes;
mod packed;
mod special;
mod turns;

use crate::decode::{Encoding, Instruction, Lanes, has_carry_in, operand};
use crate::fault::Cause;
use crate::float::{f16_to_f32, flush_16, flush_32, flush_64};
use crate::opcodes::Op;
use crate::wave::{LANES, Vector, Wave, inline_float, with_half};

/// One vector instruction of a wave.
pub(crate) struct Execution<'wave> {
    wave: &'wave mut Wave,
    i: Instruction,
    /// Lanes that take part.
    exec: u64,
}

/// Values of a function of each lane.
fn map1<A: Copy, R: Copy + Default>(a: &Vector<A>, f: impl Fn(A) -> R) -> Vector<R> {
    let mut result = [R::default(); LANES];
    for lane in 0..LANES {
        result[lane] = f(a[lane]);
    }
    result
}

fn map2<A: Copy, B: Copy, R: Copy + Default>(
    a: &Vector<A>,
    b: &Vector<B>,
    f: impl Fn(A, B) -> R,
) -> Vector<R> {
    let mut result = [R::default(); LANES];
    for lane in 0..LANES {
        result[lane] = f(a[lane], b[lane]);
    }
    result
}

fn map3<A: Copy, B: Copy, C: Copy, R: Copy + Default>(
    a: &Vector<A>,
    b: &Vector<B>,
    c: &Vector<C>,
    f: impl Fn(A, B, C) -> R,
) -> Vector<R> {
    let mut result = [R::default(); LANES];
    for lane in 0..LANES {
        result[lane] = f(a[lane], b[lane], c[lane]);
    }
    result
}

impl Wave {
    /// Executes one.
    pub(crate) fn execute_vector(&mut self, instruction: &Instruction) -> Result<(), Cause> {
        let exec = self.exec();
        let mut execution = Execution { wave: self, i: *instruction, exec };
        if let Lanes::Dpp { control, row_mask, bank_mask, zero } = instruction.lanes {
            execution.exec &= lanes::taking_part(exec, control, row_mask, bank_mask, zero);
        }
        if instruction.op == Op::VCmp {
            return execution.compare();
        }
        if instruction.encoding == Encoding::Vop3p {
            return execution.packed();
        }
        execution.special()
    }
}

impl Execution<'_> {
    /// A source's dwords, without modifiers of floats.
    fn raw(&self, index: usize) -> Result<Vector<u32>, Cause> {
        let source = self.i.src[index];
        if source < operand::VECTOR {
            return Ok([self.wave.scalar(&self.i, source)?; LANES]);
        }
        let register = usize::from(source - operand::VECTOR);
        let values = *self.wave.vgpr.get(register).ok_or(Cause::Operand(source))?;
        Ok(match self.i.lanes {
            Lanes::Dpp { control, .. } if index == 0 => lanes::moved(&values, self.wave.exec(), control),
            Lanes::Sdwa { src, sext, .. } if index < 2 => {
                let (part, is_signed) = (src[index], sext >> index & 1 != 0);
                map1(&values, |value| lanes::part(value, part, is_signed))
            }
            _ => values,
        })
    }

    fn negates(&self, index: usize) -> bool {
        self.i.neg >> index & 1 != 0
    }

    fn is_absolute(&self, index: usize) -> bool {
        self.i.abs >> index & 1 != 0
    }

    /// Sign bits to remove and to toggle, for a sign at bit `at`.
    fn sign_masks(&self, index: usize, at: u32) -> (u64, u64) {
        (u64::from(self.is_absolute(index)) << at, u64::from(self.negates(index)) << at)
    }

    fn u32s(&self, index: usize) -> Result<Vector<u32>, Cause> {
        self.raw(index)
    }

    /// Sources of 16 bits.
    fn u16s(&self, index: usize) -> Result<Vector<u16>, Cause> {
        let source = self.i.src[index];
        if (240..=248).contains(&source) {
            return Ok([inline_float(source).2; LANES]);
        }
        let shift = if self.is_upper_half(index) { 16 } else { 0 };
        Ok(map1(&self.raw(index)?, |value| (value >> shift) as u16))
    }

    /// Whether a source of 16 bits, or with the number 3 the result, is the upper half of its register.
    fn is_upper_half(&self, index: usize) -> bool {
        matches!(self.i.lanes, Lanes::Halves { low, .. } if low >> index & 1 != 0)
    }

    /// Sources of two dwords that are integers.
    fn u64s(&self, index: usize) -> Result<Vector<u64>, Cause> {
        let source = self.i.src[index];
        if source < operand::VECTOR {
            return Ok([self.wave.scalar_64(&self.i, source)?; LANES]);
        }
        let register = usize::from(source - operand::VECTOR);
        let low = self.wave.vgpr.get(register).ok_or(Cause::Operand(source))?;
        let high = self.wave.vgpr.get(register + 1).ok_or(Cause::Operand(source))?;
        Ok(map2(low, high, |low, high| u64::from(low) | u64::from(high) << 32))
    }

    fn f32s(&self, index: usize) -> Result<Vector<f32>, Cause> {
        let (absolute, negative) = self.sign_masks(index, 31);
        let (keep, toggle) = (!(absolute as u32), negative as u32);
        let values = map1(&self.raw(index)?, |value| value & keep ^ toggle);
        Ok(if self.wave.mode.flushes_in_32() {
            map1(&values, |value| f32::from_bits(flush_32(value)))
        } else {
            map1(&values, f32::from_bits)
        })
    }

    /// Sources of half precision, as bits.
    fn halves(&self, index: usize) -> Result<Vector<u16>, Cause> {
        let (absolute, negative) = self.sign_masks(index, 15);
        let (keep, toggle) = (!(absolute as u16), negative as u16);
        let flushes = self.wave.mode.flushes_in_16_64();
        Ok(map1(&self.u16s(index)?, |value| {
            let value = value & keep ^ toggle;
            if flushes { flush_16(value) } else { value }
        }))
    }

    /// Sources of half precision: single precision has all their values.
    fn f16s(&self, index: usize) -> Result<Vector<f32>, Cause> {
        Ok(map1(&self.halves(index)?, f16_to_f32))
    }

    fn f64s(&self, index: usize) -> Result<Vector<f64>, Cause> {
        let (absolute, negative) = self.sign_masks(index, 63);
        let values = if self.i.src[index] == operand::LITERAL {
            // The literal is the upper half.
            [u64::from(self.i.literal) << 32; LANES]
        } else {
            self.u64s(index)?
        };
        let flushes = self.wave.mode.flushes_in_16_64();
        Ok(map1(&values, |value| {
            let value = value & !absolute ^ negative;
            f64::from_bits(if flushes { flush_64(value) } else { value })
        }))
    }

    /// Writes the lanes that take part, as SDWA wants it.
    fn put(&mut self, values: &Vector<u32>) -> Result<(), Cause> {
        let dst = self.i.dst;
        let register = dst.checked_sub(operand::VECTOR).ok_or(Cause::Operand(dst))?;
        let exec = self.exec;
        let target = self.wave.vgpr.get_mut(usize::from(register)).ok_or(Cause::Operand(dst))?;
        if let Lanes::Sdwa { dst, unused, .. } = self.i.lanes {
            for lane in 0..LANES {
                if exec >> lane & 1 != 0 {
                    target[lane] = lanes::placed(target[lane], values[lane], dst, unused);
                }
            }
            return Ok(());
        }
        write(target, values, exec);
        Ok(())
    }

    fn put_u32(&mut self, values: &Vector<u32>) -> Result<(), Cause> {
        if self.i.clamp {
            return Err(Cause::Unsupported);
        }
        self.put(values)
    }

    fn put_u16(&mut self, values: &Vector<u16>) -> Result<(), Cause> {
        if self.i.clamp {
            return Err(Cause::Unsupported);
        }
        self.put_half(values)
    }

    /// Writes 16 bits. The other half becomes 0 or stays.
    fn put_half(&mut self, values: &Vector<u16>) -> Result<(), Cause> {
        let is_upper = self.is_upper_half(3);
        if !is_upper && !keeps_other_half(self.i.op) {
            return self.put(&map1(values, u32::from));
        }
        let dst = self.i.dst;
        let register = usize::from(dst.checked_sub(operand::VECTOR).ok_or(Cause::Operand(dst))?);
        let old = *self.wave.vgpr.get(register).ok_or(Cause::Operand(dst))?;
        self.put(&map2(&old, values, |old, value| with_half(old, u32::from(value), is_upper)))
    }

    fn put_u64(&mut self, values: &Vector<u64>) -> Result<(), Cause> {
        let dst = self.i.dst;
        let register = usize::from(dst.checked_sub(operand::VECTOR).ok_or(Cause::Operand(dst))?);
        let exec = self.exec;
        let Some([low, high]) = self.wave.vgpr.get_mut(register..register + 2) else {
            return Err(Cause::Operand(dst));
        };
        write(low, &map1(values, |value| value as u32), exec);
        write(high, &map1(values, |value| (value >> 32) as u32), exec);
        Ok(())
    }

    /// Writes floats of single precision, after flush, factor and clamp.
    fn put_f32(&mut self, values: &Vector<f32>) -> Result<(), Cause> {
        let values = match self.i.omod {
            0 => *values,
            1 => map1(values, |value| value * 2.0),
            2 => map1(values, |value| value * 4.0),
            _ => map1(values, |value| value * 0.5),
        };
        let values = if self.i.clamp {
            let nan = if self.wave.mode.clamps_nan() { 0.0 } else { f32::NAN };
            map1(&values, |value| if value.is_nan() { nan } else { value.clamp(0.0, 1.0) })
        } else {
            values
        };
        if self.wave.mode.flushes_out_32() {
            self.put(&map1(&values, |value| flush_32(value.to_bits())))
        } else {
            self.put(&map1(&values, f32::to_bits))
        }
    }

    /// Writes halves.
    fn put_f16(&mut self, values: &Vector<u16>) -> Result<(), Cause> {
        if self.i.omod != 0 {
            return Err(Cause::Unsupported);
        }
        let (clamps, nan) = (self.i.clamp, !self.wave.mode.clamps_nan());
        let flushes = self.wave.mode.flushes_out_16_64();
        self.put_half(&map1(values, |value| {
            let value = if clamps { clamp_16(value, nan) } else { value };
            if flushes { flush_16(value) } else { value }
        }))
    }

    fn put_f64(&mut self, values: &Vector<f64>) -> Result<(), Cause> {
        let factor = [1.0, 2.0, 4.0, 0.5][usize::from(self.i.omod & 3)];
        let (clamps, clamps_nan) = (self.i.clamp, self.wave.mode.clamps_nan());
        let flushes = self.wave.mode.flushes_out_16_64();
        self.put_u64(&map1(values, |value| {
            let value = if factor == 1.0 { value } else { value * factor };
            let value = match (clamps, value.is_nan()) {
                (false, _) => value,
                (true, true) => {
                    if clamps_nan {
                        0.0
                    } else {
                        value
                    }
                }
                (true, false) => value.clamp(0.0, 1.0),
            };
            let bits = value.to_bits();
            if flushes { flush_64(bits) } else { bits }
        }))
    }

    /// Writes a mask of lanes; those that take no part are 0.
    fn put_mask(&mut self, mask: u64) {
        let mask = mask & self.exec;
        let to = self.i.sdst;
        self.wave.set_pair(to, mask);
    }

    /// The mask that the operation reads.
    fn carry_in(&self) -> Result<u64, Cause> {
        debug_assert!(has_carry_in(self.i.op));
        if self.i.encoding == Encoding::Vop3 {
            self.wave.scalar_64(&self.i, self.i.src[2])
        } else {
            Ok(self.wave.vcc())
        }
    }
}

/// Replaces the lanes of `exec`.
fn write(target: &mut Vector<u32>, values: &Vector<u32>, exec: u64) {
    if exec == u64::MAX {
        *target = *values;
        return;
    }
    for lane in 0..LANES {
        let keep = ((exec >> lane & 1) as u32).wrapping_sub(1);
        target[lane] = target[lane] & keep | values[lane] & !keep;
    }
}

/// Operations of gfx9 that leave the half alone that they do not write. Those that GCN3 has, too, make it 0 as there
/// ([LLVM](https://github.com/llvm/llvm-project/blob/main/llvm/lib/Target/AMDGPU/GCNSubtarget.cpp): `zeroesHigh16BitsOfDest`).
fn keeps_other_half(op: Op) -> bool {
    matches!(
        op,
        Op::VMadHalfF16
            | Op::VMadHalfU16
            | Op::VMadHalfI16
            | Op::VFmaHalfF16
            | Op::VDivFixupHalfF16
            | Op::VMin3F16
            | Op::VMin3I16
            | Op::VMin3U16
            | Op::VMax3F16
            | Op::VMax3I16
            | Op::VMax3U16
            | Op::VMed3F16
            | Op::VMed3I16
            | Op::VMed3U16
            | Op::VAddI16
            | Op::VSubI16
            | Op::VMadMixloF16
    )
}

/// A half between 0 and 1.
fn clamp_16(value: u16, keeps_nan: bool) -> u16 {
    match value & 0x7fff {
        0x7c01.. => {
            if keeps_nan {
                value
            } else {
                0
            }
        }
        _ if value & 0x8000 != 0 => 0,
        magnitude => magnitude.min(0x3c00),
    }
}
