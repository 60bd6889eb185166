//! The arbiter page, mapped into this process.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_protocol::arbiter_page::{BLOCK_SLOTS, CLAIM_MAX, ClaimWord, DEVICE_MAX, PAGE_WORDS, Word};

/// The mapped page. Programs or other threads may change it at any time; each word is read atomically.
#[derive(Debug)]
pub struct Page {
    start: NonNull<[AtomicU64; PAGE_WORDS]>,
    may_write: bool,
}

/// The state of a claim when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimState {
    /// Its slot.
    pub slot: u32,
    /// Its word.
    pub word: ClaimWord,
    /// The end of its lease, if it is ready.
    pub lease_until_ns: u64,
    /// Its process, see [`crate::Owner`].
    pub owner: u64,
}

/// A slot without a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeSlot {
    pub(crate) claim: ClaimState,
    /// No slot of its block has an open claim.
    pub(crate) is_block_empty: bool,
}

impl Page {
    /// Maps the page behind a descriptor.
    pub(crate) fn map(fd: BorrowedFd<'_>, may_write: bool) -> io::Result<Self> {
        let access = if may_write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: this creates a new mapping at an address of the kernel's choice, so it replaces no other mapping.
        let start = unsafe { mmap(std::ptr::null_mut(), PAGE_WORDS * 8, access, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, may_write })
    }

    fn all(&self) -> &[AtomicU64; PAGE_WORDS] {
        // SAFETY: the mapping has this many words and lives as long as `self`. A mapping that may not be written is only
        // read; atomic loads are plain loads on this architecture.
        unsafe { self.start.as_ref() }
    }

    /// The words, for writing.
    ///
    /// # Panics
    ///
    /// If the page is mapped for reading only.
    pub(crate) fn words(&self) -> &[AtomicU64; PAGE_WORDS] {
        assert!(self.may_write, "only the programs may change their page");
        self.all()
    }

    /// One word.
    pub fn load(&self, word: Word) -> u64 {
        self.all()[word.index()].load(Ordering::SeqCst)
    }

    /// Whether the page is in force, because the controller is running.
    pub fn is_obeyed(&self) -> bool {
        self.load(Word::OBEY) == 1
    }

    /// The index of a device.
    pub fn device(&self, key: u64) -> Option<u64> {
        (0..DEVICE_MAX as u64).find(|&index| self.load(Word::key(index)) == key)
    }

    /// Whether a device has open claims.
    pub(crate) fn is_used(&self, device: u64) -> bool {
        self.load(Word::exists(device)) != 0
    }

    /// The present state of a claim.
    pub fn claim(&self, slot: u32) -> ClaimState {
        let slot = slot % CLAIM_MAX as u32;
        let index = u64::from(slot);
        ClaimState {
            slot,
            word: ClaimWord(self.load(Word::claim(index))),
            lease_until_ns: self.load(Word::lease_until(index)),
            owner: self.load(Word::owner(index)),
        }
    }

    /// The best free slot for a claim of a device: in a block of this device alone, else in an empty block, else in one with few
    /// other devices. Each change of the device's mask looks at all slots of such blocks.
    pub(crate) fn free_slot(&self, device: u64) -> Option<FreeSlot> {
        let own = 1 << (device % 64);
        let blocks = (0..CLAIM_MAX as u32).step_by(BLOCK_SLOTS).filter_map(|first| {
            let slots = (first..first + BLOCK_SLOTS as u32).map(|slot| self.claim(slot));
            let claim = slots.clone().find(|claim| !claim.word.is_open())?;
            let is_block_empty = slots.into_iter().all(|claim| !claim.word.is_open());
            let devices = if is_block_empty { 0 } else { self.load(Word::block(first.into())) };
            let rank = if devices == own { 0 } else { 1 + (devices & !own).count_ones() };
            Some((rank, FreeSlot { claim, is_block_empty }))
        });
        blocks.min_by_key(|&(rank, _)| rank).map(|(_, free)| free)
    }

    /// All open claims.
    pub fn claims(&self) -> impl Iterator<Item = ClaimState> + '_ {
        let slots = self.load(Word::SLOTS).min(CLAIM_MAX as u64) as u32;
        (0..slots).map(|slot| self.claim(slot)).filter(|claim| claim.word.is_open())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing refers to it any more. munmap does not fail for a valid
        // mapping, so its result is ignored.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), PAGE_WORDS * 8) };
    }
}

// SAFETY: the mapping belongs to the process, and all access to it is atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}
