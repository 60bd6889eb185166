//! The order in which streams' commands pass through the hardware queue that they share.
//!
//! A command gets its position when it is submitted, because that is when a genuine runtime writes its
//! packets. A command that waits (for an event, a value, a host function) is a barrier in the queue. It keeps
//! its position until its wait ends, and everything submitted to the queue later, by any stream, stays behind
//! it.
//!
//! No command waits for one that was submitted later, so this order alone cannot deadlock. A stream that
//! waits for a value which a later command of the same queue would write does hang, as on hardware.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::Completion;

/// A command's position among those of its hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(u64);

/// The submission order of one hardware queue.
#[derive(Default)]
pub(super) struct SubmissionOrder {
    state: Mutex<State>,
    passed: Condvar,
}

#[derive(Default)]
struct State {
    taken: u64,
    passed: u64,
    predecessors: Predecessors,
    sleepers: usize,
}

/// The commands before the one that passes next.
#[derive(Clone, Default)]
pub(super) struct Predecessors {
    /// When the last barrier ended; nothing behind it starts earlier.
    pub(super) free_ns: u64,
    /// The last packet. A command that is not a packet itself ends after it.
    pub(super) last: Option<Arc<Completion>>,
}

impl SubmissionOrder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// The next position. The caller must pass it eventually.
    pub(super) fn next_position(&self) -> Position {
        let mut state = self.lock();
        state.taken += 1;
        Position(state.taken - 1)
    }

    /// None if an earlier position has not passed.
    pub(super) fn predecessors(&self, position: Position) -> Option<Predecessors> {
        let state = self.lock();
        (state.passed == position.0).then(|| state.predecessors.clone())
    }

    /// Sleeps until all earlier positions have passed; another thread may have passed this one by then.
    pub(super) fn wait(&self, position: Position) {
        let mut state = self.lock();
        state.sleepers += 1;
        while state.passed < position.0 {
            state = self.passed.wait(state).expect("no holder panics");
        }
        state.sleepers -= 1;
    }

    /// Passes the command at this position, which has become a packet.
    pub(super) fn pass_packet(&self, position: Position, completion: &Arc<Completion>) {
        self.pass(position, |predecessors| predecessors.last = Some(Arc::clone(completion)));
    }

    /// Passes the command at this position, which was a barrier until `end_ns`.
    pub(super) fn pass_barrier(&self, position: Position, end_ns: u64) {
        self.pass(position, |predecessors| predecessors.free_ns = predecessors.free_ns.max(end_ns));
    }

    fn pass(&self, position: Position, change: impl FnOnce(&mut Predecessors)) {
        let mut state = self.lock();
        debug_assert_eq!(state.passed, position.0, "commands pass in the order of submission");
        state.passed += 1;
        change(&mut state.predecessors);
        if state.sleepers > 0 {
            self.passed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_pass_in_the_order_in_which_they_were_taken() {
        let order = SubmissionOrder::default();
        let (first, second) = (order.next_position(), order.next_position());
        assert!(order.predecessors(first).is_some() && order.predecessors(second).is_none());
        order.pass_barrier(first, 7);
        let predecessors = order.predecessors(second).unwrap();
        assert_eq!((predecessors.free_ns, predecessors.last.is_none()), (7, true));
        let completion = Arc::default();
        order.pass_packet(second, &completion);
        let predecessors = order.predecessors(order.next_position()).unwrap();
        assert_eq!(predecessors.free_ns, 7);
        assert!(Arc::ptr_eq(&predecessors.last.unwrap(), &completion));
        order.wait(first);
    }
}
