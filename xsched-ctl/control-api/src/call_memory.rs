//! Memory for calls that a process records itself: behind the ring of its events, in the same file ([`crate::ring_memory`]).

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_protocol::calls::{CALLS_OFFSET, CALLS_SIZE, CallMemory, FILE_SIZE};

/// The mapped memory.
#[derive(Debug)]
pub struct SharedCalls(NonNull<CallMemory>);

impl SharedCalls {
    /// Maps the memory in a file that another process has made.
    pub fn map(file: impl AsFd) -> io::Result<Self> {
        let file = file.as_fd();
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) || fstat(file)?.st_size < FILE_SIZE as i64 {
            return Err(io::Error::other("the file has no memory for calls"));
        }
        let (access, offset) = (ProtFlags::READ | ProtFlags::WRITE, CALLS_OFFSET as u64);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(ptr::null_mut(), CALLS_SIZE, access, MapFlags::SHARED, file, offset) }?;
        Ok(Self(NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?))
    }

    /// The words.
    pub fn memory(&self) -> &CallMemory {
        // SAFETY: the mapping has this many words, lives as long as `self`, and is sealed against shrinking. Words may
        // have any value.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedCalls {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing refers to it any more. munmap does not fail for a
        // mapping that was made.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), CALLS_SIZE) };
    }
}
