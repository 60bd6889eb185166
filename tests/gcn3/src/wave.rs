//! One wave: its registers, and how operands are read.

use crate::decode::{Instruction, Isa, Operand, operand};
use crate::fault::Cause;
use crate::memory::Apertures;

/// Lanes of a wave.
pub(crate) const LANES: usize = 64;

/// A vector register, or the values of an operand.
pub(crate) type Vector<T> = [T; LANES];

/// Whether a wave can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Runs,
    /// Gives others a chance: it sleeps.
    Sleeps,
    AtBarrier,
    Ended,
}

/// The MODE register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode(pub(crate) u32);

impl Mode {
    /// Rounding of single precision: 0 to nearest, 1 up, 2 down, 3 to zero.
    pub(crate) fn round_32(self) -> u8 {
        (self.0 & 3) as u8
    }

    /// Rounding of half and double precision.
    pub(crate) fn round_16_64(self) -> u8 {
        (self.0 >> 2 & 3) as u8
    }

    /// Whether denormal operands count as 0: of single, or of half and double precision.
    pub(crate) fn flushes_in_32(self) -> bool {
        self.0 & 0x10 == 0
    }

    pub(crate) fn flushes_out_32(self) -> bool {
        self.0 & 0x20 == 0
    }

    pub(crate) fn flushes_in_16_64(self) -> bool {
        self.0 & 0x40 == 0
    }

    pub(crate) fn flushes_out_16_64(self) -> bool {
        self.0 & 0x80 == 0
    }

    /// Whether a clamped NaN becomes 0.
    pub(crate) fn clamps_nan(self) -> bool {
        self.0 & 0x100 != 0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Wave {
    /// Scalar registers by operand code, with VCC, M0 and EXEC among them.
    pub(crate) sgpr: [u32; 128],
    pub(crate) vgpr: Vec<Vector<u32>>,
    pub(crate) scc: bool,
    pub(crate) mode: Mode,
    /// Address of the next instruction.
    pub(crate) pc: u64,
    pub(crate) progress: Progress,
    /// Ranges of flat addresses that are not memory, which gfx9 has as operands.
    pub(crate) apertures: Apertures,
    /// Its number in the group.
    pub(crate) index: u32,
    /// Instructions so far.
    pub(crate) executed: u64,
}

impl Wave {
    pub(crate) fn new(vgprs: usize, mode: u32, pc: u64, index: u32, apertures: Apertures) -> Self {
        Self {
            sgpr: [0; 128],
            vgpr: vec![[0; LANES]; vgprs],
            scc: false,
            mode: Mode(mode),
            pc,
            progress: Progress::Runs,
            apertures,
            index,
            executed: 0,
        }
    }

    pub(crate) fn pair(&self, first: Operand) -> u64 {
        let first = usize::from(first & 127);
        u64::from(self.sgpr[first]) | u64::from(self.sgpr[(first + 1) & 127]) << 32
    }

    pub(crate) fn set_pair(&mut self, first: Operand, value: u64) {
        let first = usize::from(first & 127);
        self.sgpr[first] = value as u32;
        self.sgpr[(first + 1) & 127] = (value >> 32) as u32;
    }

    pub(crate) fn set(&mut self, register: Operand, value: u32) {
        self.sgpr[usize::from(register & 127)] = value;
    }

    pub(crate) fn exec(&self) -> u64 {
        self.pair(operand::EXEC)
    }

    pub(crate) fn vcc(&self) -> u64 {
        self.pair(operand::VCC)
    }

    pub(crate) fn m0(&self) -> u32 {
        self.sgpr[usize::from(operand::M0)]
    }

    /// A scalar operand of one dword. Inline floats are of single precision.
    pub(crate) fn scalar(&self, instruction: &Instruction, operand: Operand) -> Result<u32, Cause> {
        Ok(match operand {
            0..=127 => self.sgpr[usize::from(operand)],
            128..=208 => small_integer(operand) as u32,
            240..=248 => inline_float(operand).0,
            operand::VCCZ => u32::from(self.vcc() == 0),
            operand::EXECZ => u32::from(self.exec() == 0),
            operand::SCC => u32::from(self.scc),
            operand::LITERAL => instruction.literal,
            _ => return Err(Cause::Operand(operand)),
        })
    }

    /// A scalar operand of two dwords that is an integer or a mask. A literal is extended with zeros.
    pub(crate) fn scalar_64(&self, instruction: &Instruction, operand: Operand) -> Result<u64, Cause> {
        Ok(match operand {
            0..=127 => self.pair(operand),
            128..=208 => i64::from(small_integer(operand)) as u64,
            240..=248 => inline_float(operand).1,
            operand::GROUP_BASE if instruction.isa == Isa::Gfx9 => u64::from(self.apertures.group) << 32,
            operand::PRIVATE_BASE if instruction.isa == Isa::Gfx9 => u64::from(self.apertures.private) << 32,
            _ => u64::from(self.scalar(instruction, operand)?),
        })
    }
}

/// The inline constants from 0 to 64 and from -1 to -16.
fn small_integer(operand: Operand) -> i32 {
    if operand <= 192 { i32::from(operand) - 128 } else { 192 - i32::from(operand) }
}

/// The inline floats in single, double and half precision.
pub(crate) fn inline_float(operand: Operand) -> (u32, u64, u16) {
    match operand {
        240 => (0.5_f32.to_bits(), 0.5_f64.to_bits(), 0x3800),
        241 => ((-0.5_f32).to_bits(), (-0.5_f64).to_bits(), 0xb800),
        242 => (1.0_f32.to_bits(), 1.0_f64.to_bits(), 0x3c00),
        243 => ((-1.0_f32).to_bits(), (-1.0_f64).to_bits(), 0xbc00),
        244 => (2.0_f32.to_bits(), 2.0_f64.to_bits(), 0x4000),
        245 => ((-2.0_f32).to_bits(), (-2.0_f64).to_bits(), 0xc000),
        246 => (4.0_f32.to_bits(), 4.0_f64.to_bits(), 0x4400),
        247 => ((-4.0_f32).to_bits(), (-4.0_f64).to_bits(), 0xc400),
        // One over two pi, as the ISA rounds it.
        _ => (0x3e22_f983, 0x3fc4_5f30_6dc9_c882, 0x3118),
    }
}

/// A dword with one of its halves replaced.
pub(crate) fn with_half(old: u32, half: u32, is_high: bool) -> u32 {
    if is_high { old & 0xffff | half << 16 } else { old & 0xffff_0000 | half & 0xffff }
}

/// A mask of lanes from a predicate.
pub(crate) fn mask(holds: impl Fn(usize) -> bool) -> u64 {
    (0..LANES).fold(0, |mask, lane| mask | u64::from(holds(lane)) << lane)
}
