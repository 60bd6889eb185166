//! Which commands a command comes after: what the shim knows of the application's streams and events while something
//! is deferred.
//!
//! The order follows from these rules of HIP:
//!
//! * A stream's work happens in order.
//! * Work on the null stream of a device comes after all earlier work of the device's blocking streams, and before
//!   all later work of them. It does not affect non-blocking streams.
//! * A wait for an event comes after the record that was the event's last when the wait was called, and before the
//!   next record. So an event that is recorded again must not be waited for at its new position.
//! * A stream ends after what was called before for it, on other streams as well.

use foldhash::{HashMap, HashSet};

use crate::defer::streams::{StreamEntry, StreamKey};
use crate::planted::{Bug, is_planted};
use xsched_xqueue::{Device, Position, QueueId, QueueStatus, XQueues};

/// An event: its runtime copy, and its handle.
pub(super) type EventKey = (usize, usize);

/// Deferred commands that use an event.
#[derive(Clone, Debug, Default)]
struct EventEntry {
    /// Its last record.
    record: Option<Position>,
    /// Waits for that record, or for an earlier one that was not deferred.
    waits: Vec<Position>,
    /// Waits for earlier records.
    former_waits: Vec<Position>,
}

/// How a command uses an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventUse {
    Record(EventKey),
    Wait(EventKey),
    /// No event, but memory by its address, which the command frees. A second free of it comes after the first, and
    /// fails.
    Free(EventKey),
}

impl EventUse {
    /// The event, if it is one.
    pub(super) fn event(self) -> Option<EventKey> {
        match self {
            Self::Record(event) | Self::Wait(event) => Some(event),
            Self::Free(_) => None,
        }
    }
}

#[derive(Default)]
pub(super) struct Dependencies {
    streams: HashMap<StreamKey, &'static StreamEntry>,
    /// Entries of forgotten streams, to be used again.
    spare: Vec<&'static StreamEntry>,
    events: HashMap<EventKey, EventEntry>,
    /// Events that are known to exist, and the number of destroyed events when that was last checked.
    alive: (u64, HashSet<EventKey>),
    /// Events that other processes may see.
    shared: HashSet<EventKey>,
    /// Streams on which captures began: copy and handle.
    captures: HashSet<(usize, usize)>,
    /// Executable graphs that concern only the stream on which they are launched: copy and handle.
    alone: HashSet<(usize, usize)>,
}

/// When there are more events, those with nothing to remember are forgotten.
const EVENTS_MAX: usize = 1024;

impl Dependencies {
    pub(super) fn stream(&self, key: StreamKey) -> Option<&'static StreamEntry> {
        self.streams.get(&key).copied()
    }

    /// Adds a stream, for which `create` makes a queue. Returns the entry that another thread has made meanwhile, if
    /// there is one.
    pub(super) fn add_stream(
        &mut self,
        key: StreamKey,
        device: i32,
        is_blocking: bool,
        create: impl FnOnce(&'static QueueStatus),
    ) -> &'static StreamEntry {
        let Self { streams, spare, .. } = self;
        streams.entry(key).or_insert_with(|| {
            let entry = spare.pop().unwrap_or_else(|| Box::leak(Box::default()));
            entry.assign(device, is_blocking);
            create(&entry.status);
            entry
        })
    }

    /// Forgets a stream. Its queue still exists.
    pub(super) fn remove_stream(&mut self, key: StreamKey) -> Option<&'static StreamEntry> {
        self.streams.remove(&key)
    }

    /// Takes the entry of a forgotten stream back, whose queue is gone.
    pub(super) fn reuse(&mut self, entry: &'static StreamEntry) {
        self.spare.push(entry);
    }

    /// All queues.
    #[cfg(feature = "test-switches")]
    pub(super) fn queues(&self) -> Vec<QueueId> {
        self.streams.values().map(|entry| entry.queue()).collect()
    }

    /// The commands that a command on a stream comes after by the rules of null streams.
    pub(super) fn predecessors_on<D: Device>(&self, key: StreamKey, queues: &XQueues<D>) -> Vec<Position> {
        let Some(entry) = self.stream(key) else { return Vec::new() };
        match key {
            StreamKey::Legacy { .. } if is_planted(Bug::NullStreamAlone) => Vec::new(),
            StreamKey::Legacy { copy, device } => self.blocking(copy, device, queues),
            StreamKey::Created { .. } if is_planted(Bug::BlockingStreamAlone) => Vec::new(),
            StreamKey::Created { copy, .. } if entry.is_blocking() => {
                self.last_of_null(copy, entry.device(), queues).into_iter().collect()
            }
            StreamKey::Created { .. } => Vec::new(),
        }
    }

    /// The last commands of a device's blocking streams, if they are deferred.
    pub(super) fn blocking<D: Device>(&self, copy: usize, device: i32, queues: &XQueues<D>) -> Vec<Position> {
        let blocking = self.streams.iter().filter(|(key, entry)| {
            // A clear stream has no deferred commands.
            !entry.status.is_clear()
                && entry.is_blocking()
                && entry.device() == device
                && key.copy() == copy
                && matches!(key, StreamKey::Created { .. })
        });
        blocking.filter_map(|(_, entry)| queues.last_for_others(entry.queue())).collect()
    }

    /// The queues of a device's streams.
    pub(super) fn queues_of(&self, copy: usize, device: i32) -> Vec<QueueId> {
        let on_device =
            self.streams.iter().filter(|(key, entry)| key.copy() == copy && entry.device() == device);
        on_device.map(|(_, entry)| entry.queue()).collect()
    }

    /// The last command of a device's null stream, if it is deferred.
    pub(super) fn last_of_null<D: Device>(
        &self,
        copy: usize,
        device: i32,
        queues: &XQueues<D>,
    ) -> Option<Position> {
        queues.last_for_others(self.stream(StreamKey::Legacy { copy, device })?.queue())
    }

    /// The deferred commands of other streams that concern a stream: waits for records that may be its own, and, if it is
    /// blocking, the null stream's.
    ///
    /// They must be launched before the stream ends. While the runtime destroys it, it takes its events for complete (6.4: a wait
    /// for one then waits for nothing), and what the null stream waits for is taken away under it (7.2).
    pub(super) fn concerning<D: Device>(&self, key: StreamKey, queues: &XQueues<D>) -> Vec<Position> {
        let entry = self.stream(key);
        let own = entry.map(StreamEntry::queue);
        let mut concerning = Vec::new();
        for event in self.events.iter().filter(|((copy, _), _)| *copy == key.copy()).map(|(_, event)| event) {
            concerning.extend(&event.former_waits);
            // A record that was not deferred leaves no trace, so it may have been on this stream.
            let is_elsewhere =
                |record: Position| Some(record.queue) != own && !queues.are_launched(&[record]);
            if !event.record.is_some_and(is_elsewhere) {
                concerning.extend(&event.waits);
            }
        }
        if let Some(entry) = entry.filter(|entry| entry.is_blocking()) {
            concerning.extend(self.last_of_null(key.copy(), entry.device(), queues));
        }
        concerning
    }

    /// The last commands of a copy's null streams, if they are deferred.
    pub(super) fn null_streams<D: Device>(&self, copy: usize, queues: &XQueues<D>) -> Vec<Position> {
        let is_null = |key: &StreamKey| matches!(key, StreamKey::Legacy { copy: of, .. } if *of == copy);
        let null = self.streams.iter().filter(|(key, _)| is_null(key));
        null.filter_map(|(_, entry)| queues.last_for_others(entry.queue())).collect()
    }

    /// The commands that a command with these uses comes after.
    pub(super) fn predecessors_of_uses(&self, uses: &[EventUse]) -> Vec<Position> {
        let mut before = Vec::new();
        for used in uses {
            let (EventUse::Record(event) | EventUse::Wait(event) | EventUse::Free(event)) = used;
            let Some(entry) = self.events.get(event) else { continue };
            before.extend(entry.record);
            if matches!(used, EventUse::Record(_)) && !is_planted(Bug::EarlyRecord) {
                before.extend(&entry.waits);
            }
        }
        before
    }

    /// Notes that a command with these uses was deferred.
    pub(super) fn used<D: Device>(&mut self, uses: &[EventUse], position: Position, queues: &XQueues<D>) {
        if self.events.len() > EVENTS_MAX {
            self.events.retain(|_, entry| {
                let record = entry.record.as_slice();
                let waits = [&entry.waits[..], &entry.former_waits].concat();
                !(queues.are_launched(record) && queues.are_launched(&waits))
            });
        }
        for used in uses {
            match *used {
                EventUse::Record(_) if is_planted(Bug::LostRecord) => {}
                EventUse::Record(event) | EventUse::Free(event) => {
                    let entry = self.events.entry(event).or_default();
                    entry.record = Some(position);
                    entry.former_waits.retain(|wait| !queues.are_launched(&[*wait]));
                    entry.former_waits.append(&mut entry.waits);
                }
                EventUse::Wait(event) => {
                    let entry = self.events.entry(event).or_default();
                    // A queue's later wait stands for its earlier ones.
                    entry.waits.retain(|wait| wait.queue != position.queue);
                    entry.waits.push(position);
                }
            }
        }
    }

    /// The event's last record, or the command that frees the memory, if it was deferred.
    pub(super) fn record_of(&self, event: EventKey) -> Option<Position> {
        self.events.get(&event)?.record
    }

    /// Whether an event is known to exist, at this count of destroyed events.
    pub(super) fn is_alive(&self, event: EventKey, destroyed: u64) -> bool {
        self.alive.0 == destroyed && self.alive.1.contains(&event)
    }

    /// Notes that it exists.
    pub(super) fn exists(&mut self, event: EventKey, destroyed: u64) {
        if self.alive.0 != destroyed {
            self.alive = (destroyed, HashSet::default());
        }
        self.alive.1.insert(event);
    }

    /// Forgets an event.
    pub(super) fn remove_event(&mut self, event: EventKey) {
        self.events.remove(&event);
        self.shared.remove(&event);
    }

    /// Notes an event that other processes may see.
    pub(super) fn event_shared(&mut self, event: EventKey) {
        self.shared.insert(event);
    }

    /// Whether other processes may see an event.
    pub(super) fn is_shared(&self, event: EventKey) -> bool {
        self.shared.contains(&event)
    }

    /// Notes that a capture begins. False if the stream captures already.
    pub(super) fn capture_begins(&mut self, stream: (usize, usize)) -> bool {
        self.captures.insert(stream)
    }

    /// Notes that it ends.
    pub(super) fn capture_ends(&mut self, stream: (usize, usize)) {
        if is_planted(Bug::CapturesEndTogether) {
            self.captures.clear();
        }
        self.captures.remove(&stream);
    }

    /// Notes an executable graph, and whether it concerns only the stream on which it is launched.
    pub(super) fn graph_instantiated(&mut self, graph: (usize, usize), is_alone: bool) {
        if is_alone {
            self.alone.insert(graph);
        } else {
            self.alone.remove(&graph);
        }
    }

    /// Forgets an executable graph.
    pub(super) fn graph_destroyed(&mut self, graph: (usize, usize)) {
        self.alone.remove(&graph);
    }

    /// Whether a graph is known to concern only the stream on which it is launched.
    pub(super) fn is_graph_alone(&self, graph: (usize, usize)) -> bool {
        self.alone.contains(&graph)
    }

    /// Forgets all streams of a device, and what may have gone with them; returns their entries. Streams and captures of other
    /// devices go on.
    pub(super) fn remove_streams(
        &mut self,
        copy: usize,
        device: i32,
    ) -> Vec<(StreamKey, &'static StreamEntry)> {
        let streams = &self.streams;
        let is_elsewhere = |&(of, handle): &(usize, usize)| {
            let key = StreamKey::Created { copy: of, handle };
            of != copy || streams.get(&key).is_some_and(|entry| entry.device() != device)
        };
        self.captures.retain(is_elsewhere);
        // An event that other processes see may be of another device. A graph that is forgotten only waits more.
        self.alone.retain(|&(of, _)| of != copy);
        self.alive.1.clear();
        let is_meant = |key: &StreamKey, entry: &StreamEntry| key.copy() == copy && entry.device() == device;
        self.streams.extract_if(|key, entry| is_meant(key, entry)).collect()
    }

    /// Whether any stream captures.
    pub(super) fn is_any_capturing(&self) -> bool {
        !self.captures.is_empty() && !is_planted(Bug::CaptureDeferred)
    }
}

#[cfg(test)]
mod tests;
