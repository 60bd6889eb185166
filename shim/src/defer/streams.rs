//! What is known of each stream, and how a thread finds it without a lock.
//!
//! An entry stays allocated for as long as the process lives, and is used again for other streams. So threads may keep references
//! to it without counting them. Each thread remembers the streams that it used last. When any stream is forgotten, this memory is
//! void, since the stream's handle may come back as another stream's.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};

use crate::hashing::MULTIPLIER;
use crate::hip::failure::LateFailure;
use crate::runtime::copies::{COPIES_MAX, RuntimeCopy};
use crate::runtime::stopped::StreamName;
use xsched_xqueue::{QueueId, QueueStatus};

/// The key of a stream: its runtime copy, and its handle. Null streams are one per device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StreamKey {
    /// The legacy null stream of a device.
    Legacy { copy: usize, device: i32 },
    /// A stream that the application created.
    Created { copy: usize, handle: usize },
}

impl StreamKey {
    /// A stream that the application created.
    pub(super) fn created(copy: &RuntimeCopy, handle: usize) -> Self {
        Self::Created { copy: copy.index(), handle }
    }

    /// The stream that a call means. None for the per-thread stream, which has no queue.
    pub(super) fn of(copy: &RuntimeCopy, name: StreamName, device: i32) -> Option<Self> {
        match name {
            StreamName::Legacy => Some(Self::Legacy { copy: copy.index(), device }),
            StreamName::PerThread => None,
            StreamName::Created(handle) => Some(Self::created(copy, handle)),
        }
    }

    /// The stream that calls mean by it.
    pub(super) fn name(self) -> StreamName {
        match self {
            Self::Legacy { .. } => StreamName::Legacy,
            Self::Created { handle, .. } => StreamName::Created(handle),
        }
    }

    pub(super) fn copy(self) -> usize {
        match self {
            Self::Legacy { copy, .. } | Self::Created { copy, .. } => copy,
        }
    }
}

/// What is known of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamEntry {
    pub(super) status: QueueStatus,
    device: AtomicI32,
    is_blocking: AtomicBool,
    /// Calls that have put something on it, while these are counted.
    pub(super) calls: AtomicU64,
    pub(super) failure: LateFailure,
}

impl StreamEntry {
    /// Becomes the entry of a new stream. No stream has it.
    pub(super) fn assign(&self, device: i32, is_blocking: bool) {
        self.device.store(device, Ordering::Release);
        self.is_blocking.store(is_blocking, Ordering::Release);
        self.calls.store(0, Ordering::Release);
    }

    pub(super) fn queue(&self) -> QueueId {
        self.status.queue()
    }

    pub(super) fn device(&self) -> i32 {
        self.device.load(Ordering::Acquire)
    }

    /// Whether its work is ordered with that of the device's null stream.
    pub(super) fn is_blocking(&self) -> bool {
        self.is_blocking.load(Ordering::Acquire)
    }
}

/// The stream of a call, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownStream {
    pub(super) key: StreamKey,
    pub(super) entry: &'static StreamEntry,
}

impl KnownStream {
    pub(super) fn queue(self) -> QueueId {
        self.entry.queue()
    }

    /// Whether it is a device's null stream.
    pub(super) fn is_null(self) -> bool {
        matches!(self.key, StreamKey::Legacy { .. })
    }
}

/// Changes whenever a stream is forgotten.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The current generation, under which threads remember streams.
pub(super) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// A stream was forgotten: what threads remember is invalid.
pub(super) fn invalidate() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

#[derive(Clone, Copy)]
struct Remembered {
    generation: u64,
    key: StreamKey,
    entry: &'static StreamEntry,
}

/// log2 of how many streams a thread remembers.
const REMEMBERED_BITS: u32 = 3;

thread_local! {
    /// By key; a later stream replaces an earlier one.
    static REMEMBERED: [Cell<Option<Remembered>>; 1 << REMEMBERED_BITS] =
        const { [const { Cell::new(None) }; 1 << REMEMBERED_BITS] };
}

fn slot(key: StreamKey) -> usize {
    let StreamKey::Created { handle: number, .. } = key else { return 0 };
    ((number as u64).wrapping_mul(MULTIPLIER) >> (u64::BITS - REMEMBERED_BITS)) as usize
}

/// A stream that this thread remembers.
#[inline]
pub(super) fn remembered(key: StreamKey) -> Option<&'static StreamEntry> {
    let remembered = REMEMBERED.try_with(|slots| slots[slot(key)].get()).ok()??;
    (remembered.key == key && remembered.generation == generation()).then_some(remembered.entry)
}

/// Remembers a stream that was known when this was the [generation].
pub(super) fn remember(key: StreamKey, generation: u64, entry: &'static StreamEntry) {
    let remembered = Some(Remembered { generation, key, entry });
    let _ = REMEMBERED.try_with(|slots| slots[slot(key)].set(remembered));
}

/// Devices whose null streams are found without a lock. Those of other devices are looked up like created streams.
const DEVICES: usize = 64;

/// The null streams that are known.
#[derive(Debug)]
pub(super) struct NullStreams([[AtomicPtr<StreamEntry>; DEVICES]; COPIES_MAX]);

impl Default for NullStreams {
    fn default() -> Self {
        Self([const { [const { AtomicPtr::new(ptr::null_mut()) }; DEVICES] }; COPIES_MAX])
    }
}

impl NullStreams {
    fn slot(&self, copy: usize, device: i32) -> Option<&AtomicPtr<StreamEntry>> {
        self.0.get(copy)?.get(usize::try_from(device).ok()?)
    }

    pub(super) fn set(&self, copy: usize, device: i32, entry: &'static StreamEntry) {
        if let Some(slot) = self.slot(copy, device) {
            slot.store(ptr::from_ref(entry).cast_mut(), Ordering::Release);
        }
    }

    /// The null stream of a device, if it is known and kept here.
    pub(super) fn get(&self, copy: usize, device: i32) -> Option<&'static StreamEntry> {
        let entry = self.slot(copy, device)?.load(Ordering::Acquire);
        // SAFETY: null, or made of a reference for as long as the process lives.
        unsafe { entry.as_ref() }
    }

    /// Whether a device's null stream has nothing that delays the device's blocking streams.
    pub(super) fn is_clear(&self, copy: usize, device: i32) -> bool {
        let is_found_here = self.slot(copy, device).is_some();
        is_found_here && self.get(copy, device).is_none_or(|null| null.status.is_clear())
    }

    /// Forgets the null stream of a device.
    pub(super) fn forget(&self, copy: usize, device: i32) {
        if let Some(slot) = self.slot(copy, device) {
            slot.store(ptr::null_mut(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> &'static StreamEntry {
        Box::leak(Box::default())
    }

    #[test]
    fn a_thread_remembers_streams_until_any_is_forgotten() {
        let key = StreamKey::Created { copy: 0, handle: 0x7000 };
        let before = generation();
        remember(key, before, entry());
        // Tests of other threads forget streams as well.
        assert!(remembered(key).is_some() || generation() != before);
        assert!(remembered(StreamKey::Created { copy: 1, handle: 0x7000 }).is_none(), "another copy's");
        invalidate();
        assert!(remembered(key).is_none());
        remember(key, before, entry());
        assert!(remembered(key).is_none(), "found before one was forgotten");
    }

    #[test]
    fn an_unused_null_stream_delays_nothing() {
        let null_streams = NullStreams::default();
        assert!(null_streams.is_clear(0, 3) && null_streams.get(0, 3).is_none());
        let unknown = DEVICES as i32;
        assert!(
            !null_streams.is_clear(0, unknown) && !null_streams.is_clear(0, -1),
            "nothing is known of these here"
        );
        null_streams.set(0, 3, entry());
        assert!(!null_streams.is_clear(0, 3) && null_streams.get(0, 3).is_some());
        assert!(null_streams.is_clear(1, 3), "of another copy");
        null_streams.forget(0, 3);
        assert!(null_streams.is_clear(0, 3));
    }
}
