//! Call chains: the data with which programs walk a stack, and the records of chains.
//!
//! ```text
//! SPACES[tgid] ──► Space ──► MAPPINGS[first..first + count], by address: Code, Code, …
//!                                   │
//!                                   ▼
//!                            PAGES[pages + (page - page_first)]: Page ──► CHUNKS[row >> 16][row & 0xffff]: Row
//! ```
//!
//! User space never changes data that a program may be reading: it writes a new list of mappings elsewhere, then replaces the
//! [`Space`]. A program that finds another `version` at the end of a walk than at its beginning discards the walk.
//!
//! A chain is shipped once, in a [`Stack`] record, and from then on named by its id. Where the programs cannot walk yet, they ship a
//! [`Snapshot`](crate::Snapshot) of the stack, and user space walks it when it has the tables.

#![expect(
    clippy::inline_always,
    reason = "the verifier sees a BPF program as one body, and knows values better than arguments"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::unwind::Stop;

/// Maximum number of frames in a chain.
pub const DEPTH_MAX: usize = 127;

/// Frames for which a chain has space; a power of two, which the programs can index safely.
pub const FRAMES_MAX: usize = DEPTH_MAX + 1;

/// Rows of one chunk.
pub const CHUNK_ROWS: u32 = 1 << CHUNK_BITS;

/// Bits of a row's number that are its index in its chunk.
pub const CHUNK_BITS: u32 = 16;

/// Maximum number of executable mappings of one process that a walk can search, as a power of two.
pub const MAPPINGS_BITS: u32 = 14;

/// Maximum number of processes whose stacks are walked.
pub const SPACES_MAX: u32 = 1 << 12;

/// Maximum number of executable mappings of all these processes together.
pub const MAPPINGS_MAX: u32 = 1 << 16;

/// Maximum number of pages with rows: 8 GiB of code.
pub const PAGES_MAX: u32 = 1 << 17;

/// Maximum number of chunks: 512 MiB of rows.
pub const CHUNKS_MAX: u32 = 1 << 10;

/// Value of the `SPACES` map, by thread group: the code that a process has mapped, as far as user space knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Space {
    /// Changes whenever the meaning of an address may change. Never 0, and never used again.
    pub generation: u64,
    /// Changes with every new value.
    pub version: u64,
    /// The list has everything that was mapped before this time.
    pub seen_ns: u64,
    /// First element of its mappings in the `MAPPINGS` map.
    pub first: u32,
    /// The number of its mappings.
    pub count: u32,
    /// Two ranges of addresses that cover all of its code: one with programs, one with libraries.
    pub ranges: [Range; 2],
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
}

/// Element of the `MAPPINGS` map: an executable mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Code {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// An address minus this value is an address within the file.
    pub bias: u64,
    /// First element of its table in the `PAGES` map.
    pub pages: u32,
    /// The page of the file's addresses (of 64 KiB) that this element is for.
    pub page_first: u32,
    /// Pages in the table; 0 without one.
    pub page_count: u32,
    /// A [`CodeState`].
    pub state: u32,
}

/// The state of the code in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CodeState {
    /// It has a table.
    Tabled = 0,
    /// Its table has not been asked for, or is being built.
    Wanted = 1,
    /// No table can be made.
    Tableless = 2,
    /// It is in no file: generated code.
    Generated = 3,
}

/// Element of the `PAGES` map: the rows of 64 KiB of a file's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Page {
    /// Number of its first row: chunk, then row within it.
    pub row: u32,
    /// The number of its rows. They lie in one chunk.
    pub count: u32,
}

/// Elements of the `CHANGES` map. A process has the element at its id modulo this number. Two processes that share one only cause
/// unneeded snapshots of each other.
pub const CHANGES_COUNT: u32 = 1 << 14;

/// Element of the `CHANGES` map: executable memory that a process is mapping or has mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Changes {
    /// System calls that map code and have been entered.
    pub entered: u64,
    /// Those of them that have returned.
    pub returned: u64,
    /// When the last one returned.
    pub last_ns: u64,
}

/// How a walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ChainEnd {
    /// At the outermost frame.
    Complete = 0,
    /// At the greatest depth that was asked for.
    Depth = 1,
    /// In a file for which there is no table.
    NoTable = 2,
    /// At an address that is in no executable mapping.
    UnknownCode = 3,
    /// In generated code.
    Generated = 4,
    /// In code without unwind information.
    NoRule = 5,
    /// At a rule that tables cannot express.
    Unsupported = 6,
    /// At a part of the stack that could not be read, or was invalid.
    Unreadable = 7,
    /// The chain has not reached user space.
    Lost = 8,
    /// In a file that could not be opened, usually because its process had ended. Found by user space.
    Gone = 9,
    /// In a file whose table was not ready when the chain was needed. Found by user space.
    NotReady = 10,
}

impl ChainEnd {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Complete,
        Self::Depth,
        Self::NoTable,
        Self::UnknownCode,
        Self::Generated,
        Self::NoRule,
        Self::Unsupported,
        Self::Unreadable,
        Self::Lost,
        Self::Gone,
        Self::NotReady,
    ];

    /// Whether the walk would end there again with any other mappings: the end belongs to an address, or to the depth that was
    /// asked for.
    #[inline(always)]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Complete | Self::Depth | Self::NoTable | Self::NoRule | Self::Unsupported)
    }

    /// As [`is_final`](Self::is_final), for the end with this number. Arithmetic, since the verifier of Linux 6.1 does
    /// not follow a table look-up.
    #[inline(always)]
    pub const fn is_final_number(number: u32) -> bool {
        const FINAL: u32 = {
            let mut bits = 0;
            let mut index = 0;
            while index < ChainEnd::ALL.len() {
                bits |= (ChainEnd::ALL[index].is_final() as u32) << index;
                index += 1;
            }
            bits
        };
        number < u32::BITS && FINAL >> number & 1 != 0
    }

    /// The end with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

impl From<Stop> for ChainEnd {
    #[inline(always)]
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Gap => Self::NoRule,
            Stop::Unsupported => Self::Unsupported,
            Stop::Unreadable | Stop::NotAscending => Self::Unreadable,
        }
    }
}

/// A chain that no earlier record has shipped; `count` addresses follow in the ring buffer, innermost first.
///
/// The first is a return address into the caller of the probed function, which is not part of the chain.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Stack {
    /// [`RecordKind::Stack`](crate::RecordKind::Stack).
    pub kind: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// Id of the chain; never 0.
    pub chain: u64,
    /// [`Space::generation`], or 0.
    pub generation: u64,
    /// When it was walked.
    pub time_ns: u64,
    /// Addresses that follow.
    pub count: u32,
    /// A [`ChainEnd`].
    pub end: u32,
    /// Bit `n % 64` of word `n / 64`: frame `n` was interrupted by a signal, so its address is no return address.
    pub interrupted: [u64; FRAMES_MAX / 64],
}

/// First value of a chain's id.
#[inline(always)]
pub const fn chain_seed(tgid: u32, generation: u64) -> u64 {
    mix(generation ^ ((tgid as u64) << 32 | 0x5eed), 0x9e37_79b9_7f4a_7c15)
}

/// A chain's id, extended by a word.
#[inline(always)]
pub const fn mix(id: u64, word: u64) -> u64 {
    let id = (id ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    id ^ (id >> 32)
}

const _: () = assert!(size_of::<Space>() == 64);
const _: () = assert!(size_of::<Code>() == 40);
const _: () = assert!(size_of::<Page>() == 8);
const _: () = assert!(size_of::<Changes>() == 24);
const _: () = assert!(size_of::<Stack>() == 56);
