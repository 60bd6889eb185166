//! Memory of an event ring that processes share: the controller makes it, recorders map it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_protocol::calls::{self, FILE_SIZE};
use xsched_protocol::events::{RING_SIZE, Ring, RingMemory};

use crate::call_memory::SharedCalls;

/// The mapped memory of a ring.
#[derive(Debug)]
pub struct SharedRing(NonNull<RingMemory>);

// SAFETY: atomic words, in a mapping that belongs to the value.
unsafe impl Send for SharedRing {}

impl SharedRing {
    /// Makes a ring, and memory for calls behind it; returns also the descriptor by which others map both.
    pub fn make() -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("xsched-events", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, FILE_SIZE as u64)?;
        // From now on its size is fixed for all holders of the descriptor.
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let made = Self::map(&file)?;
        Ring::prepare(made.memory());
        calls::prepare(SharedCalls::map(&file)?.memory());
        Ok((made, file))
    }

    /// Maps a ring that another process has made. Its reader checks that it is a valid ring.
    pub fn map(file: impl AsFd) -> io::Result<Self> {
        let file = file.as_fd();
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) || fstat(file)?.st_size < RING_SIZE as i64 {
            return Err(io::Error::other("the memory for events can be shortened"));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(ptr::null_mut(), RING_SIZE, access, MapFlags::SHARED, file, 0) }?;
        Ok(Self(NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?))
    }

    /// The words.
    pub fn memory(&self) -> &RingMemory {
        // SAFETY: the mapping has this many words, lives as long as `self`, and is sealed against shrinking. Words may
        // have any value.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing refers to it any more. munmap does not fail for a
        // mapping that was made.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), RING_SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use xsched_protocol::events::{Event, Reader};

    use super::*;

    #[test]
    fn what_one_mapping_writes_another_reads() {
        let (made, file) = SharedRing::make().unwrap();
        let mapped = SharedRing::map(&file).unwrap();
        let mut reader = Reader::new(mapped.memory()).unwrap();
        let event =
            Event::Waits { queue: 1, position: 2, judgement: xsched_protocol::verdict::Judgement::NONE };
        Ring::of(made.memory()).unwrap().write(&event.record(3, 4));
        // The writer is gone.
        drop(made);
        let mut read = Vec::new();
        assert_eq!(reader.read(mapped.memory(), |record| read.push(Event::of(&record))), Ok(0));
        assert_eq!(read, [Some(event)]);
    }

    #[test]
    fn memory_that_could_be_shortened_is_refused() {
        let file = memfd_create("events", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, RING_SIZE as u64).unwrap();
        assert!(SharedRing::map(&file).is_err());
    }
}
