//! Instructions of memory: SMEM, FLAT and MUBUF.

use crate::atomic::Atomic;
use crate::decode::{Encoding, Instruction, Isa, Segment, operand};
use crate::fault::Cause;
use crate::lds::Lds;
use crate::memory::{Apertures, Memory, Unmapped};
use crate::opcodes::Op;
use crate::wave::{LANES, Vector, Wave, with_half};

/// The memories that a wave reaches.
pub(crate) struct Memories<'a> {
    pub(crate) memory: &'a mut dyn Memory,
    pub(crate) lds: &'a mut Lds,
    pub(crate) apertures: Apertures,
    /// Address of the queue's private memory.
    pub(crate) private_base: u64,
}

/// A word in one of the memories.
#[derive(Clone, Copy, Debug)]
enum Place {
    Memory(u64),
    Lds(u32),
}

impl Memories<'_> {
    fn read(&mut self, place: Place, bytes: &mut [u8]) -> Result<(), Unmapped> {
        match place {
            Place::Memory(address) => self.memory.read(address, bytes),
            Place::Lds(at) => {
                self.lds.read(at, bytes);
                Ok(())
            }
        }
    }

    fn write(&mut self, place: Place, bytes: &[u8]) -> Result<(), Unmapped> {
        match place {
            Place::Memory(address) => self.memory.write(address, bytes),
            Place::Lds(at) => {
                self.lds.write(at, bytes);
                Ok(())
            }
        }
    }

    fn atomic(&mut self, place: Place, atomic: Atomic, value: u64, second: u64) -> Result<u64, Unmapped> {
        match place {
            Place::Lds(at) => Ok(self.lds.atomic(at, atomic, value, second)),
            Place::Memory(address) if atomic.is_wide => {
                self.memory.update_u64(address, &mut |old| atomic.apply(old, value, second))
            }
            Place::Memory(address) => {
                let f = &mut |old| atomic.apply(u64::from(old), value, second) as u32;
                self.memory.update_u32(address, f).map(u64::from)
            }
        }
    }
}

/// What a load or store does with the value of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Bytes, and whether they are extended with their sign.
    Load(usize, bool),
    Store(usize),
    /// The same with half of a register, which is the upper one or not.
    LoadHalf(usize, bool, bool),
    StoreHigh(usize),
}

/// The access of a load or store that is no atomic.
fn access(op: Op) -> Option<Access> {
    let rest = op.name().strip_prefix("flat_").or_else(|| op.name().strip_prefix("buffer_"))?;
    Some(match rest {
        "load_ubyte" => Access::Load(1, false),
        "load_sbyte" => Access::Load(1, true),
        "load_ushort" => Access::Load(2, false),
        "load_sshort" => Access::Load(2, true),
        "load_dword" => Access::Load(4, false),
        "load_dwordx2" => Access::Load(8, false),
        "load_dwordx3" => Access::Load(12, false),
        "load_dwordx4" => Access::Load(16, false),
        "store_byte" => Access::Store(1),
        "store_short" => Access::Store(2),
        "store_dword" => Access::Store(4),
        "store_dwordx2" => Access::Store(8),
        "store_dwordx3" => Access::Store(12),
        "store_dwordx4" => Access::Store(16),
        "load_ubyte_d16" => Access::LoadHalf(1, false, false),
        "load_ubyte_d16_hi" => Access::LoadHalf(1, false, true),
        "load_sbyte_d16" => Access::LoadHalf(1, true, false),
        "load_sbyte_d16_hi" => Access::LoadHalf(1, true, true),
        "load_short_d16" => Access::LoadHalf(2, false, false),
        "load_short_d16_hi" => Access::LoadHalf(2, false, true),
        "store_byte_d16_hi" => Access::StoreHigh(1),
        "store_short_d16_hi" => Access::StoreHigh(2),
        _ => return None,
    })
}

impl Access {
    /// Bytes of a lane.
    fn size(self) -> usize {
        let (Self::Load(size, _) | Self::Store(size) | Self::LoadHalf(size, ..) | Self::StoreHigh(size)) =
            self;
        size
    }

    fn is_store(self) -> bool {
        matches!(self, Self::Store(_) | Self::StoreHigh(_))
    }
}

/// The dwords of loaded bytes.
fn dwords(bytes: [u8; 16], count: usize, is_signed: bool) -> [u32; 4] {
    let (words, _) = bytes.as_chunks::<4>();
    let mut dwords = [0; 4];
    for (dword, &word) in dwords.iter_mut().zip(words) {
        *dword = u32::from_le_bytes(word);
    }
    match (count, is_signed) {
        (1, true) => dwords[0] = i32::from(bytes[0] as i8) as u32,
        (2, true) => dwords[0] = i32::from(dwords[0] as i16) as u32,
        _ => {}
    }
    dwords
}

impl Wave {
    /// Executes an instruction of memory.
    pub(crate) fn execute_memory(
        &mut self,
        instruction: &Instruction,
        memories: &mut Memories<'_>,
    ) -> Result<(), Cause> {
        match instruction.encoding {
            Encoding::Smem => self.smem(instruction, memories),
            Encoding::Flat => self.flat(instruction, memories),
            _ => self.mubuf(instruction, memories),
        }
    }

    fn smem(&mut self, i: &Instruction, memories: &mut Memories<'_>) -> Result<(), Cause> {
        match i.op {
            Op::SDcacheInv
            | Op::SDcacheWb
            | Op::SDcacheInvVol
            | Op::SDcacheWbVol
            | Op::SAtcProbe
            | Op::SAtcProbeBuffer => return Ok(()),
            Op::SMemtime | Op::SMemrealtime => {
                let now = memories.memory.clock();
                self.set_pair(i.dst, now);
                return Ok(());
            }
            _ => {}
        }
        let widths = i.op.widths();
        let offset = self.scalar_offset(i)?;
        let is_buffer = widths[1] == 4;
        let mask = if is_buffer { 0xffff_ffff_ffff } else { u64::MAX };
        let address = (self.pair(i.src[0]) & mask).wrapping_add(offset) & !3;
        let limit = if is_buffer { self.buffer_size(i.src[0]) } else { u64::MAX };
        let is_store = i.op.name().contains("store");
        for index in 0..u16::from(widths[0]) {
            let at = address.wrapping_add(u64::from(index) * 4);
            let is_inside = offset.saturating_add(u64::from(index) * 4 + 4) <= limit;
            let register = i.dst.wrapping_add(index);
            if register > operand::EXEC + 1 {
                return Err(Cause::Operand(register));
            }
            if is_store {
                if is_inside {
                    memories.memory.write_u32(at, self.sgpr[usize::from(register)])?;
                }
            } else {
                let value = if is_inside { memories.memory.read_u32(at)? } else { 0 };
                self.set(register, value);
            }
        }
        Ok(())
    }

    /// The offset of SMEM. The immediate of gfx9 has a sign, and a register may be beside it.
    fn scalar_offset(&self, i: &Instruction) -> Result<u64, Cause> {
        if i.isa == Isa::Gfx8 || i.src[1] != operand::LITERAL {
            return self.scalar(i, i.src[1]).map(u64::from);
        }
        let beside = match i.memory.soffset {
            operand::NO_REGISTER => 0,
            register => self.scalar(i, register)?,
        };
        Ok(u64::from(beside).wrapping_add_signed(i64::from(i.literal as i32)))
    }

    /// Bytes of the buffer that a resource describes.
    fn buffer_size(&self, resource: u16) -> u64 {
        let records = u64::from(self.sgpr[usize::from(resource + 2) & 127]);
        let stride = u64::from(self.sgpr[usize::from(resource + 1) & 127] >> 16 & 0x3fff);
        records * stride.max(1)
    }

    /// Where the wave's private memory begins.
    fn private(&self, isa: Isa, memories: &Memories<'_>) -> u64 {
        match isa {
            // In units of 256 bytes behind the queue's.
            Isa::Gfx8 => memories.private_base.wrapping_add(u64::from(self.sgpr[103]) << 8),
            Isa::Gfx9 => self.pair(102),
        }
    }

    /// The lanes' addresses, as lower and upper halves; of private memory only the lower ones count.
    fn addresses(&self, i: &Instruction) -> Result<(Vector<u32>, Vector<u32>), Cause> {
        let at = usize::from(i.src[0] - operand::VECTOR);
        let (base, has_upper) = match (i.memory.segment, i.memory.saddr) {
            (Segment::Flat, _) | (Segment::Global, None) => (0, true),
            (Segment::Global, Some(register)) => (self.scalar_64(i, register)?, false),
            (Segment::Scratch, Some(register)) => {
                let low = self.scalar(i, register)?.wrapping_add(i.literal);
                return Ok(([low; LANES], [0; LANES]));
            }
            (Segment::Scratch, None) => (0, false),
        };
        let low = self.vgpr[at];
        let high = if has_upper { self.vgpr[at + 1] } else { [0; LANES] };
        let offset = base.wrapping_add_signed(i64::from(i.literal as i32));
        if offset == 0 {
            return Ok((low, high));
        }
        let sum: [u64; LANES] = std::array::from_fn(|lane| {
            (u64::from(low[lane]) | u64::from(high[lane]) << 32).wrapping_add(offset)
        });
        Ok((sum.map(|sum| sum as u32), sum.map(|sum| (sum >> 32) as u32)))
    }

    fn flat(&mut self, i: &Instruction, memories: &mut Memories<'_>) -> Result<(), Cause> {
        let (low, high) = self.addresses(i)?;
        let segment = i.memory.segment;
        if segment != Segment::Scratch && self.flat_in_one(i, memories, &low, &high)? {
            return Ok(());
        }
        let apertures = memories.apertures;
        let private = self.private(i.isa, memories);
        let is_private = |lane: usize| match segment {
            Segment::Flat => high[lane] == apertures.private,
            Segment::Scratch => true,
            Segment::Global => false,
        };
        let place = |lane: usize, at: u32| {
            if is_private(lane) {
                return Place::Memory(swizzled_private(private, low[lane].wrapping_add(at), lane));
            }
            if segment == Segment::Flat && high[lane] == apertures.group {
                return Place::Lds(low[lane].wrapping_add(at));
            }
            let address = u64::from(low[lane]) | u64::from(high[lane]) << 32;
            Place::Memory(address.wrapping_add(u64::from(at)))
        };
        if let Some(atomic) = i.atomic {
            let (data, dst) = (i.src[1], i.memory.glc.then_some(i.dst));
            return self.atomic(atomic, memories, data, dst, |lane| Some(place(lane, 0)));
        }
        let (data, access) = (i.src[1], access(i.op).ok_or(Cause::Unsupported)?);
        let register = if access.is_store() { data } else { i.dst };
        self.access(access, memories, register, is_private, |lane, at| Some(place(lane, at)))
    }

    /// The frequent case: all lanes, consecutive dwords, memory. Says whether it was that.
    fn flat_in_one(
        &mut self,
        i: &Instruction,
        memories: &mut Memories<'_>,
        low: &Vector<u32>,
        high: &Vector<u32>,
    ) -> Result<bool, Cause> {
        let is_load = match i.op {
            Op::FlatLoadDword => true,
            Op::FlatStoreDword => false,
            _ => return Ok(false),
        };
        let first = low[0];
        let apertures = memories.apertures;
        let is_regular = self.exec() == u64::MAX
            && first <= u32::MAX - 256
            && high[0] != apertures.group
            && high[0] != apertures.private
            && high.iter().all(|&upper| upper == high[0])
            && low.iter().enumerate().all(|(lane, &low)| low == first.wrapping_add(4 * lane as u32));
        if !is_regular {
            return Ok(false);
        }
        let address = u64::from(first) | u64::from(high[0]) << 32;
        let mut bytes = [0; 4 * LANES];
        let register = if is_load { i.dst } else { i.src[1] };
        let values = &mut self.vgpr[usize::from(register - operand::VECTOR)];
        if is_load {
            memories.memory.read(address, &mut bytes)?;
            for (value, &word) in values.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = u32::from_le_bytes(word);
            }
        } else {
            for (&value, word) in values.iter().zip(bytes.as_chunks_mut::<4>().0) {
                *word = value.to_le_bytes();
            }
            memories.memory.write(address, &bytes)?;
        }
        Ok(true)
    }

    /// Loads or stores the lanes of EXEC. `is_split`: the lane's dwords do not follow each other. A lane without a place is out of
    /// range: it loads 0 and stores nothing.
    fn access(
        &mut self,
        access: Access,
        memories: &mut Memories<'_>,
        register: u16,
        is_split: impl Fn(usize) -> bool,
        place: impl Fn(usize, u32) -> Option<Place>,
    ) -> Result<(), Cause> {
        let exec = self.exec();
        let first = usize::from(register - operand::VECTOR);
        let size = access.size();
        let count = size.div_ceil(4);
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let mut bytes = [0; 16];
            let step = if is_split(lane) { 4.min(size) } else { size };
            if let Access::Load(_, is_signed) | Access::LoadHalf(_, is_signed, _) = access {
                for at in (0..size).step_by(step) {
                    if let Some(place) = place(lane, at as u32) {
                        memories.read(place, &mut bytes[at..at + step])?;
                    }
                }
                let values = dwords(bytes, size, is_signed);
                if let Access::LoadHalf(.., is_high) = access {
                    let register = &mut self.vgpr[first][lane];
                    *register = with_half(*register, values[0], is_high);
                    continue;
                }
                for (index, value) in values.into_iter().take(count).enumerate() {
                    self.vgpr[first + index][lane] = value;
                }
            } else {
                for (index, word) in bytes.as_chunks_mut::<4>().0.iter_mut().take(count).enumerate() {
                    let value = self.vgpr[first + index][lane];
                    let is_high = matches!(access, Access::StoreHigh(_));
                    *word = (if is_high { value >> 16 } else { value }).to_le_bytes();
                }
                for at in (0..size).step_by(step) {
                    if let Some(place) = place(lane, at as u32) {
                        memories.write(place, &bytes[at..at + step])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Updates the words of the lanes of EXEC, one lane after the other.
    fn atomic(
        &mut self,
        atomic: Atomic,
        memories: &mut Memories<'_>,
        data: u16,
        dst: Option<u16>,
        place: impl Fn(usize) -> Option<Place>,
    ) -> Result<(), Cause> {
        let exec = self.exec();
        let width = if atomic.is_wide { 2 } else { 1 };
        let data = usize::from(data - operand::VECTOR);
        let second = data + width;
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let value = self.lane(data, lane, width);
            let is_compare = atomic.action == crate::atomic::Action::Compare;
            let expected = if is_compare { self.lane(second, lane, width) } else { 0 };
            let old = match place(lane) {
                Some(place) => memories.atomic(place, atomic, value, expected)?,
                None => 0,
            };
            if let Some(dst) = dst {
                self.set_lane(usize::from(dst - operand::VECTOR), lane, width, old);
            }
        }
        Ok(())
    }

    /// The value of one lane in one or two registers.
    pub(crate) fn lane(&self, register: usize, lane: usize, width: usize) -> u64 {
        let low = u64::from(self.vgpr[register][lane]);
        if width == 2 { low | u64::from(self.vgpr[register + 1][lane]) << 32 } else { low }
    }

    pub(crate) fn set_lane(&mut self, register: usize, lane: usize, width: usize, value: u64) {
        self.vgpr[register][lane] = value as u32;
        if width == 2 {
            self.vgpr[register + 1][lane] = (value >> 32) as u32;
        }
    }

    fn mubuf(&mut self, i: &Instruction, memories: &mut Memories<'_>) -> Result<(), Cause> {
        if matches!(i.op, Op::BufferWbinvl1 | Op::BufferWbinvl1Vol) {
            return Ok(());
        }
        if i.memory.elsewhere {
            return Err(Cause::Unsupported);
        }
        let buffer = Buffer::of(self, i)?;
        let address = usize::from(i.src[0] - operand::VECTOR);
        let (indices, offsets) = match (i.memory.idxen, i.memory.offen) {
            (true, true) => (self.vgpr[address], self.vgpr[address + 1]),
            (true, false) => (self.vgpr[address], [0; LANES]),
            (false, true) => ([0; LANES], self.vgpr[address]),
            (false, false) => ([0; LANES], [0; LANES]),
        };
        let literal = i.literal;
        if let Some(atomic) = i.atomic {
            let size = if atomic.is_wide { 8 } else { 4 };
            let dst = i.memory.glc.then_some(i.dst);
            return self.atomic(atomic, memories, i.dst, dst, |lane| {
                let offset = offsets[lane].wrapping_add(literal);
                buffer.address(lane, indices[lane], offset, size).map(Place::Memory)
            });
        }
        let access = access(i.op).ok_or(Cause::Unsupported)?;
        let size = access.size();
        let size = if buffer.is_swizzled { size.min(4) } else { size };
        self.access(
            access,
            memories,
            i.dst,
            |_| buffer.is_swizzled,
            |lane, at| {
                let offset = offsets[lane].wrapping_add(literal).wrapping_add(at);
                buffer.address(lane, indices[lane], offset, size as u64).map(Place::Memory)
            },
        )
    }
}

/// The byte of a lane's private memory: dwords of the lanes of a wave lie side by side.
fn swizzled_private(base: u64, at: u32, lane: usize) -> u64 {
    let at = u64::from(at);
    base.wrapping_add(at / 4 * 4 * LANES as u64).wrapping_add(lane as u64 * 4 + at % 4)
}

/// A buffer that MUBUF names, from its resource of four dwords.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    base: u64,
    stride: u64,
    records: u64,
    is_swizzled: bool,
    element_size: u64,
    index_stride: u64,
    adds_lane: bool,
    scalar_offset: u64,
}

impl Buffer {
    fn of(wave: &Wave, i: &Instruction) -> Result<Self, Cause> {
        let word = |index: u16| wave.sgpr[usize::from(i.src[1] + index) & 127];
        let adds_lane = word(3) >> 23 & 1 != 0;
        let stride = u64::from(word(1) >> 16 & 0x3fff);
        Ok(Self {
            base: u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32,
            // With the lane as index, the data format has the stride's upper bits.
            stride: if adds_lane { stride | u64::from(word(3) >> 15 & 15) << 14 } else { stride },
            records: u64::from(word(2)),
            is_swizzled: word(1) >> 31 != 0,
            // Of gfx9, elements have four bytes, and these bits mean something else.
            element_size: if i.isa == Isa::Gfx8 { 2 << (word(3) >> 19 & 3) } else { 4 },
            index_stride: 8 << (word(3) >> 21 & 3),
            adds_lane,
            scalar_offset: u64::from(wave.scalar(i, i.memory.soffset)?),
        })
    }

    /// Address of a lane's element of `size` bytes; none if it is out of range.
    fn address(&self, lane: usize, index: u32, offset: u32, size: u64) -> Option<u64> {
        let index = u64::from(index) + if self.adds_lane { lane as u64 } else { 0 };
        let offset = u64::from(offset);
        let at = if self.is_swizzled {
            if self.stride != 0 && index >= self.records {
                return None;
            }
            let row =
                index / self.index_stride * self.stride + offset / self.element_size * self.element_size;
            row.wrapping_mul(self.index_stride)
                .wrapping_add(index % self.index_stride * self.element_size)
                .wrapping_add(offset % self.element_size)
        } else {
            let at = index.wrapping_mul(self.stride).wrapping_add(offset);
            let limit = self.records.saturating_sub(self.scalar_offset);
            if at.saturating_add(size) > limit && self.records != u64::from(u32::MAX) {
                return None;
            }
            at
        };
        Some(self.base.wrapping_add(self.scalar_offset).wrapping_add(at))
    }
}
