//! Which commands must not wait, and which must not be stopped: see [`crate::command`].

use crate::device::Device;
use crate::flight::Flight;
use crate::ids::{Position, QueueId};
use crate::queue::Queue;
use crate::state::State;

impl<D: Device> State<D> {
    /// Nothing but order keeps these commands from now on, nor what they come after.
    pub(crate) fn force(&mut self, positions: &[Position]) {
        let mut left = positions.to_vec();
        while let Some(position) = left.pop() {
            if let Some(queue) = self.queues.get_mut(position.queue) {
                left.extend(queue.force(position.number));
            }
        }
    }

    /// Whether nothing but order keeps the queue's next command.
    pub(super) fn is_next_forced(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_some_and(Queue::is_next_forced)
    }

    /// Nothing that is in flight is stopped from now on: a command comes after it, in its stream or another one, that must not
    /// wait for it.
    pub(crate) fn pin_all(&mut self) {
        self.may_be_pinned = true;
        self.flights_mut().filter(|flight| !flight.is_empty()).for_each(Flight::pin);
    }

    /// Whether anything is in flight, or being launched, that must not be stopped.
    pub(super) fn is_any_pinned(&mut self) -> bool {
        // Nearly always nothing is, and a launch does not look at all flights to find that.
        self.may_be_pinned = self.may_be_pinned && self.flights().any(|(_, flight)| flight.is_any_pinned());
        self.pinned_launches > 0 || self.may_be_pinned
    }
}
