//! Gate pages without programs: memory that this process shares with the process of the claim.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_protocol::arbiter_page::{
    GATE_ALLOWED, GATE_CLOSED_AT, GATE_OPENED_AT, GATE_QUIET, GATE_SIZE, GATE_WISHES,
};
use xsched_symbols::now_ns;

const WORDS: usize = GATE_SIZE / size_of::<AtomicU64>();

/// The gate pages by slot. The page of a closed claim is kept until the slot has another claim.
#[derive(Debug, Default)]
pub(crate) struct Gates(HashMap<u64, Gate>);

impl Gates {
    /// Creates a page for the next claim of a slot, which replaces that of the last claim. If that fails, the slot has no
    /// page.
    pub(crate) fn make(&mut self, slot: u64) -> io::Result<OwnedFd> {
        self.0.remove(&slot);
        let file = memfd_create("xsched-gate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, GATE_SIZE as u64)?;
        // If a process could truncate the file, this process would get SIGBUS when it writes there.
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let gate = Gate::map(&file)?;
        gate.words()[0].store(GATE_ALLOWED, Ordering::SeqCst);
        self.0.insert(slot, gate);
        Ok(file)
    }

    pub(crate) fn load(&self, slot: u64) -> Option<u64> {
        self.0.get(&slot).map(|gate| gate.words()[0].load(Ordering::SeqCst))
    }

    /// Whether the process asks not to be woken when the gate closes.
    pub(crate) fn is_quiet(&self, slot: u64) -> bool {
        let wishes = |gate: &Gate| gate.words()[GATE_WISHES].load(Ordering::SeqCst);
        self.0.get(&slot).is_some_and(|gate| wishes(gate) & GATE_QUIET != 0)
    }

    /// Sets or clears the arbiter's bit, and writes the time. The other bits belong to the process.
    pub(crate) fn set(&self, slot: u64, is_allowed: bool) {
        let Some(gate) = self.0.get(&slot) else { return };
        let words = gate.words();
        if is_allowed {
            words[GATE_OPENED_AT].store(now_ns(), Ordering::SeqCst);
            words[0].fetch_or(GATE_ALLOWED, Ordering::SeqCst);
        } else {
            words[GATE_CLOSED_AT].store(now_ns(), Ordering::SeqCst);
            words[0].fetch_and(!GATE_ALLOWED, Ordering::SeqCst);
        }
    }
}

/// One mapped gate page.
#[derive(Debug)]
struct Gate(NonNull<[AtomicU64; WORDS]>);

impl Gate {
    fn map(file: &OwnedFd) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: this creates a new mapping at an address of the kernel's choice, so it replaces no other mapping.
        let start =
            unsafe { mmap(std::ptr::null_mut(), GATE_SIZE, access, MapFlags::SHARED, file.as_fd(), 0) }?;
        NonNull::new(start.cast()).map(Self).ok_or(io::ErrorKind::AddrNotAvailable.into())
    }

    fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping has this many words and lives as long as `self`, and the seals keep its file from being
        // truncated.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing refers to it any more. munmap does not fail for a valid
        // mapping, so its result is ignored.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), GATE_SIZE) };
    }
}

// SAFETY: the mapping belongs to the process, and all access to it is atomic.
unsafe impl Send for Gate {}
// SAFETY: as above.
unsafe impl Sync for Gate {}
