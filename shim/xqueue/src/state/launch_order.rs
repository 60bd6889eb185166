//! In which order deferred commands are launched: the oldest of all queues first.

use std::collections::BTreeMap;

use xsched_sched::Nanos;

use crate::clock::now;
use crate::ids::QueueId;

/// How long a launch that does not return keeps younger commands of other queues waiting. After that they go first: the launch
/// may itself wait for them.
const PATIENCE: Nanos = Nanos::from_millis(10);

/// The queues with deferred commands, by tickets: numbers of commands among all commands of all queues.
///
/// A program may have thousands of queues, and a launch looks at the oldest ones only.
#[derive(Debug, Default)]
pub(super) struct LaunchOrder {
    /// The next command of each queue that has one and is not launching.
    next: BTreeMap<u64, QueueId>,
    /// The commands whose launches have begun and have not returned, and when they began.
    launching: BTreeMap<u64, (QueueId, Nanos)>,
}

impl LaunchOrder {
    /// A queue's next command is this one. The queue is not launching, and had none.
    pub(super) fn has_next(&mut self, ticket: u64, queue: QueueId) {
        self.next.insert(ticket, queue);
    }

    /// The launch of a queue's next command begins. `ticket` is the command's that is launched.
    pub(super) fn begins(&mut self, next: u64, ticket: u64, queue: QueueId) {
        self.next.remove(&next);
        self.launching.insert(ticket, (queue, now()));
    }

    /// That launch has returned.
    pub(super) fn returned(&mut self, ticket: u64) {
        self.launching.remove(&ticket);
    }

    /// Queues that have a next command and are not launching: first the one whose command is the oldest.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = (u64, QueueId)> {
        self.next.iter().map(|(&ticket, &queue)| (ticket, queue))
    }

    /// Queues with a deferred command whose launch has not returned, in no order.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.next.values().copied().chain(self.launching.values().map(|&(queue, _)| queue))
    }

    /// Whether an older command than this one is being launched, since less than [`PATIENCE`].
    pub(super) fn is_older_launching(&self, ticket: u64) -> bool {
        self.launching.range(..ticket).any(|(_, &(_, since))| now() - since < PATIENCE)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty() && self.launching.is_empty()
    }
}
