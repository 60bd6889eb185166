//! What is known of each stream, and how a thread finds it without a lock.
//!
//! An entry stays allocated for as long as the process lives, and is used again for other streams. So threads may keep references
//! to it without counting them.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use xsched_preload::index::{Index, Key};

use crate::hip::failure::LateFailure;
use crate::runtime::copies::RuntimeCopy;
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

    /// The same in words.
    fn words(self) -> Key {
        match self {
            Self::Legacy { copy, device } => {
                [LEGACY_HANDLE, copy << u32::BITS | device.cast_unsigned() as usize]
            }
            Self::Created { copy, handle } => [handle, copy],
        }
    }
}

/// `hipStreamLegacy`: no stream that was created has this handle.
const LEGACY_HANDLE: usize = 1;

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

/// The streams that are known, as threads find them without a lock. Written under the lock of
/// [`Dependencies`](super::dependencies::Dependencies).
#[derive(Debug, Default)]
pub(super) struct StreamIndex(Index<StreamEntry>);

impl StreamIndex {
    #[inline]
    pub(super) fn find(&self, key: StreamKey) -> Option<&'static StreamEntry> {
        self.0.find(key.words())
    }

    pub(super) fn insert(&self, key: StreamKey, entry: &'static StreamEntry) {
        self.0.insert(key.words(), entry);
    }

    pub(super) fn remove(&self, key: StreamKey) {
        self.0.remove(key.words());
    }

    /// Whether a device's null stream has nothing that delays the device's blocking streams.
    pub(super) fn is_null_stream_clear(&self, copy: usize, device: i32) -> bool {
        self.find(StreamKey::Legacy { copy, device }).is_none_or(|null| null.status.is_clear())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> &'static StreamEntry {
        Box::leak(Box::default())
    }

    #[test]
    fn null_streams_are_told_apart_by_copy_and_device() {
        let index = StreamIndex::default();
        assert!(index.is_null_stream_clear(0, 3), "unused, it delays nothing");
        let key = StreamKey::Legacy { copy: 0, device: 3 };
        index.insert(key, entry());
        assert!(index.find(key).is_some() && !index.is_null_stream_clear(0, 3));
        assert!(
            index.is_null_stream_clear(1, 3)
                && index.is_null_stream_clear(0, 4)
                && index.is_null_stream_clear(3, 0)
        );
        index.remove(key);
        assert!(index.find(key).is_none() && index.is_null_stream_clear(0, 3));
    }
}
