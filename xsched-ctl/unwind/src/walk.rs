//! Walks a stack that has been copied out of a process, step by step as the BPF program does in the process itself.

use xsched_abi::unwind::{Registers, Step, Stop, step};

use crate::table::Table;

/// A copy of part of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'bytes> {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes from there upwards.
    pub bytes: &'bytes [u8],
}

impl Snapshot<'_> {
    /// The eight bytes at an address. None if any of them is not in the copy.
    pub fn word(&self, address: u64) -> Option<u64> {
        let inside = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(inside..)?.first_chunk().map(|&word| u64::from_le_bytes(word))
    }
}

/// One frame of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its registers.
    pub registers: Registers,
    /// Whether `rip` is a return address: the instruction after the call, which may belong to the next function.
    pub is_return_address: bool,
}

impl Frame {
    /// An address within the instruction that this frame is at: what to look up.
    pub fn address(&self) -> u64 {
        self.registers.rip.wrapping_sub(u64::from(self.is_return_address))
    }
}

/// Why a walk went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The outermost frame was reached.
    Outermost,
    /// The caller cannot be found.
    Stopped(Stop),
    /// No table covers the last frame's address.
    NoTable,
    /// The walk has as many frames as were asked for.
    Depth,
}

/// The frames of a stack, innermost first, and why it has no more of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Never empty: the first has the registers that the walk began with.
    pub frames: Vec<Frame>,
    /// Why it ended.
    pub end: End,
}

/// Walks from the registers of a thread that is not inside a call, that is from an instruction about to be executed.
///
/// `lookup` finds the table of the file that is mapped at an address, and its bias ([`Table::bias`]).
pub fn walk<'table>(
    registers: Registers,
    depth_max: usize,
    mut lookup: impl FnMut(u64) -> Option<(&'table Table, u64)>,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Walk {
    let mut frame = Frame { registers, is_return_address: false };
    let mut frames = vec![frame];
    let end = loop {
        let address = frame.address();
        let Some((table, bias)) = lookup(address) else { break End::NoTable };
        let Some(row) = table.row_at(address.wrapping_sub(bias)) else { break End::Stopped(Stop::Gap) };
        frame = match step(&row, &frame.registers, &mut read) {
            Step::Caller(registers) => Frame { registers, is_return_address: true },
            Step::Interrupted(registers) => Frame { registers, is_return_address: false },
            Step::End => break End::Outermost,
            Step::Stop(stop) => break End::Stopped(stop),
        };
        if frames.len() >= depth_max {
            break End::Depth;
        }
        frames.push(frame);
    };
    Walk { frames, end }
}
