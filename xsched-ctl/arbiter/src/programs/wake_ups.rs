//! The rings by which the programs wake processes: one for each device, by index.
//!
//! Their records carry no information. The last record always stays in its ring, and the ring stays open: see `wake.rs`. At most 256
//! rings, of some 30 KiB each, are kept.
//! Format: <https://docs.kernel.org/bpf/ringbuf.html>.

use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_bpf::sys;
use xsched_protocol::arbiter_page::WAKE_UPS_SIZE;

use super::map_of_maps::MapOfMaps;

/// Length of a record: a header of eight bytes, and a number.
const RECORD: u64 = 16;

#[derive(Debug)]
pub(super) struct WakeUps {
    maps: MapOfMaps,
    rings: HashMap<u32, Ring>,
}

impl WakeUps {
    /// No ring yet. Processes that wait for rings of the predecessor find this controller by its socket.
    pub(super) fn new(maps: MapOfMaps) -> Self {
        Self { maps, rings: HashMap::new() }
    }

    /// The ring of a device.
    pub(super) fn of(&mut self, device: u32) -> io::Result<BorrowedFd<'_>> {
        let ring = match self.rings.entry(device) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(vacant) => {
                let ring = Ring::create()?;
                self.maps.insert(device, ring.map.as_fd())?;
                vacant.insert(ring)
            }
        };
        Ok(ring.map.as_fd())
    }

    /// Makes space for wake-ups.
    pub(super) fn make_space(&self) {
        self.rings.values().for_each(Ring::make_space);
    }
}

#[derive(Debug)]
struct Ring {
    map: OwnedFd,
    consumer: NonNull<AtomicU64>,
    producer: NonNull<AtomicU64>,
    page_size: usize,
}

impl Ring {
    fn create() -> io::Result<Self> {
        let ring = sys::create_ring(WAKE_UPS_SIZE)?;
        let page_size = rustix::param::page_size();
        let map = |access, offset: usize| {
            // SAFETY: this creates a new mapping at an address of the kernel's choice, so it replaces no other mapping.
            let start = unsafe {
                mmap(std::ptr::null_mut(), page_size, access, MapFlags::SHARED, &ring, offset as u64)
            }?;
            NonNull::new(start.cast()).ok_or(io::Error::from(io::ErrorKind::AddrNotAvailable))
        };
        let consumer = map(ProtFlags::READ | ProtFlags::WRITE, 0)?;
        let producer = map(ProtFlags::READ, page_size)?;
        Ok(Self { map: ring, consumer, producer, page_size })
    }

    /// Takes all records but the last. One of them may still be written: its bytes say nothing.
    fn make_space(&self) {
        // SAFETY: both mappings live as long as `self` and begin with these words.
        let (consumer, producer) = unsafe { (self.consumer.as_ref(), self.producer.as_ref()) };
        consumer.store(producer.load(Ordering::Acquire).saturating_sub(RECORD), Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for page in [self.consumer, self.producer] {
            // SAFETY: the mapping belongs to this value, and nothing refers to it any more.
            let _ = unsafe { munmap(page.as_ptr().cast(), self.page_size) };
        }
    }
}

// SAFETY: the mappings belong to the process, and all access to them is atomic.
unsafe impl Send for Ring {}
