//! Memory of a ring of events that processes share: made by the controller, mapped by whoever records.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_protocol::events::{RING_SIZE, Ring, RingMemory};

/// A ring's memory, mapped.
#[derive(Debug)]
pub struct SharedRing(NonNull<RingMemory>);

impl SharedRing {
    /// Makes a ring, and what others map it by.
    pub fn make() -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("xsched-events", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, RING_SIZE as u64)?;
        // From now on it has its size, whoever gets the descriptor.
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let made = Self::map(&file)?;
        Ring::prepare(made.memory());
        Ok((made, file))
    }

    /// Maps a ring that somebody else has made. Whether it is one says its reader.
    pub fn map(file: impl AsFd) -> io::Result<Self> {
        let file = file.as_fd();
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) || fstat(file)?.st_size < RING_SIZE as i64 {
            return Err(io::Error::other("memory for events that can be cut short"));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, wherever the kernel has room; nothing else is replaced.
        let start = unsafe { mmap(ptr::null_mut(), RING_SIZE, access, MapFlags::SHARED, file, 0) }?;
        Ok(Self(NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?))
    }

    /// The words.
    pub fn memory(&self) -> &RingMemory {
        // SAFETY: the mapping has this many words, lives as long as `self`, and is sealed against being cut short; any
        // words are values.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more. It fails for no mapping that
        // succeeded.
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
    fn memory_that_could_be_cut_short_is_refused() {
        let file = memfd_create("events", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, RING_SIZE as u64).unwrap();
        assert!(SharedRing::map(&file).is_err());
    }
}
