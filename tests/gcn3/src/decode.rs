//! From dwords to instructions.

mod memory;
mod vector;

use self::memory::{ds, flat, mubuf, smem};
pub(crate) use self::vector::{has_carry_in, has_carry_out};
use self::vector::{vop, vop3, vop3p};
use crate::atomic::Atomic;
use crate::compare::Compare;
use crate::opcodes::{Op, SOP1, SOP1_9, SOP2, SOP2_9, SOPC, SOPK, SOPK_9, SOPP, Table};

/// Generation of the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// GCN3: gfx803.
    Gfx8,
    /// Vega: gfx900.
    Gfx9,
}

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
    pub(crate) const GROUP_BASE: Operand = 235;
    pub(crate) const PRIVATE_BASE: Operand = 237;
    pub(crate) const VCCZ: Operand = 251;
    pub(crate) const EXECZ: Operand = 252;
    pub(crate) const SCC: Operand = 253;
    /// Where no scalar register is named.
    pub(crate) const NO_REGISTER: Operand = 127;
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
    Vop3p,
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
    /// Halves of dwords, of gfx9. A bit for each source, then one for the destination.
    Halves {
        /// The source is an upper half; the result is one.
        low: u8,
        /// Of an operation on two halves: the upper result comes from an upper half.
        high: u8,
        /// The same with the sign of that source turned.
        negates_high: u8,
    },
}

/// Which memory a flat instruction of gfx9 means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segment {
    /// Its address says.
    #[default]
    Flat,
    /// Private memory.
    Scratch,
    /// Global memory.
    Global,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Generation that it was decoded for.
    pub isa: Isa,
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
    /// MUBUF: the scalar offset. SMEM of gfx9: one beside the immediate.
    pub soffset: Operand,
    /// FLAT of gfx9: the memory that is meant.
    pub segment: Segment,
    /// FLAT of gfx9: a scalar address.
    pub saddr: Option<Operand>,
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
pub fn decode(isa: Isa, words: &[u32]) -> Result<Instruction, DecodeError> {
    let &[word, ..] = words else { return Err(DecodeError::Short(0)) };
    let second = words.get(1).copied().ok_or(DecodeError::Short(word));
    let mut instruction = match word >> 26 {
        0b11_0000 => smem(isa, word, second?),
        0b11_0100 if isa == Isa::Gfx9 && word >> 23 & 7 == 0b111 => vop3p(word, second?),
        0b11_0100 => vop3(isa, word, second?),
        0b11_0110 => ds(isa, word, second?),
        0b11_0111 => flat(isa, word, second?),
        0b11_1000 => mubuf(isa, word, second?),
        0b11_0001 => Err(DecodeError::Format("EXP")),
        0b11_0101 => Err(DecodeError::Format("VINTRP")),
        0b11_1010 => Err(DecodeError::Format("MTBUF")),
        0b11_1100 => Err(DecodeError::Format("MIMG")),
        _ if word >> 31 == 0 => vop(isa, word, second),
        _ if word >> 30 == 0b10 => sop(isa, word, second),
        _ => Err(DecodeError::Format("an unknown format")),
    }?;
    instruction.vgpr_end = vgpr_end(&instruction);
    instruction.atomic = Atomic::of(instruction.op);
    Ok(instruction)
}

/// An encoding's operations of GCN3, and what gfx9 has beside or instead of them.
#[derive(Clone, Copy)]
struct Tables(&'static Table, &'static Table);

/// Where there is nothing.
static NONE: Table = [None; 256];

impl Tables {
    fn op(self, isa: Isa, code: u32) -> Option<Op> {
        let of = |table: &Table| table.get(code as usize).copied().flatten();
        match isa {
            Isa::Gfx8 => of(self.0),
            Isa::Gfx9 => of(self.1).or_else(|| of(self.0).filter(|&op| !is_gone(op))),
        }
    }

    fn decode(self, isa: Isa, encoding: Encoding, code: u32) -> Result<Instruction, DecodeError> {
        let op = self.op(isa, code).ok_or(DecodeError::Code { encoding, code })?;
        Ok(blank(isa, op, encoding))
    }
}

/// Operations that gfx9 does not have any more.
fn is_gone(op: Op) -> bool {
    matches!(op, Op::VMovreldB32 | Op::VMovrelsB32 | Op::VMovrelsdB32)
}

fn blank(isa: Isa, op: Op, encoding: Encoding) -> Instruction {
    Instruction {
        isa,
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

fn sop(isa: Isa, word: u32, second: Result<u32, DecodeError>) -> Result<Instruction, DecodeError> {
    let dst = bits(word, 16, 7) as Operand;
    let sources = [bits(word, 0, 8) as Operand, bits(word, 8, 8) as Operand, 0];
    match word >> 23 {
        0b1_0111_1101 => {
            let mut instruction = Tables(&SOP1, &SOP1_9).decode(isa, Encoding::Sop1, bits(word, 8, 8))?;
            instruction.dst = dst;
            instruction.src[0] = sources[0];
            with_literal(instruction, second)
        }
        0b1_0111_1110 => {
            let mut instruction = Tables(&SOPC, &NONE).decode(isa, Encoding::Sopc, bits(word, 16, 7))?;
            instruction.src = sources;
            if instruction.op == Op::SSetGprIdxOn {
                return Ok(instruction);
            }
            with_literal(instruction, second)
        }
        0b1_0111_1111 => {
            let mut instruction = Tables(&SOPP, &NONE).decode(isa, Encoding::Sopp, bits(word, 16, 7))?;
            instruction.literal = bits(word, 0, 16);
            Ok(instruction)
        }
        _ if word >> 28 == 0b1011 => {
            let mut instruction = Tables(&SOPK, &SOPK_9).decode(isa, Encoding::Sopk, bits(word, 23, 5))?;
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
            let mut instruction = Tables(&SOP2, &SOP2_9).decode(isa, Encoding::Sop2, bits(word, 23, 7))?;
            instruction.dst = dst;
            instruction.src = sources;
            with_literal(instruction, second)
        }
    }
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
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vop3 | Encoding::Vop3p => {
            let sources = end(first, width(1)).max(end(second, width(2))).max(end(third, width(3)));
            end(instruction.dst, width(0)).max(sources)
        }
        Encoding::Ds => end(instruction.dst, width(0))
            .max(end(first, 1))
            .max(end(second, width(1)))
            .max(end(third, width(2))),
        Encoding::Flat => {
            let address = instruction.vector_address_width();
            end(instruction.dst, width(0)).max(end(first, address)).max(end(second, width(1)))
        }
        Encoding::Mubuf => {
            let address = u8::from(instruction.memory.offen) + u8::from(instruction.memory.idxen);
            end(instruction.dst, width(0)).max(end(first, address))
        }
        _ => 0,
    }
}

impl Instruction {
    /// Dwords of the vector address of a flat instruction.
    pub(crate) fn vector_address_width(&self) -> u8 {
        match (self.memory.segment, self.memory.saddr) {
            (Segment::Flat, _) | (Segment::Global, None) => 2,
            (Segment::Global, Some(_)) | (Segment::Scratch, None) => 1,
            (Segment::Scratch, Some(_)) => 0,
        }
    }
}
