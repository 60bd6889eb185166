//! Scalar instructions.

use crate::decode::{Encoding, Instruction, Operand, operand};
use crate::fault::Cause;
use crate::opcodes::Op;
use crate::wave::{Progress, Wave};

/// What a scalar instruction asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    None,
    /// An interrupt to the host, with this number.
    Interrupt(u32),
}

impl Wave {
    /// Executes one; `pc` already names the next instruction.
    pub(crate) fn execute_scalar(&mut self, instruction: &Instruction) -> Result<Request, Cause> {
        match instruction.encoding {
            Encoding::Sop2 => self.sop2(instruction)?,
            Encoding::Sop1 => self.sop1(instruction)?,
            Encoding::Sopc => self.sopc(instruction)?,
            Encoding::Sopk => self.sopk(instruction)?,
            _ => return self.sopp(instruction),
        }
        Ok(Request::None)
    }

    /// Sets the destination, and SCC if the result is not 0.
    fn logic_32(&mut self, instruction: &Instruction, value: u32) {
        self.set(instruction.dst, value);
        self.scc = value != 0;
    }

    fn logic_64(&mut self, instruction: &Instruction, value: u64) {
        self.set_pair(instruction.dst, value);
        self.scc = value != 0;
    }

    fn with_carry(&mut self, instruction: &Instruction, (value, carry): (u32, bool)) {
        self.set(instruction.dst, value);
        self.scc = carry;
    }

    fn sop2(&mut self, i: &Instruction) -> Result<(), Cause> {
        let widths = i.op.widths();
        if widths[1] == 2 || i.op == Op::SBfmB64 {
            return self.sop2_64(i);
        }
        let a = self.scalar(i, i.src[0])?;
        let b = self.scalar(i, i.src[1])?;
        let signed = |value: i32| value as u32;
        let carry = u32::from(self.scc);
        match i.op {
            Op::SAddU32 => self.with_carry(i, a.overflowing_add(b)),
            Op::SSubU32 => self.with_carry(i, a.overflowing_sub(b)),
            Op::SAddI32 => {
                let (value, overflow) = (a as i32).overflowing_add(b as i32);
                self.with_carry(i, (signed(value), overflow));
            }
            Op::SSubI32 => {
                let (value, overflow) = (a as i32).overflowing_sub(b as i32);
                self.with_carry(i, (signed(value), overflow));
            }
            Op::SAddcU32 => {
                let sum = u64::from(a) + u64::from(b) + u64::from(carry);
                self.with_carry(i, (sum as u32, sum >> 32 != 0));
            }
            Op::SSubbU32 => {
                let borrow = u64::from(a) < u64::from(b) + u64::from(carry);
                self.with_carry(i, (a.wrapping_sub(b).wrapping_sub(carry), borrow));
            }
            Op::SMinI32 => {
                self.with_carry(i, (signed((a as i32).min(b as i32)), (a as i32) < b as i32));
            }
            Op::SMinU32 => self.with_carry(i, (a.min(b), a < b)),
            Op::SMaxI32 => {
                self.with_carry(i, (signed((a as i32).max(b as i32)), a as i32 > b as i32));
            }
            Op::SMaxU32 => self.with_carry(i, (a.max(b), a > b)),
            Op::SCselectB32 => self.set(i.dst, if self.scc { a } else { b }),
            Op::SAndB32 => self.logic_32(i, a & b),
            Op::SOrB32 => self.logic_32(i, a | b),
            Op::SXorB32 => self.logic_32(i, a ^ b),
            Op::SAndn2B32 => self.logic_32(i, a & !b),
            Op::SOrn2B32 => self.logic_32(i, a | !b),
            Op::SNandB32 => self.logic_32(i, !(a & b)),
            Op::SNorB32 => self.logic_32(i, !(a | b)),
            Op::SXnorB32 => self.logic_32(i, !(a ^ b)),
            Op::SLshlB32 => self.logic_32(i, a << (b & 31)),
            Op::SLshrB32 => self.logic_32(i, a >> (b & 31)),
            Op::SAshrI32 => self.logic_32(i, signed(a as i32 >> (b & 31))),
            Op::SBfmB32 => self.set(i.dst, mask_32(a) << (b & 31)),
            Op::SMulI32 => self.set(i.dst, a.wrapping_mul(b)),
            Op::SBfeU32 => self.logic_32(i, field(u64::from(a), b, 31, 32) as u32),
            Op::SBfeI32 => {
                let value = signed_field(u64::from(a), b, 31, 32);
                self.logic_32(i, value as u32);
            }
            Op::SMulHiU32 => self.set(i.dst, ((u64::from(a) * u64::from(b)) >> 32) as u32),
            Op::SMulHiI32 => {
                let product = i64::from(a as i32) * i64::from(b as i32);
                self.set(i.dst, (product >> 32) as u32);
            }
            Op::SLshl1AddU32 => self.shifted_sum(i, a, b, 1),
            Op::SLshl2AddU32 => self.shifted_sum(i, a, b, 2),
            Op::SLshl3AddU32 => self.shifted_sum(i, a, b, 3),
            Op::SLshl4AddU32 => self.shifted_sum(i, a, b, 4),
            Op::SPackLlB32B16 => self.set(i.dst, a & 0xffff | b << 16),
            Op::SPackLhB32B16 => self.set(i.dst, a & 0xffff | b & 0xffff_0000),
            Op::SPackHhB32B16 => self.set(i.dst, a >> 16 | b & 0xffff_0000),
            Op::SAbsdiffI32 => self.logic_32(i, (a as i32).wrapping_sub(b as i32).unsigned_abs()),
            _ => return Err(Cause::Unsupported),
        }
        Ok(())
    }

    fn shifted_sum(&mut self, i: &Instruction, a: u32, b: u32, by: u32) {
        let sum = (u64::from(a) << by) + u64::from(b);
        self.with_carry(i, (sum as u32, sum >> 32 != 0));
    }

    fn sop2_64(&mut self, i: &Instruction) -> Result<(), Cause> {
        let a = self.scalar_64(i, i.src[0])?;
        let b = self.scalar_64(i, i.src[1])?;
        match i.op {
            Op::SCselectB64 => self.set_pair(i.dst, if self.scc { a } else { b }),
            Op::SAndB64 => self.logic_64(i, a & b),
            Op::SOrB64 => self.logic_64(i, a | b),
            Op::SXorB64 => self.logic_64(i, a ^ b),
            Op::SAndn2B64 => self.logic_64(i, a & !b),
            Op::SOrn2B64 => self.logic_64(i, a | !b),
            Op::SNandB64 => self.logic_64(i, !(a & b)),
            Op::SNorB64 => self.logic_64(i, !(a | b)),
            Op::SXnorB64 => self.logic_64(i, !(a ^ b)),
            Op::SLshlB64 => self.logic_64(i, a << (b & 63)),
            Op::SLshrB64 => self.logic_64(i, a >> (b & 63)),
            Op::SAshrI64 => self.logic_64(i, (a as i64 >> (b & 63)) as u64),
            Op::SBfmB64 => {
                let ones = (1_u64 << (a & 63)) - 1;
                self.set_pair(i.dst, ones << (b & 63));
            }
            Op::SBfeU64 => self.logic_64(i, field(a, b as u32, 63, 64)),
            Op::SBfeI64 => {
                let value = signed_field(a, b as u32, 63, 64) as u64;
                self.logic_64(i, value);
            }
            _ => return Err(Cause::Unsupported),
        }
        Ok(())
    }

    fn sop1(&mut self, i: &Instruction) -> Result<(), Cause> {
        if i.op.widths().get(1) == Some(&2) || i.op == Op::SGetpcB64 {
            return self.sop1_64(i);
        }
        let a = self.scalar(i, i.src[0])?;
        match i.op {
            Op::SMovB32 => self.set(i.dst, a),
            Op::SCmovB32 => {
                if self.scc {
                    self.set(i.dst, a);
                }
            }
            Op::SNotB32 => self.logic_32(i, !a),
            Op::SWqmB32 => self.logic_32(i, whole_quads(u64::from(a)) as u32),
            Op::SBrevB32 => self.set(i.dst, a.reverse_bits()),
            Op::SBcnt0I32B32 => self.logic_32(i, a.count_zeros()),
            Op::SBcnt1I32B32 => self.logic_32(i, a.count_ones()),
            Op::SFf0I32B32 => self.set(i.dst, position((!a).trailing_zeros(), 32)),
            Op::SFf1I32B32 => self.set(i.dst, position(a.trailing_zeros(), 32)),
            Op::SFlbitI32B32 => self.set(i.dst, position(a.leading_zeros(), 32)),
            Op::SFlbitI32 => self.set(i.dst, sign_run(a)),
            Op::SSextI32I8 => self.set(i.dst, i32::from(a as i8) as u32),
            Op::SSextI32I16 => self.set(i.dst, i32::from(a as i16) as u32),
            Op::SBitset0B32 => self.set_bit_32(i.dst, a, false),
            Op::SBitset1B32 => self.set_bit_32(i.dst, a, true),
            Op::SBitset0B64 => self.set_pair(i.dst, self.pair(i.dst) & !(1 << (a & 63))),
            Op::SBitset1B64 => self.set_pair(i.dst, self.pair(i.dst) | 1 << (a & 63)),
            Op::SQuadmaskB32 => self.logic_32(i, quads(u64::from(a)) as u32),
            Op::SMovrelsB32 => {
                let source = self.relative(i.src[0])?;
                self.set(i.dst, self.sgpr[usize::from(source)]);
            }
            Op::SMovreldB32 => {
                let dst = self.relative(i.dst)?;
                self.set(dst, a);
            }
            Op::SAbsI32 => self.logic_32(i, (a as i32).unsigned_abs()),
            Op::SBitreplicateB64B32 => {
                let doubled = (0..32).fold(0, |bits, at| bits | (u64::from(a >> at & 1) * 3) << (2 * at));
                self.set_pair(i.dst, doubled);
            }
            _ => return Err(Cause::Unsupported),
        }
        Ok(())
    }

    fn sop1_64(&mut self, i: &Instruction) -> Result<(), Cause> {
        let a = self.scalar_64(i, i.src[0])?;
        let exec = self.exec();
        match i.op {
            Op::SMovB64 => self.set_pair(i.dst, a),
            Op::SCmovB64 => {
                if self.scc {
                    self.set_pair(i.dst, a);
                }
            }
            Op::SNotB64 => self.logic_64(i, !a),
            Op::SWqmB64 => self.logic_64(i, whole_quads(a)),
            Op::SBrevB64 => self.set_pair(i.dst, a.reverse_bits()),
            Op::SBcnt0I32B64 => self.logic_32(i, a.count_zeros()),
            Op::SBcnt1I32B64 => self.logic_32(i, a.count_ones()),
            Op::SFf0I32B64 => self.set(i.dst, position((!a).trailing_zeros(), 64)),
            Op::SFf1I32B64 => self.set(i.dst, position(a.trailing_zeros(), 64)),
            Op::SFlbitI32B64 => self.set(i.dst, position(a.leading_zeros(), 64)),
            Op::SFlbitI32I64 => {
                let run = if a as i64 >= 0 { a.leading_zeros() } else { a.leading_ones() };
                self.set(i.dst, position(run, 64));
            }
            Op::SGetpcB64 => self.set_pair(i.dst, self.pc),
            Op::SSetpcB64 => self.pc = a & !3,
            Op::SSwappcB64 => {
                let next = self.pc;
                self.pc = a & !3;
                self.set_pair(i.dst, next);
            }
            Op::SAndSaveexecB64 => self.save_exec(i, a & exec),
            Op::SOrSaveexecB64 => self.save_exec(i, a | exec),
            Op::SXorSaveexecB64 => self.save_exec(i, a ^ exec),
            Op::SAndn2SaveexecB64 => self.save_exec(i, a & !exec),
            Op::SOrn2SaveexecB64 => self.save_exec(i, a | !exec),
            Op::SNandSaveexecB64 => self.save_exec(i, !(a & exec)),
            Op::SNorSaveexecB64 => self.save_exec(i, !(a | exec)),
            Op::SXnorSaveexecB64 => self.save_exec(i, !(a ^ exec)),
            Op::SAndn1SaveexecB64 => self.save_exec(i, !a & exec),
            Op::SOrn1SaveexecB64 => self.save_exec(i, !a | exec),
            Op::SAndn1WrexecB64 => self.write_exec(i, !a & exec),
            Op::SAndn2WrexecB64 => self.write_exec(i, a & !exec),
            Op::SQuadmaskB64 => self.logic_64(i, quads(a)),
            Op::SMovrelsB64 => {
                let source = self.relative(i.src[0])?;
                self.set_pair(i.dst, self.pair(source));
            }
            Op::SMovreldB64 => {
                let dst = self.relative(i.dst)?;
                self.set_pair(dst, a);
            }
            _ => return Err(Cause::Unsupported),
        }
        Ok(())
    }

    fn set_bit_32(&mut self, register: Operand, at: u32, to: bool) {
        let mask = 1 << (at & 31);
        let old = self.sgpr[usize::from(register & 127)];
        self.set(register, if to { old | mask } else { old & !mask });
    }

    /// The scalar register M0 behind another.
    fn relative(&self, register: Operand) -> Result<Operand, Cause> {
        let found = u32::from(register).wrapping_add(self.m0());
        // Beyond the general registers the result is not defined.
        if found < 104 { Ok(found as Operand) } else { Err(Cause::Operand(register)) }
    }

    fn save_exec(&mut self, i: &Instruction, exec: u64) {
        let old = self.exec();
        self.set_pair(i.dst, old);
        self.set_pair(operand::EXEC, exec);
        self.scc = exec != 0;
    }

    fn write_exec(&mut self, i: &Instruction, exec: u64) {
        self.set_pair(operand::EXEC, exec);
        self.logic_64(i, exec);
    }

    fn sopc(&mut self, i: &Instruction) -> Result<(), Cause> {
        if matches!(i.op, Op::SSetGprIdxOn | Op::SSetvskip) {
            return Err(Cause::Unsupported);
        }
        let widths = i.op.widths();
        let read = |index: usize| match widths[index] {
            2 => self.scalar_64(i, i.src[index]),
            _ => self.scalar(i, i.src[index]).map(u64::from),
        };
        let (a, b) = (read(0)?, read(1)?);
        let (low_a, low_b) = (a as u32, b as u32);
        let (signed_a, signed_b) = (low_a as i32, low_b as i32);
        self.scc = match i.op {
            Op::SCmpEqI32 | Op::SCmpEqU32 => low_a == low_b,
            Op::SCmpLgI32 | Op::SCmpLgU32 => low_a != low_b,
            Op::SCmpGtI32 => signed_a > signed_b,
            Op::SCmpGeI32 => signed_a >= signed_b,
            Op::SCmpLtI32 => signed_a < signed_b,
            Op::SCmpLeI32 => signed_a <= signed_b,
            Op::SCmpGtU32 => low_a > low_b,
            Op::SCmpGeU32 => low_a >= low_b,
            Op::SCmpLtU32 => low_a < low_b,
            Op::SCmpLeU32 => low_a <= low_b,
            Op::SBitcmp0B32 => low_a >> (low_b & 31) & 1 == 0,
            Op::SBitcmp1B32 => low_a >> (low_b & 31) & 1 != 0,
            Op::SBitcmp0B64 => a >> (low_b & 63) & 1 == 0,
            Op::SBitcmp1B64 => a >> (low_b & 63) & 1 != 0,
            Op::SCmpEqU64 => a == b,
            Op::SCmpLgU64 => a != b,
            _ => return Err(Cause::Unsupported),
        };
        Ok(())
    }

    fn sopk(&mut self, i: &Instruction) -> Result<(), Cause> {
        let unsigned = i.literal;
        let signed = i32::from(i.literal as i16);
        let value = self.sgpr[usize::from(i.dst & 127)];
        let signed_value = value as i32;
        match i.op {
            Op::SMovkI32 => self.set(i.dst, signed as u32),
            Op::SCmovkI32 => {
                if self.scc {
                    self.set(i.dst, signed as u32);
                }
            }
            Op::SCmpkEqI32 => self.scc = signed_value == signed,
            Op::SCmpkLgI32 => self.scc = signed_value != signed,
            Op::SCmpkGtI32 => self.scc = signed_value > signed,
            Op::SCmpkGeI32 => self.scc = signed_value >= signed,
            Op::SCmpkLtI32 => self.scc = signed_value < signed,
            Op::SCmpkLeI32 => self.scc = signed_value <= signed,
            Op::SCmpkEqU32 => self.scc = value == unsigned,
            Op::SCmpkLgU32 => self.scc = value != unsigned,
            Op::SCmpkGtU32 => self.scc = value > unsigned,
            Op::SCmpkGeU32 => self.scc = value >= unsigned,
            Op::SCmpkLtU32 => self.scc = value < unsigned,
            Op::SCmpkLeU32 => self.scc = value <= unsigned,
            Op::SAddkI32 => {
                let (sum, overflow) = signed_value.overflowing_add(signed);
                self.with_carry(i, (sum as u32, overflow));
            }
            Op::SMulkI32 => self.set(i.dst, signed_value.wrapping_mul(signed) as u32),
            Op::SCallB64 => {
                let next = self.pc;
                self.pc = next.wrapping_add_signed(i64::from(signed) * 4);
                self.set_pair(i.dst, next);
            }
            Op::SGetregB32 => {
                let value = self.hardware_register(i.literal)?;
                self.set(i.dst, value);
            }
            Op::SSetregB32 => self.set_hardware_register(i.literal, value)?,
            Op::SSetregImm32B32 => self.set_hardware_register(u32::from(i.src[0]), i.literal)?,
            _ => return Err(Cause::Unsupported),
        }
        Ok(())
    }

    /// A field of a hardware register, selected by SIMM16.
    fn hardware_register(&self, selection: u32) -> Result<u32, Cause> {
        let value = match selection & 63 {
            1 => self.mode.0,
            // HW_ID: the wave's slot; everything runs on the first compute unit.
            4 => self.index & 15,
            3 | 5..=7 => 0,
            // SH_MEM_BASES, of gfx9: the upper 16 bits of the addresses of private and group memory.
            15 => self.apertures.private >> 16 | self.apertures.group & 0xffff_0000,
            _ => return Err(Cause::Unsupported),
        };
        Ok(value >> (selection >> 6 & 31) & mask_32_of((selection >> 11 & 31) + 1))
    }

    fn set_hardware_register(&mut self, selection: u32, value: u32) -> Result<(), Cause> {
        let mask = mask_32_of((selection >> 11 & 31) + 1);
        let shift = selection >> 6 & 31;
        match selection & 63 {
            1 => self.mode.0 = self.mode.0 & !(mask << shift) | (value & mask) << shift,
            // TRAPSTS: no exceptions are kept.
            3 => {}
            _ => return Err(Cause::Unsupported),
        }
        Ok(())
    }

    fn sopp(&mut self, i: &Instruction) -> Result<Request, Cause> {
        let jumps = match i.op {
            Op::SBranch => true,
            Op::SCbranchScc0 => !self.scc,
            Op::SCbranchScc1 => self.scc,
            Op::SCbranchVccz => self.vcc() == 0,
            Op::SCbranchVccnz => self.vcc() != 0,
            Op::SCbranchExecz => self.exec() == 0,
            Op::SCbranchExecnz => self.exec() != 0,
            Op::SEndpgm | Op::SEndpgmSaved => {
                self.progress = Progress::Ended;
                false
            }
            Op::SBarrier => {
                self.progress = Progress::AtBarrier;
                false
            }
            Op::SSleep => {
                self.progress = Progress::Sleeps;
                false
            }
            Op::SSendmsg | Op::SSendmsghalt if i.literal & 15 == 1 => {
                return Ok(Request::Interrupt(self.m0()));
            }
            Op::STrap => return Err(Cause::Trap(i.literal as u8)),
            // No debugger is attached.
            Op::SCbranchCdbgsys
            | Op::SCbranchCdbguser
            | Op::SCbranchCdbgsysOrUser
            | Op::SCbranchCdbgsysAndUser
            | Op::SNop
            | Op::SWaitcnt
            | Op::SSetprio
            | Op::SWakeup
            | Op::SIcacheInv
            | Op::SIncperflevel
            | Op::SDecperflevel
            | Op::STtracedata => false,
            _ => return Err(Cause::Unsupported),
        };
        if jumps {
            let offset = i64::from(i.literal as i16) * 4;
            self.pc = self.pc.wrapping_add_signed(offset);
        }
        Ok(Request::None)
    }
}

/// `count` ones, of which the five lowest bits count.
fn mask_32(count: u32) -> u32 {
    (1 << (count & 31)) - 1
}

/// 1 to 32 ones.
fn mask_32_of(count: u32) -> u32 {
    u32::MAX >> (32 - count)
}

/// A bit field of a value with `bits` bits: offset in the low bits of `selection`, width in its bits 16 to 22.
fn field(value: u64, selection: u32, offset_mask: u32, bits: u32) -> u64 {
    let width = (selection >> 16 & 127).min(bits);
    let shifted = value >> (selection & offset_mask);
    if width == 64 { shifted } else { shifted & ((1 << width) - 1) }
}

/// The same with the field's sign.
fn signed_field(value: u64, selection: u32, offset_mask: u32, bits: u32) -> i64 {
    let offset = selection & offset_mask;
    // The part of the field that the value has.
    let width = (selection >> 16 & 127).min(bits - offset);
    if width == 0 {
        return 0;
    }
    let unused = 64 - width;
    ((value >> offset) << unused) as i64 >> unused
}

/// -1 if no bit was found.
fn position(found: u32, bits: u32) -> u32 {
    if found >= bits { u32::MAX } else { found }
}

/// How many of the highest bits are equal; -1 if all are.
pub(crate) fn sign_run(value: u32) -> u32 {
    let run = if value as i32 >= 0 { value.leading_zeros() } else { value.leading_ones() };
    position(run, 32)
}

/// One bit for each four lanes: whether one of them is set.
fn quads(mask: u64) -> u64 {
    (0..16).filter(|quad| mask >> (quad * 4) & 15 != 0).map(|quad| 1 << quad).sum()
}

/// All four lanes of each quad of which one is set.
fn whole_quads(mask: u64) -> u64 {
    (0..16).filter(|quad| mask >> (quad * 4) & 15 != 0).map(|quad| 15 << (quad * 4)).sum()
}
