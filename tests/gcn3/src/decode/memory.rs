//! Instructions of memory: SMEM, DS, FLAT and MUBUF.

use super::{
    DecodeError, Encoding, Instruction, Isa, MemoryBits, NONE, Operand, Segment, Tables, bit, bits, operand,
};
use crate::opcodes::{DS, DS_9, FLAT, FLAT_9, MUBUF, MUBUF_9, SMEM};

/// The lowest bits of a word, as a number with a sign.
fn signed(word: u32, count: u32) -> u32 {
    ((word << (32 - count)) as i32 >> (32 - count)) as u32
}

pub(super) fn smem(isa: Isa, word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = Tables(&SMEM, &NONE).decode(isa, Encoding::Smem, bits(word, 18, 8))?;
    instruction.size = 2;
    instruction.dst = bits(word, 6, 7) as Operand;
    instruction.src[0] = (bits(word, 0, 6) << 1) as Operand;
    let soffset = operand::NO_REGISTER;
    instruction.memory = MemoryBits { glc: bit(word, 16), soffset, ..MemoryBits::default() };
    match (isa, bit(word, 17), bit(word, 14)) {
        (Isa::Gfx8, true, _) => {
            instruction.literal = bits(second, 0, 20);
            instruction.src[1] = operand::LITERAL;
        }
        (Isa::Gfx9, true, has_register) => {
            instruction.literal = signed(second, 21);
            instruction.src[1] = operand::LITERAL;
            if has_register {
                instruction.memory.soffset = bits(second, 25, 7) as Operand;
            }
        }
        (Isa::Gfx9, false, true) => instruction.src[1] = bits(second, 25, 7) as Operand,
        _ => instruction.src[1] = bits(second, 0, 7) as Operand,
    }
    Ok(instruction)
}

pub(super) fn ds(isa: Isa, word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = Tables(&DS, &DS_9).decode(isa, Encoding::Ds, bits(word, 17, 8))?;
    instruction.size = 2;
    instruction.literal = bits(word, 0, 16);
    instruction.memory.elsewhere = bit(word, 16);
    instruction.src = [0, 8, 16].map(|from| operand::VECTOR + bits(second, from, 8) as Operand);
    instruction.dst = operand::VECTOR + bits(second, 24, 8) as Operand;
    Ok(instruction)
}

pub(super) fn flat(isa: Isa, word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = Tables(&FLAT, &FLAT_9).decode(isa, Encoding::Flat, bits(word, 18, 7))?;
    instruction.size = 2;
    instruction.memory.glc = bit(word, 16);
    instruction.src[0] = operand::VECTOR + bits(second, 0, 8) as Operand;
    instruction.src[1] = operand::VECTOR + bits(second, 8, 8) as Operand;
    instruction.dst = operand::VECTOR + bits(second, 24, 8) as Operand;
    match isa {
        // TFE: one more dword with the status of partly resident textures.
        Isa::Gfx8 if bit(second, 23) => return Err(DecodeError::Modifiers(instruction.op)),
        Isa::Gfx8 => {}
        Isa::Gfx9 => segment(&mut instruction, word, second)?,
    }
    Ok(instruction)
}

/// The memory that is meant, and what is added to the address.
fn segment(instruction: &mut Instruction, word: u32, second: u32) -> Result<(), DecodeError> {
    let segment = match bits(word, 14, 2) {
        0 => Segment::Flat,
        1 => Segment::Scratch,
        2 => Segment::Global,
        _ => return Err(DecodeError::Format("FLAT of an unknown segment")),
    };
    // With bit 13, data goes to LDS.
    if bit(word, 13) || (segment == Segment::Scratch && instruction.op.is_flat_atomic()) {
        return Err(DecodeError::Modifiers(instruction.op));
    }
    instruction.memory.segment = segment;
    if segment == Segment::Flat {
        instruction.literal = bits(word, 0, 12);
    } else {
        instruction.literal = signed(word, 13);
        let register = bits(second, 16, 7) as Operand;
        instruction.memory.saddr = (register != operand::NO_REGISTER).then_some(register);
    }
    Ok(())
}

pub(super) fn mubuf(isa: Isa, word: u32, second: u32) -> Result<Instruction, DecodeError> {
    let mut instruction = Tables(&MUBUF, &MUBUF_9).decode(isa, Encoding::Mubuf, bits(word, 18, 7))?;
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
        ..MemoryBits::default()
    };
    instruction.src[0] = operand::VECTOR + bits(second, 0, 8) as Operand;
    instruction.src[1] = (bits(second, 16, 5) << 2) as Operand;
    instruction.dst = operand::VECTOR + bits(second, 8, 8) as Operand;
    Ok(instruction)
}
