//! From dwords to instructions.

use crate::atomic::Atomic;
use crate::compare::Compare;
use crate::opcodes::{DS, FLAT, MUBUF, Op, SMEM, SOP1, SOP2, SOPC, SOPK, SOPP, VOP1, VOP2, VOP3};

/// Code of an operand: 0 to 255 scalar registers and constants, 256 and above vector registers.
pub type Operand = u16;

/// Operand codes with a meaning of their own.
pub(crate) mod operand {
    use super::Operand;

    pub(crate) const VCC: Operand = 106;
    pub(crate) const M0: Operand = 124;
    pub(crate) const EXEC: Operand = 126;
    pub(crate) const SDWA: u32 = 249;
    pub(crate) const DPP: u32 = 250;
    pub(crate) const VCCZ: Operand = 251;
    pub(crate) const EXECZ: Operand = 252;
    pub(crate) const SCC: Operand = 253;
    pub(crate) const LITERAL: Operand = 255;
    pub(crate) const VECTOR: Operand = 256;
}

/// Format of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the ISA's")]
pub enum Encoding {
    Sop1,
    Sop2,
    Sopk,
    Sopc,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Ds,
    Flat,
    Mubuf,
}

/// How the lanes of a vector instruction see their operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Each lane its own, whole.
    Plain,
    /// The first operand comes from another lane.
    Dpp {
        /// Which lane.
        control: u16,
        /// Rows of 16 lanes that take part.
        row_mask: u8,
        /// Banks of 4 lanes in each row that take part.
        bank_mask: u8,
        /// A lane without a source reads 0, instead of taking no part.
        zero: bool,
    },
    /// Parts of dwords.
    Sdwa {
        /// Part of the destination.
        dst: u8,
        /// What happens with the rest of the destination.
        unused: u8,
        /// Parts of the sources.
        src: [u8; 2],
        /// Sources whose part is sign-extended, as bits.
        sext: u8,
    },
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// The comparison, of `Op::VCmp`.
    pub compare: Option<Compare>,
    /// Its format.
    pub encoding: Encoding,
    /// Dwords that it takes.
    pub size: u8,
    /// Destination.
    pub dst: Operand,
    /// Scalar destination of vector instructions, and of VOPC.
    pub sdst: Operand,
    /// Sources. DS, FLAT and MUBUF: address, data, second data; SMEM: base, offset if it is a register.
    pub src: [Operand; 3],
    /// The literal, if a source is one; else the immediate: SIMM16 or the offset.
    pub literal: u32,
    /// Sources whose absolute value is taken, as bits.
    pub abs: u8,
    /// Sources that are negated, as bits.
    pub neg: u8,
    /// Factor of the result: 1, 2, 4 or a half.
    pub omod: u8,
    /// The result is clamped.
    pub clamp: bool,
    /// Modifiers of memory instructions.
    pub memory: MemoryBits,
    /// Modifiers of lanes.
    pub lanes: Lanes,
    /// The atomic operation, if it is one.
    pub(crate) atomic: Option<Atomic>,
    /// One more than the highest vector register that it names.
    pub vgpr_end: u16,
}

/// Bits of memory instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryBits {
    /// Atomics return the old value.
    pub glc: bool,
    /// MUBUF: the address has an offset in a register.
    pub offen: bool,
    /// MUBUF: the address has an index in a register.
    pub idxen: bool,
    /// MUBUF: data goes to LDS; DS: global data share.
    pub elsewhere: bool,
    /// MUBUF: the scalar offset.
    pub soffset: Operand,
}

/// Why dwords are no instruction that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A format of graphics.
    #[error("instructions of {0} are not supported")]
    Format(&'static str),
    /// No operation has this code.
    #[error("no operation of {encoding:?} has code {code:#x}")]
    Code {
        /// The format.
        encoding: Encoding,
        /// The operation's code in it.
        code: u32,
    },
    /// The second dword is missing.
    #[error("the instruction {0:#010x} ends early")]
    Short(u32),
    /// Modifiers that an operation cannot have, or cannot have here.
    #[error("{} with modifiers that are not supported", .0.name())]
    Modifiers(Op),
}

/// Bits `from..from + count` of a dword.
fn bits(word: u32, from: u32, count: u32) -> u32 {
    (word >> from) & ((1 << count) - 1)
}

fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 != 0
}

/// Decodes the instruction at the beginning of `words`, of which at most two dwords are read.
pub fn decode(words: &[u32]) -> Result<Instruction, DecodeError> {
    let &[word, ..] = words else { return Err(DecodeError::Short(0)) };
    let second = words.get(1).copied().ok_or(DecodeError::Short(word));
    let mut instruction = match word >> 26 {
        0b11_0000 => smem(word, second?),
        0b11_0100 => vop3(word, second?),
        0b11_0110 => ds(word, second?),
        0b11_0111 => flat(word, second?),
        0b11_1000 => mubuf(word, second?),
        0b11_0001 => Err(DecodeError::Format("EXP")),
        0b11_0101 => Err(DecodeError::Format("VINTRP")),
        0b11_1010 => Err(DecodeError::Format("MTBUF")),
        0b11_1100 => Err(DecodeError::Format("MIMG")),
        _ if word >> 31 == 0 => vop(word, second),
        _ if word >> 30 == 0b10 => sop(word, second),
        _ => Err(DecodeError::Format("an unknown format")),
    }?;
    instruction.vgpr_end = vgpr_end(&instruction);
    instruction.atomic = Atomic::of(instruction.op);
    Ok(instruction)
}

fn of_table(table: &[Option<Op>; 256], encoding: Encoding, code: u32) -> Result<Instruction, DecodeError> {
    let op = table.get(code as usize).copied().flatten().ok_or(DecodeError::Code { encoding, code })?;
    Ok(blank(op, encoding))
}

fn blank(op: Op, encoding: Encoding) -> Instruction {
    Instruction {
        op,
        compare: None,
        encoding,
        size: 1,
        dst: 0,
        sdst: operand::VCC,
        src: [0; 3],
        literal: 0,
        abs: 0,
        neg: 0,
        omod: 0,
        clamp: false,
        memory: MemoryBits::default(),
        lanes: Lanes::Plain,
        atomic: None,
        vgpr_end: 0,
    }
}

/// Takes the second dword as literal, if a source asks for one.
fn with_literal(
    mut instruction: Instruction,
    second: Result<u32, DecodeError>,
) -> Result<Instruction, DecodeError> {
    if instruction.src.contains(&operand::LITERAL) {
        instruction.literal = second?;
        instruction.size = 2;
    }
    Ok(instruction)
}

fn sop(word: u32, second: Result<u32, DecodeError>) -> Result<Instruction, DecodeError> {
    let dst = bits(word, 16, 7) as Operand;
    let sources = [bits(word, 0, 8) as Operand, bits(word, 8, 8) as Operand, 0];
    match word >> 23 {
        0b1_0111_1101 => {
            let mut instruction = of_table(&SOP1, Encoding::Sop1, bits(word, 8, 8))?;
            instruction.dst = dst;
            instruction.src[0] = sources[0];
            with_literal(instruction, second)
        }
        0b1_0111_1110 => {
            let mut instruction = of_table(&SOPC, Encoding::Sopc, bits(word, 16, 7))?;
            instruction.src = sources;
            if instruction.op == Op::SSetGprIdxOn {
                return Ok(instruction);
            }
            with_literal(instruction, second)
        }
        0b1_0111_1111 => {
            let mut instruction = of_table(&SOPP, Encoding::Sopp, bits(word, 16, 7))?;
            instruction.literal = bits(word, 0, 16);
            Ok(instruction)
        }
        _ if word >> 28 == 0b1011 => {
            let mut instruction = of_table(&SOPK, Encoding::Sopk, bits(word, 23, 5))?;
            instruction.dst = dst;
            instruction.literal = bits(word, 0, 16);
            if instruction.op == Op::SSetregImm32B32 {
                // The register's selection is the first source, the literal its value.
                instruction.src[0] = bits(word, 0, 16) as Operand;
                instruction.literal = second?;
                instruction.size = 2;
            }
            Ok(instruction)
        }
        _ => {
            let mut instruction = of_table(&SOP2, Encoding::Sop2, bits(word, 23, 7))?;
            instruction.dst = dst;
            instruction.src = sources;
            with_literal(instruction, second)
        }
    }
}

fn smem(word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = of_table(&SMEM, Encoding::Smem, bits(word, 18, 8))?;
    instruction.size = 2;
    instruction.dst = bits(word, 6, 7) as Operand;
    instruction.src[0] = (bits(word, 0, 6) << 1) as Operand;
    instruction.memory.glc = bit(word, 16);
    if bit(word, 17) {
        instruction.literal = bits(second, 0, 20);
        instruction.src[1] = operand::LITERAL;
    } else {
        instruction.src[1] = bits(second, 0, 7) as Operand;
    }
    Ok(instruction)
}

/// VOP1, VOP2 and VOPC.
fn vop(word: u32, second: Result<u32, DecodeError>) -> Result<Instruction, DecodeError> {
    let source = bits(word, 0, 9);
    let second_source = operand::VECTOR + bits(word, 9, 8) as Operand;
    let dst = operand::VECTOR + bits(word, 17, 8) as Operand;
    let mut instruction = match bits(word, 25, 6) {
        0x3e => {
            let code = bits(word, 17, 8);
            let compare = Compare::of_code(code as u8);
            let mut instruction = blank(Op::VCmp, Encoding::Vopc);
            instruction.compare = Some(compare.ok_or(DecodeError::Code { encoding: Encoding::Vopc, code })?);
            instruction.src[1] = second_source;
            instruction.dst = operand::VCC;
            instruction
        }
        0x3f => {
            let mut instruction = of_table(&VOP1, Encoding::Vop1, bits(word, 9, 8))?;
            instruction.dst = dst;
            instruction
        }
        code => {
            let mut instruction = of_table(&VOP2, Encoding::Vop2, code)?;
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

/// Operations that take no modifiers of lanes.
fn refuses_lanes(op: Op) -> bool {
    matches!(
        op,
        Op::VMadmkF32
            | Op::VMadmkF16
            | Op::VMadakF32
            | Op::VMadakF16
            | Op::VReadfirstlaneB32
            | Op::VNop
            | Op::VClrexcp
    )
}

/// Whether an operand or the result has two dwords: modifiers of lanes work on one.
fn is_wide(instruction: &Instruction) -> bool {
    let widths = instruction.compare.map(Compare::widths);
    widths.as_ref().map_or(instruction.op.widths(), |widths| widths).iter().any(|&width| width > 1)
}

fn sdwa(mut instruction: Instruction, second: u32) -> Result<Instruction, DecodeError> {
    if refuses_lanes(instruction.op) || is_wide(&instruction) {
        return Err(DecodeError::Modifiers(instruction.op));
    }
    instruction.size = 2;
    instruction.src[0] = operand::VECTOR + bits(second, 0, 8) as Operand;
    let selection = |from: u32| if bits(second, from, 3) == 7 { 6 } else { bits(second, from, 3) as u8 };
    let is_compare = instruction.encoding == Encoding::Vopc;
    instruction.lanes = Lanes::Sdwa {
        dst: if is_compare { 6 } else { selection(8) },
        unused: if is_compare { 0 } else { bits(second, 11, 2) as u8 },
        src: [selection(16), selection(24)],
        sext: (bits(second, 19, 1) | bits(second, 27, 1) << 1) as u8,
    };
    instruction.clamp = bit(second, 13);
    instruction.neg = (bits(second, 20, 1) | bits(second, 28, 1) << 1) as u8;
    instruction.abs = (bits(second, 21, 1) | bits(second, 29, 1) << 1) as u8;
    Ok(instruction)
}

fn dpp(mut instruction: Instruction, second: u32) -> Result<Instruction, DecodeError> {
    if refuses_lanes(instruction.op) || is_wide(&instruction) {
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
            | Op::VDivScaleF32
            | Op::VDivScaleF64
            | Op::VMadU64U32
            | Op::VMadI64I32
    )
}

/// Operations that read a lane mask: VCC, or in VOP3 form any pair.
pub(crate) fn has_carry_in(op: Op) -> bool {
    matches!(op, Op::VAddcU32 | Op::VSubbU32 | Op::VSubbrevU32 | Op::VCndmaskB32)
}

fn vop3(word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let code = bits(word, 16, 10);
    let mut instruction = match code {
        0..0x100 => {
            let compare = Compare::of_code(code as u8);
            let mut instruction = blank(Op::VCmp, Encoding::Vop3);
            instruction.compare = Some(compare.ok_or(DecodeError::Code { encoding: Encoding::Vop3, code })?);
            instruction
        }
        0x100..0x140 => of_table(&VOP2, Encoding::Vop3, code - 0x100)?,
        0x140..0x1c0 => of_table(&VOP1, Encoding::Vop3, code - 0x140)?,
        _ => of_table(&VOP3, Encoding::Vop3, code - 0x1c0)?,
    };
    let op = instruction.op;
    if matches!(op, Op::VMadmkF32 | Op::VMadmkF16 | Op::VMadakF32 | Op::VMadakF16 | Op::VReadfirstlaneB32) {
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
    }
    instruction.src = [0, 9, 18].map(|from| bits(second, from, 9) as Operand);
    // There are no literals, and no modifiers of lanes.
    let sources = 3.min(instruction.op.widths().len().saturating_sub(1));
    if instruction.src[..sources].iter().any(|source| (249..=250).contains(source) || *source == 255) {
        return Err(DecodeError::Modifiers(op));
    }
    instruction.omod = bits(second, 27, 2) as u8;
    instruction.neg = bits(second, 29, 3) as u8;
    Ok(instruction)
}

fn ds(word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = of_table(&DS, Encoding::Ds, bits(word, 17, 8))?;
    instruction.size = 2;
    instruction.literal = bits(word, 0, 16);
    instruction.memory.elsewhere = bit(word, 16);
    instruction.src = [0, 8, 16].map(|from| operand::VECTOR + bits(second, from, 8) as Operand);
    instruction.dst = operand::VECTOR + bits(second, 24, 8) as Operand;
    Ok(instruction)
}

fn flat(word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = of_table(&FLAT, Encoding::Flat, bits(word, 18, 7))?;
    if bit(second, 23) {
        // TFE: one more dword with the status of partly resident textures.
        return Err(DecodeError::Modifiers(instruction.op));
    }
    instruction.size = 2;
    instruction.memory.glc = bit(word, 16);
    instruction.src[0] = operand::VECTOR + bits(second, 0, 8) as Operand;
    instruction.src[1] = operand::VECTOR + bits(second, 8, 8) as Operand;
    instruction.dst = operand::VECTOR + bits(second, 24, 8) as Operand;
    Ok(instruction)
}

fn mubuf(word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = of_table(&MUBUF, Encoding::Mubuf, bits(word, 18, 7))?;
    if bit(second, 23) {
        // TFE: one more dword with the status of partly resident textures.
        return Err(DecodeError::Modifiers(instruction.op));
    }
    instruction.size = 2;
    instruction.literal = bits(word, 0, 12);
    instruction.memory = MemoryBits {
        offen: bit(word, 12),
        idxen: bit(word, 13),
        glc: bit(word, 14),
        elsewhere: bit(word, 16),
        soffset: bits(second, 24, 8) as Operand,
    };
    instruction.src[0] = operand::VECTOR + bits(second, 0, 8) as Operand;
    instruction.src[1] = (bits(second, 16, 5) << 2) as Operand;
    instruction.dst = operand::VECTOR + bits(second, 8, 8) as Operand;
    Ok(instruction)
}

/// One more than the highest vector register of an instruction.
fn vgpr_end(instruction: &Instruction) -> u16 {
    let end = |operand: Operand, width: u8| {
        if width == 0 || operand < operand::VECTOR { 0 } else { operand - operand::VECTOR + u16::from(width) }
    };
    let widths = instruction.op.widths();
    let width = |index: usize| widths.get(index).copied().unwrap_or(0);
    let [first, second, third] = instruction.src;
    match instruction.encoding {
        Encoding::Vopc | Encoding::Vop3 if instruction.op == Op::VCmp => {
            let widths = instruction.compare.map_or([1, 1], Compare::widths);
            end(first, widths[0]).max(end(second, widths[1]))
        }
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vop3 => {
            let sources = end(first, width(1)).max(end(second, width(2))).max(end(third, width(3)));
            end(instruction.dst, width(0)).max(sources)
        }
        Encoding::Ds => end(instruction.dst, width(0))
            .max(end(first, 1))
            .max(end(second, width(1)))
            .max(end(third, width(2))),
        Encoding::Flat => end(instruction.dst, width(0)).max(end(first, 2)).max(end(second, width(1))),
        Encoding::Mubuf => {
            let address = u8::from(instruction.memory.offen) + u8::from(instruction.memory.idxen);
            end(instruction.dst, width(0)).max(end(first, address))
        }
        _ => 0,
    }
}
