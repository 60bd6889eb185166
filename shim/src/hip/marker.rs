//! Markers: HIP events of the shim, recorded behind an application's work to see when that is complete.
//!
//! HIP events are created once and used again. They belong to a device, and are recorded while that is the calling
//! thread's device: a null stream is that of the current device.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use xsched_sched::Nanos;

use crate::abi::{Event, Stream};
use crate::hip::real;
use crate::runtime::copies::RuntimeCopy;
use crate::runtime::stopped::StreamName;

/// A stream, by a name that all threads of the process understand; but a per-thread stream is the calling thread's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipStream {
    pub(crate) copy: &'static RuntimeCopy,
    pub(crate) device: i32,
    pub(crate) name: StreamName,
}

impl HipStream {
    pub(crate) fn handle(self) -> Stream {
        self.name.handle()
    }

    /// Whether it has nothing left to do; None if the runtime does not say.
    pub(crate) fn is_done(self) -> Option<bool> {
        self.on_its_device(|| real::is_stream_done(self.copy, self.handle()))
    }

    /// Runs `act` while its device is the calling thread's.
    pub(crate) fn on_its_device<R>(self, act: impl FnOnce() -> Option<R>) -> Option<R> {
        let before = real::current_device(self.copy)?;
        if before != self.device {
            real::set_device(self.copy, self.device);
        }
        let done = act();
        if before != self.device {
            real::set_device(self.copy, before);
        }
        done
    }
}

/// A HIP event that was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipMarker {
    copy: &'static RuntimeCopy,
    device: i32,
    event: usize,
}

impl PartialEq for HipMarker {
    fn eq(&self, other: &Self) -> bool {
        (self.copy.index(), self.event) == (other.copy.index(), other.event)
    }
}

impl Eq for HipMarker {}

impl HipMarker {
    /// Whether everything before it has completed. True if the runtime cannot tell, so that waits end.
    pub(crate) fn is_complete(self) -> bool {
        !real::is_event_pending(self.copy, self.event())
    }

    /// Device time since an earlier marker that is complete as well.
    pub(crate) fn since(self, earlier: Self) -> Option<Nanos> {
        real::device_time(self.copy, earlier.event(), self.event())
    }

    fn event(self) -> Event {
        Event(std::ptr::without_provenance_mut(self.event))
    }
}

/// HIP events that are not in use, by copy and device.
#[derive(Debug, Default)]
pub(crate) struct MarkerPool(Mutex<HashMap<(usize, i32), Vec<usize>>>);

impl MarkerPool {
    /// Records a marker; None if the runtime refuses.
    pub(crate) fn record(&self, stream: HipStream) -> Option<HipMarker> {
        let HipStream { copy, device, .. } = stream;
        stream.on_its_device(|| {
            let spare = self.spare(copy, device);
            let event = spare.or_else(|| real::create_event(copy).map(|event| event.0.addr()))?;
            let marker = HipMarker { copy, device, event };
            let is_recorded = real::record_event(copy, marker.event(), stream.handle());
            if !is_recorded {
                self.retire(marker);
            }
            is_recorded.then_some(marker)
        })
    }

    pub(crate) fn retire(&self, marker: HipMarker) {
        self.with(marker.copy, marker.device, |spare| spare.push(marker.event));
    }

    fn spare(&self, copy: &RuntimeCopy, device: i32) -> Option<usize> {
        self.with(copy, device, Vec::pop)
    }

    fn with<R>(&self, copy: &RuntimeCopy, device: i32, act: impl FnOnce(&mut Vec<usize>) -> R) -> R {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(all.entry((copy.index(), device)).or_default())
    }

    /// A device was reset: its HIP events do not exist any more.
    pub(crate) fn forget(&self, copy: &RuntimeCopy, device: i32) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&(copy.index(), device));
    }
}
