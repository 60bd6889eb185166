//! Changes of processes, in the order in which they take effect on what calls mean, and which processes make calls.

use std::collections::{HashSet, VecDeque};

use xsched_symbols::Change;

#[derive(Default)]
pub(super) struct Lives {
    /// Changes that happened after the records that have been resolved, with their times.
    changes: VecDeque<(u64, Change)>,
    /// Processes that have made calls: only these can have calls in progress.
    callers: HashSet<u32>,
    /// Ended processes, and when their end was noticed. Their chains are kept for a while for calls that wait.
    ended: VecDeque<(u32, u64)>,
}

impl Lives {
    pub(super) fn changed(&mut self, time_ns: u64, change: Change) {
        self.changes.push_back((time_ns, change));
    }

    /// Takes the next change if it took effect until this time.
    pub(super) fn take_until(&mut self, time_ns: u64) -> Option<(u64, Change)> {
        self.changes.pop_front_if(|(change_ns, _)| *change_ns <= time_ns)
    }

    /// A process has made a call. Returns whether it is the first.
    pub(super) fn called(&mut self, pid: u32) -> bool {
        self.callers.insert(pid)
    }

    pub(super) fn has_called(&self, pid: u32) -> bool {
        self.callers.contains(&pid)
    }

    pub(super) fn callers(&self) -> impl Iterator<Item = u32> {
        self.callers.iter().copied()
    }

    /// A process has ended, and this has taken effect.
    pub(super) fn ended(&mut self, pid: u32, now_ns: u64) {
        self.callers.remove(&pid);
        self.ended.push_back((pid, now_ns));
    }

    /// Takes the next process whose end was noticed before a time.
    pub(super) fn forget_before(&mut self, before_ns: u64) -> Option<u32> {
        self.ended.pop_front_if(|(_, ended_ns)| *ended_ns < before_ns).map(|(pid, _)| pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_take_effect_in_their_order_and_not_before_their_time() {
        let mut lives = Lives::default();
        lives.changed(5, Change::Found { pid: 1 });
        lives.changed(4, Change::Exited { pid: 1 });
        assert!(lives.take_until(4).is_none(), "the first of them is to come");
        assert!(matches!(lives.take_until(5), Some((5, Change::Found { pid: 1 }))));
        assert!(matches!(lives.take_until(5), Some((4, Change::Exited { pid: 1 }))));
        assert!(lives.called(1) && !lives.called(1) && lives.has_called(1));
        lives.ended(1, 7);
        assert!(!lives.has_called(1));
        assert_eq!((lives.forget_before(7), lives.forget_before(8)), (None, Some(1)));
    }
}
