//! Call chains: what the programs need to walk a stack, and how they report what they found.
//!
//! ```text
//! SPACES[tgid] ──► Space ──► MAPPINGS[first..first + count], by address: Code, Code, …
//!                                   │
//!                                   ▼
//!                            PAGES[pages + (page - page_first)]: Page ──► CHUNKS[row >> 16][row & 0xffff]: Row
//! ```
//!
//! User space never changes what a program may be reading: it writes a new list of mappings elsewhere, then replaces
//! the [`Space`]. A program that finds another `version` at the end of a walk than at its beginning discards the walk.
//!
//! A chain is shipped once, in a [`Stack`] record, and named by its id from then on. Where the programs cannot walk
//! yet, a [`Snapshot`] of the stack goes instead, and user space walks it when it has the tables.

#![expect(
    clippy::inline_always,
    reason = "a BPF program is one body to the verifier, which knows values better than it knows arguments"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::unwind::Stop;

/// Most frames of a chain.
pub const DEPTH_MAX: usize = 127;

/// Frames that a chain has room for; a power of two, which the programs can index without a doubt.
pub const FRAMES_MAX: usize = DEPTH_MAX + 1;

/// Rows of one chunk.
pub const CHUNK_ROWS: u32 = 1 << CHUNK_BITS;

/// Bits of a row's number that say where in its chunk it is.
pub const CHUNK_BITS: u32 = 16;

/// Most executable mappings of one process that a walk finds its way in, as a power of two.
pub const MAPPINGS_BITS: u32 = 14;

/// Most processes whose stacks are walked.
pub const SPACES_MAX: u32 = 1 << 12;

/// Most executable mappings of all these processes together.
pub const MAPPINGS_MAX: u32 = 1 << 16;

/// Most pages that tables have rows for: 8 GiB of code.
pub const PAGES_MAX: u32 = 1 << 17;

/// Most chunks: 512 MiB of rows.
pub const CHUNKS_MAX: u32 = 1 << 10;

/// Value of the `SPACES` map, by thread group: the code that a process has mapped, as far as user space knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Space {
    /// Changes whenever an address may mean something else than before. Never 0, and never used again.
    pub generation: u64,
    /// Changes with every new value.
    pub version: u64,
    /// Everything that was mapped before this time is in the list.
    pub seen_ns: u64,
    /// First element of its mappings in the `MAPPINGS` map.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// Two ranges of addresses that cover all of it: where programs lie, and where libraries do.
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
    /// An address less this is an address as the file counts.
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

/// What is known of the code in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CodeState {
    /// It has a table.
    Tabled = 0,
    /// Nobody has asked for its table yet, or it is being built.
    Wanted = 1,
    /// There is no table to be had.
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
    /// How many there are. They lie in one chunk.
    pub count: u32,
}

/// Elements of the `CHANGES` map. A process has the one at its id modulo this number; two that share one only cause
/// each other snapshots that were not needed.
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
    /// At a part of the stack that could not be read, or made no sense.
    Unreadable = 7,
    /// The chain has not reached user space.
    Lost = 8,
}

impl ChainEnd {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Complete,
        Self::Depth,
        Self::NoTable,
        Self::UnknownCode,
        Self::Generated,
        Self::NoRule,
        Self::Unsupported,
        Self::Unreadable,
        Self::Lost,
    ];

    /// Whether the walk would end there again whatever else is mapped: the end belongs to an address, or to what was
    /// asked for.
    #[inline(always)]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Complete | Self::Depth | Self::NoTable | Self::NoRule | Self::Unsupported)
    }

    /// As [`is_final`](Self::is_final), for the end with this number. Arithmetic, since the verifier of Linux 6.1 does
    /// not follow a look-up in a table.
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
    /// Bit `n` of word `n / 64`: frame `n` was interrupted by a signal, so its address is no return address.
    pub interrupted: [u64; FRAMES_MAX / 64],
}

/// Largest part of a stack in a snapshot, in bytes.
pub const SNAPSHOT_MAX: usize = 32 << 10;

/// Return addresses that probes have replaced, in one snapshot.
pub const REPLACED_MAX: usize = 8;

/// A stack that a program could not walk; `len` bytes from `rsp` on follow in the ring buffer for snapshots.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Snapshot {
    /// [`RecordKind::Snapshot`](crate::RecordKind::Snapshot).
    pub kind: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// Id of the chain; never 0.
    pub chain: u64,
    /// [`Space::generation`], or 0.
    pub generation: u64,
    /// When it was taken.
    pub time_ns: u64,
    /// Return address of the probed function.
    pub rip: u64,
    /// Stack pointer after the return.
    pub rsp: u64,
    /// Frame pointer.
    pub rbp: u64,
    /// Bytes of the stack that follow.
    pub len: u32,
    /// Pairs in `replaced`.
    pub replaced_count: u32,
    /// Where the snapshot has the address of the kernel's trampoline, and what was there before.
    pub replaced: [Replaced; REPLACED_MAX],
}

/// A return address that a return probe has replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Replaced {
    /// Where on the stack.
    pub slot: u64,
    /// The return address.
    pub address: u64,
}

/// First value of a chain's id.
#[inline(always)]
pub const fn chain_seed(tgid: u32, generation: u64) -> u64 {
    mix(generation ^ ((tgid as u64) << 32 | 0x5eed), 0x9e37_79b9_7f4a_7c15)
}

/// A chain's id, one word on.
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
const _: () = assert!(size_of::<Snapshot>() == 64 + 16 * REPLACED_MAX);
