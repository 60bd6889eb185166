//! One call to a GPU runtime: the entry probe's note, and the record that the return probe submits.

use xsched_protocol::probe::{WORD_COUNT, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Longest text that a record carries, in bytes; longer ones are cut and counted.
///
/// Mangled names of template-heavy kernels reach several kilobytes.
pub const TEXT_LEN_MAX: usize = 4096;

/// Identifies a call in progress. The stack pointer distinguishes nested calls of one thread; the probe distinguishes a function from
/// one to which it jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CallKey {
    /// Address of the slot that holds the return address.
    pub return_slot: u64,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Index into [`PROBES`](crate::PROBES).
    pub probe: u32,
    /// Keeps the struct free of padding; zero.
    pub reserved: u32,
}

/// A call that has been entered and has not returned.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Pending {
    /// When it was entered.
    pub begin_ns: u64,
    /// Return address, that is, an address in the immediate caller.
    pub caller: u64,
    /// Id of its call chain, or zero; see [`chain`](crate::chain).
    pub chain: u64,
    /// Its arguments.
    pub words: Words,
}

/// A call that has returned; `text_len` bytes of text follow in the ring buffer.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Call {
    /// [`RecordKind::Call`](crate::RecordKind::Call).
    pub kind: u32,
    /// Index into [`PROBES`](crate::PROBES).
    pub probe: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// When it was entered.
    pub begin_ns: u64,
    /// When it returned.
    pub end_ns: u64,
    /// Return address, that is, an address in the immediate caller.
    pub caller: u64,
    /// Return register (`rax`).
    pub ret: u64,
    /// The pointer-sized value behind the probe's out argument, or zero.
    pub out: u64,
    /// Id of its call chain, or zero; see [`chain`](crate::chain).
    pub chain: u64,
    /// Its arguments.
    pub words: Words,
    /// Processor on which it returned.
    pub cpu: u32,
    /// Bytes of text behind this struct, without a terminator; zero for calls that carry none.
    pub text_len: u32,
}

const _: () = assert!(size_of::<CallKey>() == 24);
const _: () = assert!(size_of::<Pending>() == 24 + 8 * WORD_COUNT);
const _: () = assert!(size_of::<Call>() == 72 + 8 * WORD_COUNT);
