//! Reads the events of the arbiter page, and notices when some were lost.

use xsched_arbiter::Arbiter;
use xsched_protocol::arbiter_page::{ArbiterEvent, Word};

pub(super) struct Changes {
    /// [`Word::EVENTS_LOST`] when it was last compared.
    lost: u64,
    /// Reused between calls.
    events: Vec<ArbiterEvent>,
}

impl Changes {
    /// Losses until now do not count.
    pub(super) fn from_now(arbiter: &Arbiter) -> Self {
        Self { lost: arbiter.page().load(Word::EVENTS_LOST), events: Vec::new() }
    }

    /// The events since the last call.
    pub(super) fn take(&mut self, arbiter: &mut Arbiter) -> Vec<ArbiterEvent> {
        let mut events = std::mem::take(&mut self.events);
        arbiter.drain(&mut events);
        events
    }

    /// Whether events were lost since the last call.
    pub(super) fn have_been_lost(&mut self, arbiter: &Arbiter) -> bool {
        let lost = arbiter.page().load(Word::EVENTS_LOST);
        std::mem::replace(&mut self.lost, lost) != lost
    }

    /// Takes back the memory of events that have been handled.
    pub(super) fn reuse(&mut self, mut events: Vec<ArbiterEvent>) {
        events.clear();
        self.events = events;
    }
}
