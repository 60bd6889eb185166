//! Reads the ring buffers batch by batch.

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use xsched_bpf::{Record, Ring};
use xsched_symbols::now_ns;
use xsched_terminal::Internal;

use crate::error::TracerError;

/// Records that are read at once from each ring.
const BATCH_MAX: usize = 8192;

/// The ring buffers, and how far they have been read.
pub(super) struct Input {
    events: AsyncFd<Ring>,
    snapshots: AsyncFd<Ring>,
    /// Reused between batches.
    records: Vec<Record>,
    has_more: bool,
    called_until_ns: u64,
    unreadable: u64,
}

impl Input {
    pub(super) fn new(events: Ring, snapshots: Ring) -> Result<Self, TracerError> {
        Ok(Self {
            events: wait_for(events)?,
            snapshots: wait_for(snapshots)?,
            records: Vec::new(),
            has_more: false,
            called_until_ns: 0,
            unreadable: 0,
        })
    }

    /// Waits until a program wakes the tracer.
    pub(super) async fn readable(&self) {
        // This fails only for a closed epoll.
        tokio::select! {
            ready = self.events.readable() => drop(ready.map(|mut guard| guard.clear_ready())),
            ready = self.snapshots.readable() => drop(ready.map(|mut guard| guard.clear_ready())),
        }
    }

    /// Reads a batch, roughly in order of time. Also returns the time at which reading began.
    pub(super) fn read(&mut self) -> (Vec<Record>, u64) {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        let drained_ns = now_ns();
        self.has_more = false;
        for ring in [&mut self.events, &mut self.snapshots] {
            let drained = ring.get_mut().drain(&mut records, BATCH_MAX);
            self.unreadable += drained.unreadable;
            self.has_more |= drained.has_more;
        }
        let read_ns = records.iter().filter_map(Record::returned_ns).max().unwrap_or(self.called_until_ns);
        self.called_until_ns = if self.has_more { read_ns } else { drained_ns };
        (records, drained_ns)
    }

    /// Takes back the memory of a batch.
    pub(super) fn reuse(&mut self, records: Vec<Record>) {
        self.records = records;
    }

    /// Whether the last batch was full, so that there may be more.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// All calls that returned before this time have been read.
    pub(super) fn called_until_ns(&self) -> u64 {
        self.called_until_ns
    }

    /// Records that could not be read.
    pub(super) fn unreadable(&self) -> u64 {
        self.unreadable
    }
}

/// Makes a ring buffer awaitable.
fn wait_for(ring: Ring) -> Result<AsyncFd<Ring>, TracerError> {
    // SAFETY: the ring keeps its descriptor open and unchanged for as long as it lives in the `AsyncFd`.
    unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
        .map_err(|error| Internal::at("waiting for the ring buffer")(error.into()).into())
}
