//! The memory of a work group, and its instructions.

use crate::atomic::{Action, Atomic};
use crate::decode::{Instruction, operand};
use crate::fault::Cause;
use crate::opcodes::Op;
use crate::wave::{LANES, Vector, Wave, with_half};

/// The memory of a work group. What is out of range reads as 0 and is not written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lds(Vec<u8>);

impl Lds {
    pub(crate) fn new(size: usize) -> Self {
        Self(vec![0; size])
    }

    fn range(&mut self, at: u32, size: usize) -> Option<&mut [u8]> {
        let begin = at as usize;
        self.0.get_mut(begin..begin.checked_add(size)?)
    }

    pub(crate) fn read(&mut self, at: u32, bytes: &mut [u8]) {
        match self.range(at, bytes.len()) {
            Some(found) => bytes.copy_from_slice(found),
            None => bytes.fill(0),
        }
    }

    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) {
        if let Some(found) = self.range(at, bytes.len()) {
            found.copy_from_slice(bytes);
        }
    }

    /// One or two dwords.
    fn word(&mut self, at: u32, width: usize) -> u64 {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes[..width * 4]);
        u64::from_le_bytes(bytes)
    }

    fn set_word(&mut self, at: u32, width: usize, value: u64) {
        self.write(at, &value.to_le_bytes()[..width * 4]);
    }

    /// Updates a word; returns the old one.
    pub(crate) fn atomic(&mut self, at: u32, atomic: Atomic, value: u64, second: u64) -> u64 {
        let width = if atomic.is_wide { 2 } else { 1 };
        let old = self.word(at, width);
        self.set_word(at, width, atomic.apply(old, value, second));
        old
    }
}

/// The lane that `ds_swizzle` reads for `lane`.
fn swizzled(lane: usize, pattern: u32) -> usize {
    if pattern & 0x8000 != 0 {
        return lane & !3 | (pattern >> ((lane & 3) * 2) & 3) as usize;
    }
    let [and, or, xor] = [0, 5, 10].map(|from| (pattern >> from & 31) as usize);
    lane & 32 | (((lane & 31) & and) | or) ^ xor
}

impl Wave {
    pub(crate) fn execute_lds(&mut self, i: &Instruction, lds: &mut Lds) -> Result<(), Cause> {
        if i.memory.elsewhere {
            return Err(Cause::Unsupported);
        }
        match i.op {
            Op::DsNop => return Ok(()),
            Op::DsSwizzleB32 | Op::DsPermuteB32 | Op::DsBpermuteB32 => {
                self.between_lanes(i);
                return Ok(());
            }
            _ => {}
        }
        let exec = self.exec();
        if let Some((is_read, parts)) = dword_parts(i) {
            // A destination may be the register of the addresses.
            let bases = self.vgpr[usize::from(i.src[0] - operand::VECTOR)];
            for part in parts.into_iter().flatten() {
                self.lds_dwords(&bases, lds, is_read, part);
            }
            return Ok(());
        }
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            self.lds_lane(i, lds, lane)?;
        }
        Ok(())
    }

    /// Reads or writes consecutive dwords of each lane: what most kernels do with group memory.
    fn lds_dwords(&mut self, bases: &Vector<u32>, lds: &mut Lds, is_read: bool, part: Part) {
        let exec = self.exec();
        for index in 0..part.count {
            let offset = part.offset.wrapping_add(4 * index as u32);
            let values = &mut self.vgpr[part.register + index];
            for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
                let begin = bases[lane].wrapping_add(offset) as usize;
                let word = lds.0.get_mut(begin..begin + 4).and_then(|bytes| bytes.first_chunk_mut::<4>());
                match (word, is_read) {
                    (Some(word), true) => values[lane] = u32::from_le_bytes(*word),
                    (None, true) => values[lane] = 0,
                    (Some(word), false) => *word = values[lane].to_le_bytes(),
                    (None, false) => {}
                }
            }
        }
    }

    fn between_lanes(&mut self, i: &Instruction) {
        let exec = self.exec();
        let register = |operand: u16| usize::from(operand - operand::VECTOR);
        let is_active = |lane: usize| exec >> lane & 1 != 0;
        let first = self.vgpr[register(i.src[0])];
        let target = |lane: usize| (first[lane].wrapping_add(i.literal) / 4) as usize & 63;
        let mut values = [0; LANES];
        match i.op {
            Op::DsSwizzleB32 => {
                values = std::array::from_fn(|lane| {
                    let from = swizzled(lane, i.literal);
                    if is_active(from) { first[from] } else { 0 }
                });
            }
            Op::DsPermuteB32 => {
                let data = self.vgpr[register(i.src[1])];
                for lane in (0..LANES).filter(|&lane| is_active(lane)) {
                    values[target(lane)] = data[lane];
                }
            }
            _ => {
                let data = self.vgpr[register(i.src[1])];
                for lane in (0..LANES).filter(|&lane| is_active(target(lane))) {
                    values[lane] = data[target(lane)];
                }
            }
        }
        let dst = &mut self.vgpr[register(i.dst)];
        for lane in (0..LANES).filter(|&lane| is_active(lane)) {
            dst[lane] = values[lane];
        }
    }

    fn lds_lane(&mut self, i: &Instruction, lds: &mut Lds, lane: usize) -> Result<(), Cause> {
        let register = |operand: u16| usize::from(operand - operand::VECTOR);
        let base = self.vgpr[register(i.src[0])][lane];
        let at = base.wrapping_add(i.literal);
        let (dst, data, second) = (register(i.dst), register(i.src[1]), register(i.src[2]));
        if let Some(atomic) = i.atomic {
            let width = if atomic.is_wide { 2 } else { 1 };
            let value = self.lane(data, lane, width);
            let has_second = i.op.widths()[2] > 0;
            let other = if has_second { self.lane(second, lane, width) } else { 0 };
            // Here the word to compare with comes first.
            let (value, other) = match atomic.action {
                Action::Compare | Action::CompareFloat => (other, value),
                _ => (value, other),
            };
            let old = lds.atomic(at, atomic, value, other);
            if atomic.returns {
                self.set_lane(dst, lane, width, old);
            }
            return Ok(());
        }
        let pair = |unit: u32| {
            [i.literal & 255, i.literal >> 8 & 255].map(|offset| base.wrapping_add(offset * unit))
        };
        match i.op {
            Op::DsWrxchg2RtnB32 | Op::DsWrxchg2st64RtnB32 | Op::DsWrxchg2RtnB64 | Op::DsWrxchg2st64RtnB64 => {
                let (width, unit) = two(i.op);
                let values = [data, second].map(|register| self.lane(register, lane, width));
                for ((index, at), value) in pair(unit).into_iter().enumerate().zip(values) {
                    let old = lds.word(at, width);
                    lds.set_word(at, width, value);
                    self.set_lane(dst + index * width, lane, width, old);
                }
            }
            Op::DsReadU8 | Op::DsReadI8 | Op::DsReadU16 | Op::DsReadI16 => {
                self.vgpr[dst][lane] = read_part(lds, at, i.op);
            }
            Op::DsReadU8D16 | Op::DsReadI8D16 | Op::DsReadU16D16 => {
                let register = &mut self.vgpr[dst][lane];
                *register = with_half(*register, read_part(lds, at, i.op), false);
            }
            Op::DsReadU8D16Hi | Op::DsReadI8D16Hi | Op::DsReadU16D16Hi => {
                let register = &mut self.vgpr[dst][lane];
                *register = with_half(*register, read_part(lds, at, i.op), true);
            }
            Op::DsWriteB8D16Hi => lds.write(at, &[(self.vgpr[data][lane] >> 16) as u8]),
            Op::DsWriteB16D16Hi => lds.write(at, &((self.vgpr[data][lane] >> 16) as u16).to_le_bytes()),
            Op::DsWriteB8 => lds.write(at, &[self.vgpr[data][lane] as u8]),
            Op::DsWriteB16 => lds.write(at, &(self.vgpr[data][lane] as u16).to_le_bytes()),
            _ => return Err(Cause::Unsupported),
        }
        Ok(())
    }
}

/// Consecutive dwords of each lane: how far they are behind the lane's address, and in which registers.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u32,
    register: usize,
    count: usize,
}

/// The parts of an instruction that only reads or only writes whole dwords; whether it reads.
fn dword_parts(i: &Instruction) -> Option<(bool, [Option<Part>; 2])> {
    let register = |operand: u16| usize::from(operand - operand::VECTOR);
    let (is_read, count) = match i.op {
        Op::DsReadB32 | Op::DsRead2B32 | Op::DsRead2st64B32 => (true, 1),
        Op::DsReadB64 | Op::DsRead2B64 | Op::DsRead2st64B64 => (true, 2),
        Op::DsReadB96 => (true, 3),
        Op::DsReadB128 => (true, 4),
        Op::DsWriteB32 | Op::DsWrite2B32 | Op::DsWrite2st64B32 => (false, 1),
        Op::DsWriteB64 | Op::DsWrite2B64 | Op::DsWrite2st64B64 => (false, 2),
        Op::DsWriteB96 => (false, 3),
        Op::DsWriteB128 => (false, 4),
        _ => return None,
    };
    let first = register(if is_read { i.dst } else { i.src[1] });
    let is_double = matches!(
        i.op,
        Op::DsRead2B32
            | Op::DsRead2st64B32
            | Op::DsRead2B64
            | Op::DsRead2st64B64
            | Op::DsWrite2B32
            | Op::DsWrite2st64B32
            | Op::DsWrite2B64
            | Op::DsWrite2st64B64
    );
    if !is_double {
        return Some((is_read, [Some(Part { offset: i.literal, register: first, count }), None]));
    }
    let (_, unit) = two(i.op);
    let second = if is_read { first + count } else { register(i.src[2]) };
    let part = |offset: u32, register| Some(Part { offset: offset * unit, register, count });
    Some((is_read, [part(i.literal & 255, first), part(i.literal >> 8 & 255, second)]))
}

/// Dwords of each of two accesses, and the unit of their offsets in bytes.
fn two(op: Op) -> (usize, u32) {
    let name = op.name();
    let width = if name.ends_with("64") { 2 } else { 1 };
    (width, width as u32 * if name.contains("st64") { 256 } else { 4 })
}

/// A byte or word, extended.
fn read_part(lds: &mut Lds, at: u32, op: Op) -> u32 {
    let mut bytes = [0; 2];
    // The name has the type, before what happens with the rest of the register.
    let is_byte = op.name().contains('8');
    let size = if is_byte { 1 } else { 2 };
    lds.read(at, &mut bytes[..size]);
    let value = u16::from_le_bytes(bytes);
    match op {
        Op::DsReadI8 | Op::DsReadI8D16 | Op::DsReadI8D16Hi => i32::from(value as i8) as u32,
        Op::DsReadI16 => i32::from(value as i16) as u32,
        _ => u32::from(value),
    }
}
