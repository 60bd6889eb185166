//! Walks a copied stack, with the same steps as the BPF program in the process itself.

use xsched_abi::unwind::{Registers, Step, Stop, step};

use crate::table::Table;

/// A copy of part of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'bytes> {
    /// The address of the first byte.
    pub address: u64,
    /// The bytes from there upwards.
    pub bytes: &'bytes [u8],
}

impl Snapshot<'_> {
    /// The eight bytes at an address. None unless all of them are in the copy.
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
    /// An address inside the frame's current instruction, for lookups.
    pub fn address(&self) -> u64 {
        self.registers.rip.wrapping_sub(u64::from(self.is_return_address))
    }
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The outermost frame was reached.
    Outermost,
    /// The caller cannot be found.
    Stopped(Stop),
    /// No table covers the last frame's address.
    NoTable,
    /// The walk has the requested number of frames.
    Depth,
}

/// The frames of a stack, innermost first, and why the walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Never empty: the first frame has the registers at which the walk began.
    pub frames: Vec<Frame>,
    /// Why the walk ended.
    pub end: End,
}

/// Walks from the registers of a thread at an instruction that it has not executed yet.
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

#[cfg(test)]
mod tests {
    use xsched_abi::unwind::{RBP_UNCHANGED, Row, Rule};

    use super::*;
    use crate::table::TableId;

    const BIAS: u64 = 0x7f00_0000_0000;
    const STACK: u64 = 0x7ffc_0000_0000;

    /// Two adjacent functions, with frames of 16 and 8 bytes; then one with a signal frame, then `_start`.
    fn table() -> Table {
        let row = |pc_low, rule, offset| Row::new(pc_low, rule, offset, RBP_UNCHANGED);
        let rows = vec![
            row(0, Rule::Gap, 0),
            row(0x100, Rule::Rsp, 16),
            row(0x110, Rule::Rsp, 8),
            row(0x120, Rule::Signal, 0),
            row(0x130, Rule::End, 0),
        ];
        Table { id: TableId([0; 16]), segments: Vec::new(), first_page: 0, pages: vec![0, 5], rows }
    }

    fn walk_of(rip: u64, stack: &[u64], depth_max: usize) -> (Vec<u64>, End) {
        let table = table();
        let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let snapshot = Snapshot { address: STACK, bytes: &bytes };
        let lookup = |address: u64| (BIAS..BIAS + 0x1000).contains(&address).then_some((&table, BIAS));
        let at = Registers { rip: BIAS + rip, rsp: STACK, rbp: 0 };
        let walk = walk(at, depth_max, lookup, |address| snapshot.word(address));
        (walk.frames.iter().map(|frame| frame.registers.rip.wrapping_sub(BIAS)).collect(), walk.end)
    }

    #[test]
    fn a_call_at_the_end_of_a_function_belongs_to_it() {
        // The return address 0x110 is the first address of the next function.
        let stack = [BIAS + 0x110, 0, BIAS + 0x134];
        assert_eq!(walk_of(0x118, &stack, 9), (vec![0x118, 0x110, 0x134], End::Outermost));
    }

    #[test]
    fn an_interrupted_first_instruction_belongs_to_its_own_function() {
        let mut stack = [0; 32];
        (stack[20], stack[21]) = (STACK + 30 * 8, BIAS + 0x110);
        stack[30] = BIAS + 0x134;
        assert_eq!(walk_of(0x120, &stack, 9), (vec![0x120, 0x110, 0x134], End::Outermost));
    }

    #[test]
    fn other_ends_are_distinguished() {
        assert_eq!(walk_of(0x118, &[0x1234], 9).1, End::NoTable);
        assert_eq!(walk_of(0x118, &[BIAS + 0x134], 1), (vec![0x118], End::Depth));
        assert_eq!(walk_of(0x118, &[], 9), (vec![0x118], End::Stopped(Stop::Unreadable)));
        assert_eq!(walk_of(0x50, &[], 9), (vec![0x50], End::Stopped(Stop::Gap)));
        assert_eq!(walk_of(0x118, &[BIAS + 0x118; 9], 4).1, End::Depth);
    }

    #[test]
    fn only_words_inside_the_copy_are_read() {
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0];
        let snapshot = Snapshot { address: STACK, bytes: &bytes };
        assert_eq!(snapshot.word(STACK), Some(1));
        assert_eq!(snapshot.word(STACK + 2), Some(2 << 48));
        for outside in [STACK - 1, STACK + 3, STACK + 10, 0, u64::MAX] {
            assert_eq!(snapshot.word(outside), None, "{outside:#x}");
        }
    }
}
