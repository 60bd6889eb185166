//! The process's events, for a tracer: a ring in shared memory that the controller has handed out.
//!
//! There is one while the process is recorded. It is written under the lock of the queues, which makes the process one writer.

#![expect(unsafe_code, reason = "maps a ring of events")]

use std::cell::Cell;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use thiserror::Error;
use xsched_protocol::events::{Event, RING_SIZE, Ring, RingMemory};
use xsched_sched::Nanos;

use crate::clock::MachineClock;

/// Why events are not written.
#[derive(Debug, Error)]
pub(crate) enum EventWriterError {
    #[error("map the ring of events: {0}")]
    Map(#[from] Errno),
    #[error("map the event ring: the memfd is not sealed against shrinking")]
    Unsealed,
    #[error("write into a ring of another version")]
    Version,
}

/// Where events go.
#[derive(Debug)]
pub(crate) struct EventWriter {
    memory: NonNull<RingMemory>,
    /// What the records' clock is ahead of the queues' clock.
    ahead_ns: i64,
}

// SAFETY: the memory is shared words, and belongs to this value until it is dropped.
unsafe impl Send for EventWriter {}

impl EventWriter {
    /// Maps a ring, whose records have the times of this clock.
    ///
    /// # Errors
    /// It cannot be mapped, is none, or could become shorter under its writer.
    pub(crate) fn map(ring: impl AsFd, clock: MachineClock) -> Result<Self, EventWriterError> {
        let ring = ring.as_fd();
        let is_sealed = fcntl_get_seals(ring).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let size = fstat(ring)?.st_size;
        if !is_sealed || size < RING_SIZE as i64 {
            return Err(EventWriterError::Unsealed);
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address of the kernel's choice.
        let at = unsafe { mmap(ptr::null_mut(), RING_SIZE, access, MapFlags::SHARED, ring, 0) }?;
        let memory = NonNull::new(at.cast()).ok_or(EventWriterError::Map(Errno::NOMEM))?;
        let writer = Self { memory, ahead_ns: clock.ahead_ns() };
        if Ring::of(writer.memory()).is_none() {
            return Err(EventWriterError::Version);
        }
        Ok(writer)
    }

    /// Writes what happened at a time of the queues' clock.
    pub(crate) fn write(&mut self, at: Nanos, event: &Event) {
        if let Some(ring) = Ring::of(self.memory()) {
            ring.write(&event.record(self.time_ns(at), thread_id()));
        }
    }

    /// A time of the queues' clock on that of the records.
    pub(crate) fn time_ns(&self, at: Nanos) -> u64 {
        at.0.saturating_add_signed(self.ahead_ns)
    }

    fn memory(&self) -> &RingMemory {
        // SAFETY: mapped with this size until the value is dropped, and sealed against becoming shorter; any words are
        // values.
        unsafe { self.memory.as_ref() }
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        // SAFETY: the value's own mapping, to which there is no reference any more.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), RING_SIZE) };
    }
}

thread_local! {
    /// The thread's id; 0: not asked for yet. Asking takes a system call.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's id, in its own pid namespace.
#[inline]
pub fn thread_id() -> u32 {
    THREAD
        .try_with(|known| {
            if known.get() == 0 {
                known.set(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
            }
            known.get()
        })
        .unwrap_or(0)
}

/// In a forked child: the thread has another id.
pub(crate) fn after_fork_in_child() {
    let _ = THREAD.try_with(|known| known.set(0));
}

#[cfg(test)]
pub(crate) mod tests;
