//! Changes of processes, in the order in which they take effect on what calls mean.

use std::collections::VecDeque;

use xsched_symbols::Change;

/// Changes that happened after the records that have been resolved, with their times.
#[derive(Default)]
pub(super) struct Lives(VecDeque<(u64, Change)>);

impl Lives {
    pub(super) fn changed(&mut self, time_ns: u64, change: Change) {
        self.0.push_back((time_ns, change));
    }

    /// Takes the next change if it took effect until this time.
    pub(super) fn take_until(&mut self, time_ns: u64) -> Option<(u64, Change)> {
        self.0.pop_front_if(|(change_ns, _)| *change_ns <= time_ns)
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
    }
}
