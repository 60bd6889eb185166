//! The described tracks, and the slices that are open on each.
//!
//! Slices are paired in the order of the file: an end closes the last begin on its track. Perfetto pairs in
//! order of time; for what [`crate::TraceWriter`] writes, begin and end side by side, the results agree, and
//! nothing needs to be sorted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use foldhash::fast::RandomState;

use crate::{
    identity::{ProcessId, Scope, ThreadId, TrackId},
    read::{Event, OwnedSlice},
    schema::{ProcessDescriptor, TrackDescriptor},
};

#[derive(Debug, Default)]
pub(super) struct Tracks {
    described: HashMap<u64, Track, RandomState>,
    /// Ordered, so that unfinished slices are given in the same order each time.
    open: BTreeMap<u64, Vec<OwnedSlice>>,
}

#[derive(Debug)]
struct Track {
    scope: Scope,
    name: Arc<str>,
}

impl Tracks {
    /// Takes note of a descriptor; an event comes of it unless it is of a counter or of the trace as a whole.
    pub(super) fn describe(&mut self, descriptor: TrackDescriptor) -> Option<Event> {
        let uuid = descriptor.uuid();
        let parent = self.scope(descriptor.parent_uuid());
        let name: Arc<str> = descriptor.name().into();
        let (scope, event) = if let Some(thread) = descriptor.thread {
            let process = match parent {
                Scope::Process(process) => process,
                _ => ProcessId { pid: thread.pid() as u32, start_ns: 0 },
            };
            let id = ThreadId { process, tid: thread.tid() as u32 };
            (Scope::Thread(id), Some(Event::Thread { id, name: thread.thread_name }))
        } else if let Some(process) = descriptor.process {
            let id = process_id(&process);
            let event = Event::Process { id, name: process.process_name, cmdline: process.cmdline };
            (Scope::Process(id), Some(event))
        } else if descriptor.counter.is_some() {
            (parent, None)
        } else if uuid == Scope::Global.uuid() {
            (Scope::Global, None)
        } else {
            let id = TrackId(uuid);
            (Scope::Track(id), Some(Event::Track { id, parent, name: Arc::clone(&name) }))
        };
        self.described.insert(uuid, Track { scope, name });
        event
    }

    /// Where a track is shown; one that was never described, in the trace as a whole.
    pub(super) fn scope(&self, uuid: u64) -> Scope {
        self.described.get(&uuid).map_or(Scope::Global, |track| track.scope)
    }

    /// The name of a track; empty if it has none.
    pub(super) fn name(&self, uuid: u64) -> Arc<str> {
        self.described.get(&uuid).map(|track| track.name.clone()).unwrap_or_default()
    }

    pub(super) fn begin(&mut self, uuid: u64, slice: OwnedSlice) {
        self.open.entry(uuid).or_default().push(slice);
    }

    /// The slice that ends; `None` if none is open.
    pub(super) fn end(&mut self, uuid: u64, end_ns: u64) -> Option<OwnedSlice> {
        let mut slice = self.open.get_mut(&uuid)?.pop()?;
        slice.end_ns = Some(end_ns);
        Some(slice)
    }

    /// What never ended.
    pub(super) fn take_unfinished(&mut self) -> impl Iterator<Item = OwnedSlice> + use<> {
        std::mem::take(&mut self.open).into_values().flatten()
    }
}

fn process_id(process: &ProcessDescriptor) -> ProcessId {
    ProcessId { pid: process.pid() as u32, start_ns: process.start_timestamp_ns() as u64 }
}
