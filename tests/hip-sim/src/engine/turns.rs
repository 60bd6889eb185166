//! The order in which streams' commands go through the hardware queue that they share.
//!
//! A command takes its turn when it is submitted, as a genuine runtime writes its packets then. What waits (for an event, a
//! value, a function of the host) is a barrier in the queue: it keeps its turn until it need not wait any more, and whatever
//! was submitted to the queue after it, by whichever stream, stays behind it.
//!
//! Nothing waits for what was submitted later, so turns alone hang nobody. A stream that waits for a value which a later
//! command of the same queue would write does hang, as on hardware.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::Completion;

/// A command's place among those of its hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn(u64);

/// See the module.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    passed: Condvar,
}

#[derive(Default)]
struct State {
    taken: u64,
    passed: u64,
    way: Way,
    sleepers: usize,
}

/// What a command whose turn has come finds before it.
#[derive(Clone, Default)]
pub(super) struct Way {
    /// When the last barrier was gone; nothing behind it starts earlier.
    pub(super) free_ns: u64,
    /// Of the packet before: what is no packet itself ends after it.
    pub(super) last: Option<Arc<Completion>>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// The next turn. It must be passed some time.
    pub(super) fn take(&self) -> Turn {
        let mut state = self.lock();
        state.taken += 1;
        Turn(state.taken - 1)
    }

    /// None if somebody before has not passed.
    pub(super) fn way(&self, turn: Turn) -> Option<Way> {
        let state = self.lock();
        (state.passed == turn.0).then(|| state.way.clone())
    }

    /// Sleeps until a turn has come; another thread may have passed it by then.
    pub(super) fn wait(&self, turn: Turn) {
        let mut state = self.lock();
        state.sleepers += 1;
        while state.passed < turn.0 {
            state = self.passed.wait(state).expect("no holder panics");
        }
        state.sleepers -= 1;
    }

    /// The command whose turn it is has become a packet.
    pub(super) fn pass_packet(&self, turn: Turn, completion: &Arc<Completion>) {
        self.pass(turn, |way| way.last = Some(Arc::clone(completion)));
    }

    /// The command whose turn it is was a barrier until then.
    pub(super) fn pass_barrier(&self, turn: Turn, end_ns: u64) {
        self.pass(turn, |way| way.free_ns = way.free_ns.max(end_ns));
    }

    fn pass(&self, turn: Turn, change: impl FnOnce(&mut Way)) {
        let mut state = self.lock();
        debug_assert_eq!(state.passed, turn.0, "somebody passed out of turn");
        state.passed += 1;
        change(&mut state.way);
        if state.sleepers > 0 {
            self.passed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_the_order_in_which_they_were_taken() {
        let turns = Turns::default();
        let (first, second) = (turns.take(), turns.take());
        assert!(turns.way(first).is_some() && turns.way(second).is_none());
        turns.pass_barrier(first, 7);
        let way = turns.way(second).unwrap();
        assert_eq!((way.free_ns, way.last.is_none()), (7, true));
        let completion = Arc::default();
        turns.pass_packet(second, &completion);
        let way = turns.way(turns.take()).unwrap();
        assert_eq!(way.free_ns, 7);
        assert!(Arc::ptr_eq(&way.last.unwrap(), &completion));
        turns.wait(first);
    }
}
