//! Reads the programs' ring of events, and always leaves the last event in it: see `wake.rs`. Also the ring with which the
//! programs call the controller.
//!
//! Format: <https://docs.kernel.org/bpf/ringbuf.html>.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use xsched_protocol::arbiter_page::{ArbiterEvent, EVENTS_SIZE};
use zerocopy::FromBytes as _;

/// Length of a record's header: the record's length with flags, and a field that only the kernel uses.
const HEADER: u64 = 8;
/// `BPF_RINGBUF_BUSY_BIT`: the record is still being written.
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`: the record was discarded.
const DISCARDED: u32 = 1 << 30;

/// The reading end.
///
/// ```text
///   page 0               page 1               then the data, mapped twice in a row, so that no record is split
///   consumer's position  producer's position
///   (writable)           (written by the kernel)
/// ```
#[derive(Debug)]
pub(super) struct Ring {
    consumer: NonNull<AtomicU64>,
    producer: NonNull<AtomicU64>,
    page_size: usize,
    /// Position of the first record that was not read yet. The consumer's position is that of the last record that was read.
    next: u64,
}

impl Ring {
    pub(super) fn map(ring: BorrowedFd<'_>) -> io::Result<Self> {
        let page_size = rustix::param::page_size();
        let consumer = map(ring, ProtFlags::READ | ProtFlags::WRITE, page_size, 0)?;
        let producer = map(ring, ProtFlags::READ, page_size + 2 * EVENTS_SIZE as usize, page_size)?;
        let mut ring = Self { consumer, producer, page_size, next: 0 };
        ring.next = ring.consumer().load(Ordering::Relaxed);
        Ok(ring)
    }

    /// Moves the available events to `events`.
    pub(super) fn drain(&mut self, events: &mut Vec<ArbiterEvent>) {
        // SAFETY: the mapping lives as long as `self` and has the producer's position at its beginning.
        let end = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
        let mut last = None;
        while self.next < end {
            let header = self.header(self.next).load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let len = u64::from(header & !DISCARDED);
            if header & DISCARDED == 0 && len == size_of::<ArbiterEvent>() as u64 {
                events.push(self.event(self.next + HEADER));
            }
            last = Some(self.next);
            self.next += (HEADER + len).next_multiple_of(8);
        }
        if let Some(last) = last {
            // Release, after all reads: the kernel may overwrite the records before this position from now on.
            self.consumer().store(last, Ordering::Release);
        }
    }

    fn consumer(&self) -> &AtomicU64 {
        // SAFETY: the mapping lives as long as `self` and has the consumer's position at its beginning.
        unsafe { self.consumer.as_ref() }
    }

    fn data(&self, position: u64) -> *const u8 {
        let offset = (position % u64::from(EVENTS_SIZE)) as usize;
        // SAFETY: the mapping has a page and twice the data; a record begins in the first half.
        unsafe { self.producer.as_ptr().cast::<u8>().add(self.page_size + offset) }
    }

    fn header(&self, position: u64) -> &AtomicU32 {
        // SAFETY: records are aligned to eight bytes, and the kernel writes their headers atomically.
        unsafe { &*self.data(position).cast() }
    }

    fn event(&self, position: u64) -> ArbiterEvent {
        // SAFETY: the record is complete and inside the mapping, which has the data twice, so that no record is split. The
        // kernel does not overwrite it before the consumer's position has passed it.
        let bytes = unsafe { std::slice::from_raw_parts(self.data(position), size_of::<ArbiterEvent>()) };
        ArbiterEvent::read_from_bytes(bytes).expect("the slice has the length of an event")
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let bytes = self.page_size + 2 * EVENTS_SIZE as usize;
        // SAFETY: both mappings belong to this value, and nothing refers to them any more.
        let _ = unsafe { munmap(self.consumer.as_ptr().cast(), self.page_size) };
        // SAFETY: as above.
        let _ = unsafe { munmap(self.producer.as_ptr().cast(), bytes) };
    }
}

// SAFETY: the mappings belong to the process. Data that the kernel writes is read atomically, or after it is complete.
unsafe impl Send for Ring {}

/// The ring with which the programs call the controller. Only whether it is empty matters.
#[derive(Debug)]
pub(super) struct Calls {
    consumer: NonNull<AtomicU64>,
    producer: NonNull<AtomicU64>,
    page_size: usize,
}

impl Calls {
    pub(super) fn map(ring: BorrowedFd<'_>) -> io::Result<Self> {
        let page_size = rustix::param::page_size();
        let consumer = map(ring, ProtFlags::READ | ProtFlags::WRITE, page_size, 0)?;
        let producer = map(ring, ProtFlags::READ, page_size, page_size)?;
        Ok(Self { consumer, producer, page_size })
    }

    /// Discards all calls.
    pub(super) fn forget(&self) {
        // SAFETY: both mappings live as long as `self` and begin with these words.
        let (consumer, producer) = unsafe { (self.consumer.as_ref(), self.producer.as_ref()) };
        consumer.store(producer.load(Ordering::Acquire), Ordering::Release);
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for page in [self.consumer, self.producer] {
            // SAFETY: the mapping belongs to this value, and nothing refers to it any more.
            let _ = unsafe { munmap(page.as_ptr().cast(), self.page_size) };
        }
    }
}

// SAFETY: the mappings belong to the process, and all access to them is atomic.
unsafe impl Send for Calls {}

/// Maps a part of a ring.
fn map(
    ring: BorrowedFd<'_>,
    access: ProtFlags,
    bytes: usize,
    offset: usize,
) -> io::Result<NonNull<AtomicU64>> {
    // SAFETY: this creates a new mapping at an address of the kernel's choice, so it replaces no other mapping.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, ring, offset as u64) }?;
    NonNull::new(start.cast()).ok_or(io::Error::from(io::ErrorKind::AddrNotAvailable))
}
