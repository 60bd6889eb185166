//! Vector instructions: VOP1, VOP2, VOPC, VOP3 and VOP3P.

use super::{
    DecodeError, Encoding, Instruction, Isa, Lanes, NONE, Operand, Tables, bit, bits, blank, operand,
    with_literal,
};
use crate::compare::Compare;
use crate::opcodes::{Op, VOP1, VOP1_9, VOP2, VOP2_9, VOP3, VOP3_9, VOP3P};

/// VOP1, VOP2 and VOPC.
pub(super) fn vop(isa: Isa, word: u32, second: Result<u32, DecodeError>) -> Result<Instruction, DecodeError> {
    let source = bits(word, 0, 9);
    let second_source = operand::VECTOR + bits(word, 9, 8) as Operand;
    let dst = operand::VECTOR + bits(word, 17, 8) as Operand;
    let mut instruction = match bits(word, 25, 6) {
        0x3e => {
            let code = bits(word, 17, 8);
            let compare = Compare::of_code(code as u8);
            let mut instruction = blank(isa, Op::VCmp, Encoding::Vopc);
            instruction.compare = Some(compare.ok_or(DecodeError::Code { encoding: Encoding::Vopc, code })?);
            instruction.src[1] = second_source;
            instruction.dst = operand::VCC;
            instruction
        }
        0x3f => {
            let mut instruction = Tables(&VOP1, &VOP1_9).decode(isa, Encoding::Vop1, bits(word, 9, 8))?;
            instruction.dst = dst;
            instruction
        }
        code => {
            let mut instruction = Tables(&VOP2, &VOP2_9).decode(isa, Encoding::Vop2, code)?;
            instruction.dst = dst;
            instruction.src[1] = second_source;
            instruction
        }
    };
    instruction.src[0] = source as Operand;
    match instruction.op {
        Op::VMadmkF32 | Op::VMadmkF16 => {
            instruction.src = [source as Operand, operand::LITERAL, second_source];
        }
        Op::VMadakF32 | Op::VMadakF16 => instruction.src[2] = operand::LITERAL,
        Op::VReadfirstlaneB32 => instruction.dst -= operand::VECTOR,
        _ => {}
    }
    match source {
        operand::SDWA => sdwa(instruction, second?),
        operand::DPP => dpp(instruction, second?),
        _ => with_literal(instruction, second),
    }
}

/// Whether an operand or the result has two dwords: modifiers of lanes work on one.
fn is_wide(instruction: &Instruction) -> bool {
    let widths = instruction.compare.map(Compare::widths);
    widths.as_ref().map_or(instruction.op.widths(), |widths| widths).iter().any(|&width| width > 1)
}

fn sdwa(mut instruction: Instruction, second: u32) -> Result<Instruction, DecodeError> {
    if instruction.op.takes_no_modifiers() || is_wide(&instruction) {
        return Err(DecodeError::Modifiers(instruction.op));
    }
    instruction.size = 2;
    let is_gfx9 = instruction.isa == Isa::Gfx9;
    // Of gfx9, each source may be a scalar register.
    let base = |at: u32| if is_gfx9 && bit(second, at) { 0 } else { operand::VECTOR };
    instruction.src[0] = base(23) + bits(second, 0, 8) as Operand;
    if instruction.src[1] >= operand::VECTOR {
        instruction.src[1] = base(31) + (instruction.src[1] - operand::VECTOR);
    }
    let selection = |from: u32| if bits(second, from, 3) == 7 { 6 } else { bits(second, from, 3) as u8 };
    let is_compare = instruction.encoding == Encoding::Vopc;
    instruction.lanes = Lanes::Sdwa {
        dst: if is_compare { 6 } else { selection(8) },
        unused: if is_compare { 0 } else { bits(second, 11, 2) as u8 },
        src: [selection(16), selection(24)],
        sext: (bits(second, 19, 1) | bits(second, 27, 1) << 1) as u8,
    };
    if is_gfx9 && is_compare {
        // The destination's register takes the place of what there is for others.
        if bit(second, 15) {
            instruction.dst = bits(second, 8, 7) as Operand;
        }
    } else {
        instruction.clamp = bit(second, 13);
        instruction.omod = if is_gfx9 { bits(second, 14, 2) as u8 } else { 0 };
    }
    instruction.neg = (bits(second, 20, 1) | bits(second, 28, 1) << 1) as u8;
    instruction.abs = (bits(second, 21, 1) | bits(second, 29, 1) << 1) as u8;
    Ok(instruction)
}

fn dpp(mut instruction: Instruction, second: u32) -> Result<Instruction, DecodeError> {
    if instruction.op.takes_no_modifiers() || is_wide(&instruction) {
        return Err(DecodeError::Modifiers(instruction.op));
    }
    instruction.size = 2;
    instruction.src[0] = operand::VECTOR + bits(second, 0, 8) as Operand;
    instruction.lanes = Lanes::Dpp {
        control: bits(second, 8, 9) as u16,
        row_mask: bits(second, 28, 4) as u8,
        bank_mask: bits(second, 24, 4) as u8,
        zero: bit(second, 19),
    };
    instruction.neg = (bits(second, 20, 1) | bits(second, 22, 1) << 1) as u8;
    instruction.abs = (bits(second, 21, 1) | bits(second, 23, 1) << 1) as u8;
    Ok(instruction)
}

/// Operations whose VOP3 form has a scalar destination beside the vector one, in place of absolute values.
pub(crate) fn has_carry_out(op: Op) -> bool {
    matches!(
        op,
        Op::VAddU32
            | Op::VSubU32
            | Op::VSubrevU32
            | Op::VAddcU32
            | Op::VSubbU32
            | Op::VSubbrevU32
            | Op::VAddCoU32
            | Op::VSubCoU32
            | Op::VSubrevCoU32
            | Op::VAddcCoU32
            | Op::VSubbCoU32
            | Op::VSubbrevCoU32
            | Op::VDivScaleF32
            | Op::VDivScaleF64
            | Op::VMadU64U32
            | Op::VMadI64I32
    )
}

/// Operations that read a lane mask: VCC, or in VOP3 form any pair.
pub(crate) fn has_carry_in(op: Op) -> bool {
    matches!(
        op,
        Op::VAddcU32
            | Op::VSubbU32
            | Op::VSubbrevU32
            | Op::VAddcCoU32
            | Op::VSubbCoU32
            | Op::VSubbrevCoU32
            | Op::VCndmaskB32
    )
}

pub(super) fn vop3(isa: Isa, word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let code = bits(word, 16, 10);
    let mut instruction = match code {
        0..0x100 => {
            let compare = Compare::of_code(code as u8);
            let mut instruction = blank(isa, Op::VCmp, Encoding::Vop3);
            instruction.compare = Some(compare.ok_or(DecodeError::Code { encoding: Encoding::Vop3, code })?);
            instruction
        }
        0x100..0x140 => Tables(&VOP2, &VOP2_9).decode(isa, Encoding::Vop3, code - 0x100)?,
        0x140..0x1c0 => Tables(&VOP1, &VOP1_9).decode(isa, Encoding::Vop3, code - 0x140)?,
        _ => Tables(&VOP3, &VOP3_9).decode(isa, Encoding::Vop3, code - 0x1c0)?,
    };
    let op = instruction.op;
    if matches!(
        op,
        Op::VMadmkF32 | Op::VMadmkF16 | Op::VMadakF32 | Op::VMadakF16 | Op::VReadfirstlaneB32 | Op::VSwapB32
    ) {
        return Err(DecodeError::Code { encoding: Encoding::Vop3, code });
    }
    instruction.size = 2;
    let dst = bits(word, 0, 8) as Operand;
    instruction.dst = match op {
        Op::VCmp => dst,
        Op::VReadlaneB32 => dst & 127,
        _ => operand::VECTOR + dst,
    };
    instruction.clamp = bit(word, 15);
    if has_carry_out(op) {
        instruction.sdst = bits(word, 8, 7) as Operand;
    } else {
        instruction.abs = bits(word, 8, 3) as u8;
        let low = bits(word, 11, 4) as u8;
        if isa == Isa::Gfx9 && low != 0 {
            instruction.lanes = Lanes::Halves { low, high: 0, negates_high: 0 };
        }
    }
    instruction.src = [0, 9, 18].map(|from| bits(second, from, 9) as Operand);
    refuse_literals(&instruction)?;
    instruction.omod = bits(second, 27, 2) as u8;
    instruction.neg = bits(second, 29, 3) as u8;
    Ok(instruction)
}

/// VOP3 has no literals, and no modifiers of lanes.
fn refuse_literals(instruction: &Instruction) -> Result<(), DecodeError> {
    let sources = 3.min(instruction.op.widths().len().saturating_sub(1));
    let is_other = |source: &Operand| (249..=250).contains(source) || *source == operand::LITERAL;
    if instruction.src[..sources].iter().any(is_other) {
        return Err(DecodeError::Modifiers(instruction.op));
    }
    Ok(())
}

/// Operations on two halves.
pub(super) fn vop3p(word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let code = bits(word, 16, 7);
    let mut instruction = Tables(&NONE, &VOP3P).decode(Isa::Gfx9, Encoding::Vop3p, code)?;
    instruction.size = 2;
    instruction.dst = operand::VECTOR + bits(word, 0, 8) as Operand;
    instruction.src = [0, 9, 18].map(|from| bits(second, from, 9) as Operand);
    refuse_literals(&instruction)?;
    instruction.clamp = bit(word, 15);
    instruction.neg = bits(second, 29, 3) as u8;
    instruction.lanes = Lanes::Halves {
        low: bits(word, 11, 3) as u8,
        high: (bits(second, 27, 2) | bits(word, 14, 1) << 2) as u8,
        negates_high: bits(word, 8, 3) as u8,
    };
    Ok(instruction)
}
