//! Every range of memory that HIP knows, by address.

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::arena::{self, Block};
use crate::engine::Signal;
use crate::runtime::table;
use crate::{config, devices};

/// The kind of memory that HIP reports; all of it is host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    /// Pinned: allocated by HIP or registered with it.
    Host,
    Managed,
}

impl Kind {
    /// `hipMemoryType` of a HIP major; the numbers changed with 6.0.
    pub(crate) fn code(self, major: u32) -> u32 {
        match (self, major) {
            (Kind::Host, ..6) => 0,
            (Kind::Host, _) | (Kind::Device, ..6) => 1,
            (Kind::Device, _) => 2,
            (Kind::Managed, _) => 3,
        }
    }
}

/// A known range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) base: usize,
    /// The requested size, in bytes.
    pub(crate) size: usize,
    pub(crate) kind: Kind,
    /// Flags from the application.
    pub(crate) flags: u32,
    /// Ordinal of the device that owns it, or that was current when it was created.
    pub(crate) device: usize,
}

impl Range {
    /// Bytes from an address in the range to its end.
    pub(crate) fn size_from(&self, address: usize) -> usize {
        self.base + self.size - address
    }
}

/// A range and its backing memory; none for registered memory.
pub(crate) struct Allocation {
    range: Range,
    backing: Option<Backing>,
}

/// The memory that belongs to an allocation.
#[expect(dead_code, reason = "dropping it frees the memory")]
enum Backing {
    Pages(Block),
    Signal(Signal),
}

table! {
    /// The memory that this copy of the library knows.
    pub(crate) known: Allocations = Allocations::new(config::get().memory_size)
}

/// The known ranges.
pub(crate) struct Allocations {
    by_base: Mutex<BTreeMap<usize, Allocation>>,
    total_size: usize,
}

impl Allocations {
    /// For devices with `total_size` bytes each.
    fn new(total_size: usize) -> Self {
        Self { by_base: Mutex::default(), total_size }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Allocation>> {
        self.by_base.lock().expect("no holder panics")
    }

    /// Zeroed pages; none if the device or the host has no more.
    pub(crate) fn allocate(&self, size: usize, kind: Kind, flags: u32) -> Option<*mut c_void> {
        let device = devices::current();
        if size > self.free_size(device) && kind != Kind::Host {
            return None;
        }
        let mapping = arena::get()?.allocate(size)?;
        let address = mapping.as_mut_ptr();
        let range = Range { base: address.expose_provenance(), size, kind, flags, device };
        self.lock().insert(range.base, Allocation { range, backing: Some(Backing::Pages(mapping)) });
        Some(address)
    }

    /// Makes a signal of the current device an allocation.
    pub(crate) fn adopt(&self, signal: Signal, flags: u32) -> *mut c_void {
        let address = signal.address();
        let (base, device) = (address.expose_provenance(), devices::current());
        let range = Range { base, size: size_of::<u64>(), kind: Kind::Device, flags, device };
        self.lock().insert(base, Allocation { range, backing: Some(Backing::Signal(signal)) });
        address
    }

    /// Adds memory of the application; false if its first byte is already known.
    pub(crate) fn register(&self, base: usize, size: usize, flags: u32) -> bool {
        if self.find(base).is_some() {
            return false;
        }
        let range = Range { base, size, kind: Kind::Host, flags, device: devices::current() };
        self.lock().insert(base, Allocation { range, backing: None });
        true
    }

    /// Removes memory of the application; false if it was not registered.
    pub(crate) fn unregister(&self, base: usize) -> bool {
        let mut by_base = self.lock();
        let is_registered = by_base.get(&base).is_some_and(|a| a.backing.is_none());
        is_registered && by_base.remove(&base).is_some()
    }

    /// Removes an allocation; dropping the result unmaps it.
    pub(crate) fn remove(&self, base: usize) -> Option<Allocation> {
        let mut by_base = self.lock();
        by_base.get(&base)?.backing.as_ref()?;
        by_base.remove(&base)
    }

    /// The range that contains an address.
    pub(crate) fn find(&self, address: usize) -> Option<Range> {
        let by_base = self.lock();
        let (_, allocation) = by_base.range(..=address).next_back()?;
        let range = allocation.range;
        (address < range.base + range.size).then_some(range)
    }

    pub(crate) fn total_size(&self) -> usize {
        self.total_size
    }

    /// A device's unallocated memory.
    pub(crate) fn free_size(&self, device: usize) -> usize {
        let on_device = |a: &&Allocation| a.range.kind != Kind::Host && a.range.device == device;
        let used: usize = self.lock().values().filter(on_device).map(|a| a.range.size).sum();
        self.total_size.saturating_sub(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_the_requested_end() {
        let allocations = Allocations::new(1 << 20);
        let address = allocations.allocate(10, Kind::Device, 0).unwrap() as usize;
        assert_eq!(allocations.find(address + 9).map(|r| r.size_from(address + 9)), Some(1));
        assert_eq!(allocations.find(address + 10), None);
        assert_eq!(allocations.free_size(0), (1 << 20) - 10);
    }

    #[test]
    fn registered_memory_is_not_freed_and_allocated_memory_not_unregistered() {
        let allocations = Allocations::new(1 << 20);
        assert!(allocations.register(0x1000, 16, 0));
        assert!(!allocations.register(0x1008, 16, 0));
        assert!(allocations.remove(0x1000).is_none());
        assert!(allocations.unregister(0x1000));
        let address = allocations.allocate(10, Kind::Host, 0).unwrap() as usize;
        assert!(!allocations.unregister(address));
        assert!(allocations.remove(address).is_some());
    }

    #[test]
    fn memory_types_were_renumbered_with_6() {
        assert_eq!((Kind::Host.code(5), Kind::Device.code(5)), (0, 1));
        assert_eq!((Kind::Host.code(6), Kind::Device.code(6)), (1, 2));
    }
}
