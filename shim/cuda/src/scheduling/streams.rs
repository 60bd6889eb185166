//! The streams that have a queue, and how a thread finds one without a lock.
//!
//! An entry stays allocated for as long as the process lives, and is used again when a stream like it comes. So threads may keep
//! references to it without counting them, and a launch finds its stream in an index that it only reads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use xsched_preload::index::{Index, Key};
use xsched_xqueue::{QueueId, QueueStatus};

use crate::api::Named;
use crate::driver::Context;
use crate::marker::CudaStream;

/// The streams that have a queue, and the contexts that are known.
#[derive(Debug, Default)]
pub(super) struct Streams {
    books: Mutex<Books>,
    /// Of `known`, changed under its lock.
    index: Index<KnownStream>,
}

#[derive(Debug, Default)]
struct Books {
    known: HashMap<Key, &'static KnownStream, FixedState>,
    /// Entries of streams that are gone, by what the stream was.
    spare: HashMap<CudaStream, Vec<&'static KnownStream>, FixedState>,
    devices: HashMap<Context, i32>,
    primary: HashMap<i32, Context>,
}

/// What is known of a stream.
#[derive(Debug)]
pub(super) struct KnownStream {
    pub(super) stream: CudaStream,
    pub(super) status: QueueStatus,
}

impl KnownStream {
    pub(super) fn queue(&self) -> QueueId {
        self.status.queue()
    }
}

/// A null stream by its context, a created one by its handle, which is that of no other context's.
fn key(context: Option<Context>, named: Named) -> Key {
    [named.address(), context.filter(|_| named == Named::Legacy).map_or(0, |context| context.0)]
}

impl Streams {
    /// Not held while calling the driver, nor while waiting.
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream with a queue; a null stream is that of `context`.
    #[inline]
    pub(super) fn find(&self, context: Option<Context>, named: Named) -> Option<&'static KnownStream> {
        self.index.find(key(context, named))
    }

    /// Adds a stream, unless another thread has done so. `create` makes its queue.
    pub(super) fn add(
        &self,
        stream: CudaStream,
        create: impl FnOnce(&'static QueueStatus),
    ) -> &'static KnownStream {
        let key = key(Some(stream.context), stream.name);
        let mut books = self.books();
        if let Some(known) = books.known.get(&key) {
            return known;
        }
        let spare = books.spare.get_mut(&stream).and_then(Vec::pop);
        let known = spare
            .unwrap_or_else(|| Box::leak(Box::new(KnownStream { stream, status: QueueStatus::default() })));
        create(&known.status);
        books.known.insert(key, known);
        self.index.insert(key, known);
        known
    }

    /// Forgets the streams that are meant. Their queues still exist.
    pub(super) fn remove(&self, is_meant: impl Fn(CudaStream) -> bool) -> Vec<&'static KnownStream> {
        let mut books = self.books();
        let removed: Vec<_> = books.known.extract_if(|_, known| is_meant(known.stream)).collect();
        for &(key, _) in &removed {
            self.index.remove(key);
        }
        removed.into_iter().map(|(_, known)| known).collect()
    }

    /// Takes the entry of a forgotten stream back, whose queue is gone.
    pub(super) fn reuse(&self, known: &'static KnownStream) {
        self.books().spare.entry(known.stream).or_default().push(known);
    }

    /// The queues of the streams that are meant.
    pub(super) fn queues(&self, is_meant: impl Fn(&KnownStream) -> bool) -> Vec<QueueId> {
        self.books().known.values().filter(|known| is_meant(known)).map(|known| known.queue()).collect()
    }

    /// A context's device, if it is known.
    pub(super) fn device(&self, context: Context) -> Option<i32> {
        self.books().devices.get(&context).copied()
    }

    pub(super) fn set_device(&self, context: Context, device: i32) {
        self.books().devices.insert(context, device);
    }

    /// A context is gone.
    pub(super) fn forget_device(&self, context: Context) {
        self.books().devices.remove(&context);
    }

    /// A device's primary context.
    pub(super) fn primary(&self, device: i32) -> Option<Context> {
        self.books().primary.get(&device).copied()
    }

    pub(super) fn set_primary(&self, device: i32, context: Context) {
        let mut books = self.books();
        books.primary.insert(device, context);
        books.devices.insert(context, device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(context: usize, name: Named) -> CudaStream {
        CudaStream { context: Context(context), name, is_blocking: true }
    }

    #[test]
    fn null_streams_are_told_apart_by_context_and_others_by_handle() {
        let streams = Streams::default();
        let (first, second) = (stream(64, Named::Legacy), stream(128, Named::Legacy));
        let created = stream(64, Named::Created(4096));
        for stream in [first, second, created] {
            streams.add(stream, |_| {});
        }
        let found =
            |context: usize, named| streams.find(Some(Context(context)), named).map(|known| known.stream);
        assert_eq!([found(64, Named::Legacy), found(128, Named::Legacy)], [Some(first), Some(second)]);
        assert_eq!(found(192, Named::Legacy), None);
        assert_eq!(
            [found(64, created.name), found(128, created.name)],
            [Some(created); 2],
            "whichever is current"
        );
        assert_eq!(streams.find(None, created.name).map(|known| known.stream), Some(created));
        streams.remove(|stream| stream.context == Context(64));
        assert_eq!([found(64, Named::Legacy), found(64, created.name)], [None; 2]);
        assert_eq!(found(128, Named::Legacy), Some(second));
    }

    #[test]
    fn an_entry_serves_the_next_stream_that_is_like_the_last() {
        let streams = Streams::default();
        let created = stream(64, Named::Created(4096));
        let first: *const KnownStream = streams.add(created, |_| {});
        for _ in 0..3 {
            streams.remove(|_| true).into_iter().for_each(|known| streams.reuse(known));
            assert!(std::ptr::eq(streams.add(created, |_| {}), first));
        }
        streams.remove(|_| true).into_iter().for_each(|known| streams.reuse(known));
        let other = CudaStream { is_blocking: false, ..created };
        assert!(!streams.add(other, |_| {}).stream.is_blocking);
    }
}
