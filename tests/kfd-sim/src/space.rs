//! The GPU's address space: which addresses kernels may use, and where their memory is in this process.
//!
//! The thunk chooses addresses that are free in the process, so an address of the GPU is that of the host. Only memory of the program
//! that it registers (`hipHostRegister`) has another address on the GPU. Addresses are usable once the thunk has mapped them.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError, RwLock};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::abi::memory::{DOORBELL, USERPTR, VRAM};

/// Bytes of the device's memory: `sys/…/nodes/1/mem_banks/0/properties` has the same.
pub(crate) const VRAM_BYTES: u64 = 8 << 30;

/// Addresses of the GPU, and where the first of them is in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) host: usize,
}

impl Range {
    /// Where an address is in the process, and for how many bytes, if it is inside.
    pub(crate) fn find(&self, address: u64) -> Option<(usize, u64)> {
        let is_inside = (self.begin..self.end).contains(&address);
        is_inside.then(|| (self.host + (address - self.begin) as usize, self.end - address))
    }
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    range: Range,
    in_vram: bool,
}

/// What the thunk has allocated and mapped.
#[derive(Debug, Default)]
pub(crate) struct Space {
    allocations: Mutex<HashMap<u64, Allocation>>,
    /// By first address.
    mapped: RwLock<BTreeMap<u64, Range>>,
}

impl Space {
    fn allocations(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Allocation>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates what the flags say at an address that the thunk has reserved; `user` is where memory of the program is. Returns a
    /// handle.
    pub(crate) fn allocate(&self, address: u64, size: u64, flags: u32, user: u64) -> Result<u64, Errno> {
        let end = address.checked_add(size).filter(|_| address != 0 && size > 0).ok_or(Errno::INVAL)?;
        let in_vram = flags & VRAM != 0;
        let mut allocations = self.allocations();
        if in_vram && size > VRAM_BYTES - used(&allocations) {
            return Err(Errno::NOMEM);
        }
        let host = if flags & USERPTR != 0 { user } else { address };
        if flags & (USERPTR | DOORBELL) == 0 {
            back(address, size)?;
        }
        // Handles are those of the driver: a GPU's number above, a number below.
        let handle = (1..u64::MAX).find(|handle| !allocations.contains_key(handle)).ok_or(Errno::NOMEM)?;
        let range = Range { begin: address, end, host: host as usize };
        allocations.insert(handle, Allocation { range, in_vram });
        Ok(handle)
    }

    /// Frees what has this handle. The thunk itself unmaps its memory.
    pub(crate) fn free(&self, handle: u64) -> Result<(), Errno> {
        self.unmap(handle)?;
        self.allocations().remove(&handle);
        Ok(())
    }

    pub(crate) fn map(&self, handle: u64) -> Result<(), Errno> {
        let range = self.range(handle)?;
        self.mapped.write().unwrap_or_else(PoisonError::into_inner).insert(range.begin, range);
        Ok(())
    }

    pub(crate) fn unmap(&self, handle: u64) -> Result<(), Errno> {
        let range = self.range(handle)?;
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        if mapped.get(&range.begin) == Some(&range) {
            mapped.remove(&range.begin);
        }
        Ok(())
    }

    fn range(&self, handle: u64) -> Result<Range, Errno> {
        self.allocations().get(&handle).map(|allocation| allocation.range).ok_or(Errno::INVAL)
    }

    /// The mapped range around an address.
    pub(crate) fn find(&self, address: u64) -> Option<Range> {
        let mapped = self.mapped.read().unwrap_or_else(PoisonError::into_inner);
        let (_, &range) = mapped.range(..=address).next_back()?;
        range.find(address).map(|_| range)
    }

    /// Bytes of the device's memory that are free.
    pub(crate) fn available(&self) -> u64 {
        VRAM_BYTES - used(&self.allocations())
    }
}

fn used(allocations: &HashMap<u64, Allocation>) -> u64 {
    allocations.values().filter(|a| a.in_vram).map(|a| a.range.end - a.range.begin).sum()
}

/// Puts memory at addresses that the thunk has reserved.
fn back(address: u64, size: u64) -> Result<(), Errno> {
    let at: *mut c_void = ptr::without_provenance_mut(address as usize);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the thunk has reserved these addresses with a mapping of its own, for this.
    unsafe { mmap_anonymous(at, size as usize, ProtFlags::READ | ProtFlags::WRITE, flags) }.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_program_has_another_address_and_none_before_it_is_mapped() {
        let space = Space::default();
        let handle = space.allocate(0x10_0000, 0x2000, USERPTR, 0x7000_0000).unwrap();
        assert_eq!(space.find(0x10_0000), None);
        space.map(handle).unwrap();
        let range = space.find(0x10_1fff).unwrap();
        assert_eq!(range.find(0x10_1fff), Some((0x7000_1fff, 1)));
        assert_eq!(space.find(0x10_2000), None);
        space.free(handle).unwrap();
        assert_eq!(space.find(0x10_0000), None);
        assert_eq!(space.free(handle), Err(Errno::INVAL));
    }
}
