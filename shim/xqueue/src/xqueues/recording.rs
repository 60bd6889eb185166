//! What the recording of a process asks of its queues.

use crate::device::Device;
use crate::event_writer::EventWriter;
use crate::ids::{QueueId, Source};
use crate::xqueues::XQueues;

impl<D: Device> XQueues<D> {
    /// Starts the recording of the process: events are written there. None ends it.
    pub(crate) fn record(&self, events: Option<EventWriter>) {
        let mut state = self.lock();
        state.write_events_to(events);
        // All launches after the first event must be recorded, so the mode changes before that event.
        self.publish(&mut state);
        if state.is_recorded() {
            state.note_all(&self.device);
        }
        drop(state);
        self.wake_watcher();
    }

    /// Whether the process is recorded.
    pub fn is_recorded(&self) -> bool {
        self.lock_only().is_recorded()
    }

    /// Looks at all markers if the process is recorded. The host has just waited for them, or no thread would look later.
    pub fn check_all_if_recorded(&self) {
        if self.is_recorded() {
            let queues = self.lock().queue_ids();
            self.check_queues(queues.into_iter());
            // More may be launched now. The watcher does not notice that: it finds no marker left to look at.
            self.publish(&mut self.lock());
        }
    }

    /// Looks at the complete markers of these queues. A caller that has just waited for the queues knows that they are done, but
    /// not since when.
    pub(super) fn check_queues(&self, queues: impl Iterator<Item = QueueId>) {
        let paused = self.pause();
        if *paused {
            return;
        }
        queues.map(Source::Queue).for_each(|source| self.check_source(source));
    }

    /// Looks at a source's markers up to the first incomplete one. The caller holds the markers' lock.
    pub(super) fn check_source(&self, source: Source) {
        let first = || self.lock_for(source).first_marker(source);
        while first().is_some_and(|marker| self.check_marker(source, marker)) {}
    }
}
