//! The streams of calls: how they become known, are found, and are forgotten.

use std::sync::atomic::{AtomicU64, Ordering};

use xsched_xqueue::{QueueId, XQueues};

use crate::abi::Stream;
use crate::defer::deferral::{DEFERRAL, Deferral, deferral};
use crate::defer::dependencies::Dependencies;
use crate::defer::streams::{KnownStream, StreamEntry, StreamKey};
use crate::hip::device::Hip;
use crate::hip::marker::HipStream;
use crate::hip::real;
use crate::planted::{Bug, is_planted};
use crate::runtime::copies::{COPIES_MAX, RuntimeCopy};
use crate::runtime::stopped::{Stopped, StreamName};

/// A stream was created. It is known from now on: its work on the device matters as soon as other processes come.
pub(crate) fn stream_created(copy: &'static RuntimeCopy, stream: Stream) {
    let deferral = deferral();
    deferral.note_first_use(copy);
    let device = real::device_of(copy, stream).or_else(|| real::current_device(copy));
    if let (Some(device), Some(is_blocking)) = (device, real::is_blocking(copy, stream)) {
        let key = StreamKey::created(copy, stream.0.addr());
        // A stream that had this handle before, whose end the shim has not seen.
        let former = deferral.remove_stream(&mut deferral.dependencies(), key);
        if let Some(entry) = former {
            deferral.forget(entry, XQueues::destroy);
        }
        deferral.add_stream(copy, key, device, is_blocking);
    }
}

/// A stream is about to be destroyed.
pub(crate) fn stream_destroyed(copy: &RuntimeCopy, stream: Stream) {
    let Some(deferral) = DEFERRAL.existing() else { return };
    let key = StreamKey::created(copy, stream.0.addr());
    let mut dependencies = deferral.dependencies();
    dependencies.capture_ends((copy.index(), stream.0.addr()));
    let entry = deferral.remove_stream(&mut dependencies, key);
    drop(dependencies);
    // The stream is forgotten before markers are recorded again. Its capture goes on, and a marker must not enter it.
    if let Some(entry) = entry {
        deferral.forget(entry, XQueues::detach_stream);
    }
    deferral.note_captures(true);
}

/// Other processes may see an event from now on.
pub(crate) fn event_shared(copy: &RuntimeCopy, event: usize) {
    deferral().dependencies().event_shared((copy.index(), event));
}

/// An event is about to be destroyed.
pub(crate) fn event_destroyed(copy: &RuntimeCopy, event: usize) {
    if let Some(deferral) = DEFERRAL.existing() {
        deferral.dependencies().remove_event((copy.index(), event));
    }
}

/// All streams of a device may be about to be destroyed.
pub(crate) fn device_reset(copy: &RuntimeCopy, device: i32) {
    let Some(deferral) = DEFERRAL.existing() else { return };
    deferral.queues.retire_gates(copy.runtime());
    let mut dependencies = deferral.dependencies();
    let removed = dependencies.remove_streams(copy.index(), device);
    for &(key, _) in &removed {
        deferral.streams.remove(key);
    }
    drop(dependencies);
    deferral.note_captures(true);
    for (_, entry) in removed {
        deferral.forget(entry, XQueues::destroy);
    }
    deferral.queues.forget_detached();
    deferral.queues.device().forget(copy, device);
}

/// Devices that were set and claimed, by copy: a bit for each of the first 64 ordinals.
static SET: [AtomicU64; COPIES_MAX] = [const { AtomicU64::new(0) }; COPIES_MAX];

/// The calling thread has set this device, or another one, and will use it.
pub(crate) fn device_set(copy: &RuntimeCopy, ordinal: Option<u32>) {
    let bit = ordinal.and_then(|ordinal| 1_u64.checked_shl(ordinal)).unwrap_or(0);
    if SET[copy.index()].load(Ordering::Relaxed) & bit != 0 {
        return;
    }
    let is_used = |deferral: &&Deferral| deferral.is_used.load(Ordering::Acquire);
    if let Some(deferral) = DEFERRAL.existing().filter(is_used)
        && let Some(device) = real::current_device(copy)
    {
        deferral.claim(copy, device, 0);
        SET[copy.index()].fetch_or(bit, Ordering::Relaxed);
    }
}

/// In a forked child: it has claimed nothing.
pub(super) fn forget_set_devices() {
    for set in &SET {
        set.store(0, Ordering::Relaxed);
    }
}

impl Deferral {
    /// Whether the runtime refuses every call, as after a fault of the device. Then deferred calls were launched:
    /// none of them runs, and each call must return the error.
    pub(super) fn is_runtime_lost(&self, copy: &RuntimeCopy) -> bool {
        let is_runtime_lost = real::current_device(copy).is_none();
        if is_runtime_lost {
            self.queues.force(&self.queues.all_last());
            self.queues.wait_all_launched();
        }
        is_runtime_lost
    }

    /// The stream of a call, and the calling thread's device. None for the per-thread stream, and for a handle that
    /// is no stream.
    pub(super) fn stream_of(
        &self,
        call: &Stopped<'_>,
        copy: &'static RuntimeCopy,
    ) -> Option<(KnownStream, i32)> {
        let device = real::current_device(copy).or(is_planted(Bug::DeferredAfterFault).then_some(0))?;
        let key = StreamKey::of(copy, call.stream_name(), device)?;
        let entry = self.streams.find(key).or_else(|| self.find_stream(copy, key, device))?;
        Some((KnownStream { key, entry }, device))
    }

    pub(super) fn find_stream(
        &self,
        copy: &'static RuntimeCopy,
        key: StreamKey,
        device: i32,
    ) -> Option<&'static StreamEntry> {
        let known = self.dependencies().stream(key);
        known.or_else(|| {
            let name = key.name();
            let (device, is_blocking) = match name {
                StreamName::Created(_) => {
                    let is_blocking = real::is_blocking(copy, name.handle())?;
                    (real::device_of(copy, name.handle()).unwrap_or(device), is_blocking)
                }
                StreamName::Legacy | StreamName::PerThread => (device, true),
            };
            Some(self.add_stream(copy, key, device, is_blocking))
        })
    }

    fn add_stream(
        &self,
        copy: &'static RuntimeCopy,
        key: StreamKey,
        device: i32,
        is_blocking: bool,
    ) -> &'static StreamEntry {
        let stream = HipStream { copy, device, name: key.name() };
        let priority = match key {
            StreamKey::Legacy { .. } => 0,
            StreamKey::Created { .. } => real::priority(copy, stream.handle()),
        };
        let claim = self.claim(copy, device, priority);
        let mut dependencies = self.dependencies();
        let entry = dependencies.add_stream(key, device, is_blocking, |status| {
            self.queues.create(stream, claim, status);
        });
        self.streams.insert(key, entry);
        entry
    }

    /// The stream of a call, if a queue was made for it.
    ///
    /// The null stream counts as known as soon as the device has a stream.
    pub(super) fn known_stream(&self, call: &Stopped<'_>, copy: &'static RuntimeCopy) -> Option<KnownStream> {
        let name = call.stream.map(|_| call.stream_name())?;
        let device = if name == StreamName::Legacy { real::current_device(copy)? } else { 0 };
        let key = StreamKey::of(copy, name, device)?;
        let known = self.dependencies().stream(key);
        let entry = match name {
            StreamName::Legacy => Some(known.unwrap_or_else(|| self.add_stream(copy, key, device, true))),
            _ => known,
        };
        Some(KnownStream { key, entry: entry? })
    }

    /// Forgets a stream, also where threads find it without a lock. Its queue still exists.
    fn remove_stream(&self, dependencies: &mut Dependencies, key: StreamKey) -> Option<&'static StreamEntry> {
        self.streams.remove(key);
        dependencies.remove_stream(key)
    }

    /// Forgets a stream's queue by `queue_goes`, and a failure that no call will return.
    fn forget(&self, entry: &'static StreamEntry, queue_goes: impl FnOnce(&XQueues<Hip>, QueueId) -> bool) {
        entry.failure.take();
        if queue_goes(&self.queues, entry.queue()) {
            self.dependencies().reuse(entry);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
