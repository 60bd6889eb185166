//! Forced commands, which do not wait, and pinned ones, which are not stopped: see [`crate::command`].

use crate::device::Device;
use crate::flight::Flight;
use crate::ids::{Position, QueueId};
use crate::queue::Queue;
use crate::state::State;

impl<D: Device> State<D> {
    /// Forces these commands and what they come after.
    pub(crate) fn force(&mut self, positions: &[Position]) {
        let mut left = positions.to_vec();
        while let Some(position) = left.pop() {
            if let Some(queue) = self.queues.get_mut(position.queue) {
                left.extend(queue.force(position.number));
            }
        }
    }

    /// Whether the queue's next command is forced.
    pub(super) fn is_next_forced(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_some_and(Queue::is_next_forced)
    }

    /// Pins everything in flight: a command comes after it that must not wait for it, in the same stream or another one.
    pub(crate) fn pin_all(&mut self) {
        self.may_be_pinned = true;
        self.flights_mut().filter(|flight| !flight.is_empty()).for_each(Flight::pin);
    }

    /// Whether anything pinned is in flight or being launched.
    pub(super) fn is_any_pinned(&mut self) -> bool {
        // Usually nothing is pinned, and a launch need not look at all flights to find that out.
        self.may_be_pinned = self.may_be_pinned && self.flights().any(|(_, flight)| flight.is_any_pinned());
        self.pinned_launches > 0 || self.may_be_pinned
    }
}
