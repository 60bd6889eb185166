//! Copies of stacks that the programs could not walk: only the words that a walk can need.
//!
//! A walk reads return addresses, which point into code, and saved frame pointers, of which only those matter that point into the stack.
//! All other words are left out, but for whether they are zero: a return address of zero is that of an outermost frame. So a stack with
//! frames of tens of kilobytes takes little space.
//!
//! ```text
//! stack    rsp                                                          rsp + len
//!          │ first window │ second window       │ …          │ last window │
//!          └ up to a multiple of 2 KiB           └ 2 KiB, most of them
//! words    [kept, zero, words that are set in kept] [kept, zero, words] …
//!           └ four words each: bit n % 64 of word n / 64 stands for word n of the window
//! ```
//!
//! What cannot be read is left out, too: a page of a large frame that was never used is not there.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Largest part of a stack that is looked at, in bytes. PyTorch's libtorch_cuda has a frame of 65,648 bytes below cuDNN, and stacks
/// there have up to 118 KiB.
pub const SNAPSHOT_MAX: usize = 256 << 10;

/// Bytes of the stack that are looked at together. They lie on one page.
pub const WINDOW: usize = 2048;

/// Words with a bit for each word of a window.
pub const WINDOW_BITS: usize = WINDOW / 8 / 64;

/// Most words that follow one snapshot. It ends where no further window may fit.
pub const WORDS_MAX: usize = 8 << 10;

/// What a word reads as that was left out and is not zero: an address neither of code nor on the stack.
pub const LEFT_OUT: u64 = 1;

/// Return addresses that probes have replaced, in one snapshot.
pub const REPLACED_MAX: usize = 8;

/// A stack that a program could not walk; `word_count` words follow in the ring buffer for snapshots.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Snapshot {
    /// [`RecordKind::Snapshot`](crate::RecordKind::Snapshot).
    pub kind: u32,
    /// Thread group (what user space calls the pid).
    pub tgid: u32,
    /// Id of the chain; never 0.
    pub chain: u64,
    /// [`Space::generation`](crate::Space::generation), or 0.
    pub generation: u64,
    /// When it was taken.
    pub time_ns: u64,
    /// Return address of the probed function.
    pub rip: u64,
    /// Stack pointer after the return.
    pub rsp: u64,
    /// Frame pointer.
    pub rbp: u64,
    /// Bytes of the stack that it covers, from `rsp` on.
    pub len: u32,
    /// Words that follow.
    pub word_count: u32,
    /// Pairs in `replaced`.
    pub replaced_count: u32,
    /// Fills the space up to the next field.
    pub reserved: u32,
    /// Where the stack had the address of the kernel's trampoline, and what was there before.
    pub replaced: [Replaced; REPLACED_MAX],
}

/// A return address that a return probe has replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Replaced {
    /// Its position on the stack.
    pub slot: u64,
    /// The return address.
    pub address: u64,
}

impl Snapshot {
    /// The word at an address, by the `words` that follow and where each window's begin among them ([`windows`]): [`LEFT_OUT`] if it is
    /// neither among them nor zero. None if the snapshot does not cover it, or the words are not a snapshot's.
    pub fn word(&self, words: &[u64], windows: &[u32], address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.rsp)?;
        if offset >= u64::from(self.len) || !address.is_multiple_of(8) {
            return None;
        }
        let size = WINDOW as u64;
        let window = address / size - self.rsp / size;
        let start = if window == 0 { self.rsp } else { address - address % size };
        let index = ((address - start) / 8) as usize;
        let (bits, words) = split(words.get(*windows.get(window as usize)? as usize..)?)?;
        let (kept, zero) = bits.split_at(WINDOW_BITS);
        let (part, bit) = (index / 64, 1 << (index % 64));
        if kept[part] & bit != 0 {
            words.get(ones(&kept[..part]) + ones(&[kept[part] & (bit - 1)])).copied()
        } else {
            Some(if zero[part] & bit != 0 { 0 } else { LEFT_OUT })
        }
    }
}

/// Where each window begins among the words of a snapshot. It ends early if they are not a snapshot's.
pub fn windows(words: &[u64]) -> impl Iterator<Item = u32> {
    let mut begin = 0;
    core::iter::from_fn(move || {
        let (bits, _) = split(words.get(begin..)?)?;
        let window = begin;
        begin += bits.len() + ones(&bits[..WINDOW_BITS]);
        u32::try_from(window).ok()
    })
}

/// Splits off the bits with which a window begins.
fn split(words: &[u64]) -> Option<(&[u64; 2 * WINDOW_BITS], &[u64])> {
    words.split_first_chunk()
}

/// The number of bits that are set.
fn ones(bits: &[u64]) -> usize {
    bits.iter().map(|bits| bits.count_ones() as usize).sum()
}

const _: () = assert!(size_of::<Snapshot>() == 72 + 16 * REPLACED_MAX);
const _: () = assert!(WINDOW_BITS * 64 * 8 == WINDOW);

#[cfg(test)]
mod tests;
