//! The described tracks: their owners and their names.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::event::RawEvent;
use crate::{
    identity::{ProcessId, Scope, ThreadId, TrackId},
    schema::{ProcessDescriptor, TrackDescriptor},
};

#[derive(Debug, Default)]
pub(super) struct Tracks<T> {
    described: HashMap<u64, Track<T>, RandomState>,
}

#[derive(Debug)]
struct Track<T> {
    scope: Scope,
    name: T,
}

impl<T: Clone + Default> Tracks<T> {
    /// Adds a track. Returns an event, unless the track is that of a counter or of the whole trace.
    pub(super) fn describe(
        &mut self,
        descriptor: TrackDescriptor,
        intern: &mut impl FnMut(&str) -> T,
    ) -> Option<RawEvent<T>> {
        let uuid = descriptor.uuid();
        let parent = self.scope(descriptor.parent_uuid());
        let name = intern(descriptor.name());
        let (scope, event) = if let Some(thread) = descriptor.thread {
            let process = match parent {
                Scope::Process(process) => process,
                _ => ProcessId { pid: thread.pid() as u32, start_ns: 0 },
            };
            let id = ThreadId { process, tid: thread.tid() as u32 };
            (Scope::Thread(id), Some(RawEvent::Thread { id, name: thread.thread_name }))
        } else if let Some(process) = descriptor.process {
            let id = process_id(&process);
            let event = RawEvent::Process { id, name: process.process_name, cmdline: process.cmdline };
            (Scope::Process(id), Some(event))
        } else if descriptor.counter.is_some() {
            (parent, None)
        } else if uuid == Scope::Global.uuid() {
            (Scope::Global, None)
        } else {
            let id = TrackId(uuid);
            (Scope::Track(id), Some(RawEvent::Track { id, parent, name: name.clone() }))
        };
        self.described.insert(uuid, Track { scope, name });
        event
    }

    /// The scope of a track. A track that was never described has that of the whole trace.
    pub(super) fn scope(&self, uuid: u64) -> Scope {
        self.described.get(&uuid).map_or(Scope::Global, |track| track.scope)
    }

    /// The name of a track; empty if it has none.
    pub(super) fn name(&self, uuid: u64) -> T {
        self.described.get(&uuid).map(|track| track.name.clone()).unwrap_or_default()
    }
}

fn process_id(process: &ProcessDescriptor) -> ProcessId {
    ProcessId { pid: process.pid() as u32, start_ns: process.start_timestamp_ns() as u64 }
}
