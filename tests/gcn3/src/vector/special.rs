//! Moves, masks, carries, and what passes between lanes and scalar registers.

use super::{Execution, map1, map2};
use crate::decode::operand;
use crate::fault::Cause;
use crate::opcodes::Op;
use crate::wave::{LANES, Vector};

/// The sum or difference of one lane: both with a carry or borrow in and out.
type Carrying = fn(u32, u32, u32) -> (u32, bool);

fn add(a: u32, b: u32, carry: u32) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

fn subtract(a: u32, b: u32, borrow: u32) -> (u32, bool) {
    let needed = u64::from(b) + u64::from(borrow);
    (u64::from(a).wrapping_sub(needed) as u32, u64::from(a) < needed)
}

fn subtract_reversed(a: u32, b: u32, borrow: u32) -> (u32, bool) {
    subtract(b, a, borrow)
}

impl Execution<'_> {
    /// These operations, or else the next family.
    pub(super) fn special(&mut self) -> Result<(), Cause> {
        match self.i.op {
            Op::VNop | Op::VClrexcp => Ok(()),
            Op::VMovB32 => {
                let values = self.u32s(0)?;
                self.put_u32(&values)
            }
            Op::VCndmaskB32 => self.choose(),
            Op::VAddU32 | Op::VAddCoU32 => self.carrying(add, false, u32::MAX),
            Op::VSubU32 | Op::VSubCoU32 => self.carrying(subtract, false, 0),
            Op::VSubrevU32 | Op::VSubrevCoU32 => self.carrying(subtract_reversed, false, 0),
            Op::VAddcU32 | Op::VAddcCoU32 => self.carrying(add, true, u32::MAX),
            Op::VSubbU32 | Op::VSubbCoU32 => self.carrying(subtract, true, 0),
            Op::VSubbrevU32 | Op::VSubbrevCoU32 => self.carrying(subtract_reversed, true, 0),
            Op::VAddNcU32 => self.without_carry(add, u32::MAX),
            Op::VSubNcU32 => self.without_carry(subtract, 0),
            Op::VSubrevNcU32 => self.without_carry(subtract_reversed, 0),
            Op::VSwapB32 => self.swap(),
            Op::VReadfirstlaneB32 => {
                let values = self.u32s(0)?;
                // Without any lane the first one is read.
                let lane = self.exec.trailing_zeros() as usize & 63;
                self.wave.set(self.i.dst, values[lane]);
                Ok(())
            }
            Op::VReadlaneB32 => {
                let values = self.u32s(0)?;
                let lane = self.wave.scalar(&self.i, self.i.src[1])? as usize & 63;
                self.wave.set(self.i.dst, values[lane]);
                Ok(())
            }
            Op::VWritelaneB32 => {
                let value = self.wave.scalar(&self.i, self.i.src[0])?;
                let lane = self.wave.scalar(&self.i, self.i.src[1])? & 63;
                // Whatever EXEC says.
                self.exec = 1 << lane;
                self.put_u32(&[value; LANES])
            }
            Op::VMovrelsB32 | Op::VMovreldB32 | Op::VMovrelsdB32 => self.move_relative(),
            _ => self.float32(),
        }
    }

    fn choose(&mut self) -> Result<(), Cause> {
        let mask = self.carry_in()?;
        let (no, yes) = (self.modified_32(0)?, self.modified_32(1)?);
        let values: Vector<u32> =
            std::array::from_fn(|lane| if mask >> lane & 1 != 0 { yes[lane] } else { no[lane] });
        self.put_u32(&values)
    }

    /// `limit`: the result of an overflow, if the instruction clamps.
    fn carrying(&mut self, f: Carrying, has_input: bool, limit: u32) -> Result<(), Cause> {
        let (a, b) = (self.u32s(0)?, self.u32s(1)?);
        let input = if has_input { self.carry_in()? } else { 0 };
        let (mut values, mut output) = ([0; LANES], 0);
        for lane in 0..LANES {
            let (value, carry) = f(a[lane], b[lane], (input >> lane & 1) as u32);
            values[lane] = if carry && self.i.clamp { limit } else { value };
            output |= u64::from(carry) << lane;
        }
        self.put_mask(output);
        self.put(&values)
    }

    /// The same without a carry.
    fn without_carry(&mut self, f: Carrying, limit: u32) -> Result<(), Cause> {
        let clamps = self.i.clamp;
        let values = map2(&self.u32s(0)?, &self.u32s(1)?, |a, b| {
            let (value, carry) = f(a, b, 0);
            if carry && clamps { limit } else { value }
        });
        self.put(&values)
    }

    /// Exchanges two registers.
    fn swap(&mut self) -> Result<(), Cause> {
        let (dst, src) = (self.i.dst, self.i.src[0]);
        let old = src.checked_sub(operand::VECTOR).ok_or(Cause::Operand(src))?;
        let values = self.u32s(0)?;
        self.i.src[0] = dst;
        let others = self.u32s(0)?;
        self.put(&values)?;
        self.i.dst = operand::VECTOR + old;
        self.put(&others)
    }

    /// Registers M0 behind those that are named.
    fn move_relative(&mut self) -> Result<(), Cause> {
        let m0 = self.wave.m0();
        let relative = |register: u16| {
            let found = u32::from(register).wrapping_add(m0);
            u16::try_from(found).map_err(|_| Cause::Operand(register))
        };
        if self.i.op != Op::VMovreldB32 && self.i.src[0] >= operand::VECTOR {
            self.i.src[0] = relative(self.i.src[0])?;
        }
        if self.i.op != Op::VMovrelsB32 {
            self.i.dst = relative(self.i.dst)?;
        }
        let values = self.u32s(0)?;
        self.put_u32(&values)
    }

    /// Dwords with the signs that the modifiers of floats give them, and nothing else of floats.
    pub(super) fn modified_32(&self, index: usize) -> Result<Vector<u32>, Cause> {
        let (absolute, negative) = self.sign_masks(index, 31);
        Ok(map1(&self.raw(index)?, |value| value & !(absolute as u32) ^ negative as u32))
    }

    /// The same of words.
    pub(super) fn modified_16(&self, index: usize) -> Result<Vector<u16>, Cause> {
        let (absolute, negative) = self.sign_masks(index, 15);
        Ok(map1(&self.u16s(index)?, |value| value & !(absolute as u16) ^ negative as u16))
    }

    /// The same of two dwords.
    pub(super) fn modified_64(&self, index: usize) -> Result<Vector<u64>, Cause> {
        let (absolute, negative) = self.sign_masks(index, 63);
        let values = self.u64s(index)?;
        Ok(map2(&values, &[(); LANES], |value, ()| value & !absolute ^ negative))
    }
}
