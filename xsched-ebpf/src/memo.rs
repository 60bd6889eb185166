//! Remembered walks: the programs write them (`bpf/memo.rs`), and the tracer reads them to publish them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sets of remembered walks: elements of the `SETS` map.
pub const SET_COUNT: u32 = 1024;

/// Walks in a set. The `MEMO` map has the walks of all sets.
pub const WAYS: u32 = 4;

/// Words of the stack that a walk may have depended on, and still be remembered.
pub const WORDS_MAX: usize = 128;

/// Reads of pieces of the stack. More would take as long as the walk itself.
pub const READS_MAX: usize = 64;

/// Flag of a slot: the word begins a read, whose index follows in bits 8 to 13. The low eight bits are its position in the read.
pub const BEGINS: u16 = 1 << 15;

/// The summary of a remembered walk.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Way {
    /// Odd while the element is written; 0 if it never was.
    pub sequence: u32,
    /// Mark of a walk that was made once and may not be worth an element. It may be of any walk with a key of this set.
    pub made_once: u32,
    /// The hash of its key.
    pub hash: u64,
}

/// A remembered walk.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Walk {
    /// The chain that it found.
    pub chain: u64,
    /// Where it began.
    pub start: Start,
    /// The frame pointer, if the walk depended on it.
    pub rbp: u64,
    /// Whether it did.
    pub uses_rbp: u32,
    /// Zero.
    pub reserved: u32,
    /// The words of the stack that it depended on.
    pub words: Words,
}

/// Where a walk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Start {
    /// [`Space::generation`](crate::Space::generation)
    pub generation: u64,
    /// The return address of the probed function.
    pub rip: u64,
    /// The stack pointer after its return.
    pub rsp: u64,
    /// Thread group.
    pub tgid: u64,
}

/// The words that a walk has depended on.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Words {
    /// Their number; above [`WORDS_MAX`] if they did not fit.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// The pieces of the stack that have them.
    pub reads: [Read; READS_MAX],
    /// Where each is found: see [`BEGINS`].
    pub slots: [u16; WORDS_MAX],
    /// Their values.
    pub values: [u64; WORDS_MAX],
}

/// A piece of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Read {
    /// Distance from the innermost frame's stack pointer.
    pub low: u32,
    /// Bytes.
    pub len: u32,
}

impl Words {
    /// Each word's distance from the innermost frame's stack pointer, and its value, in the order of the walk.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u64)> {
        let count = if self.count as usize <= WORDS_MAX { self.count as usize } else { 0 };
        let mut low = 0;
        self.slots.iter().zip(&self.values).take(count).map(move |(&slot, &value)| {
            if slot & BEGINS != 0 {
                low = self.reads[usize::from(slot >> 8) % READS_MAX].low;
            }
            (low.wrapping_add(u32::from(slot & 0xff) * 8), value)
        })
    }
}

const _: () = assert!(size_of::<Way>() == 16 && size_of::<Start>() == 32);
const _: () = assert!(size_of::<Words>() == 8 + 8 * READS_MAX + 10 * WORDS_MAX);
const _: () = assert!(size_of::<Walk>() == 56 + size_of::<Words>());

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use zerocopy::FromZeros as _;

    use super::*;

    #[test]
    fn words_lie_where_their_reads_begin() {
        let mut words = Words::new_zeroed();
        words.count = 3;
        words.reads[0] = Read { low: 16, len: 24 };
        words.reads[1] = Read { low: 4096, len: 8 };
        words.slots[..3].copy_from_slice(&[BEGINS | 1, 2, BEGINS | 1 << 8]);
        words.values[..3].copy_from_slice(&[7, 8, 9]);
        assert_eq!(words.pairs().collect::<Vec<_>>(), [(24, 7), (32, 8), (4096, 9)]);
        words.count = WORDS_MAX as u32 + 1;
        assert_eq!(words.pairs().count(), 0);
    }
}
