//! Multilevel feedback queue: processes begin at the first of four levels, and sink by what they use. So short work goes before long
//! work without any hint.
//!
//! At each level a process may use twice the device time of the level above, beginning with a slice; then it sinks. Processes of a
//! level share the device by time, one at a time, newcomers as well. Every second all processes rise to the first level: so a process
//! that used much once is not behind for ever, and none starves. Priorities and weights have no effect.

use super::virtual_time::{Share, VirtualTime};
use super::{LOOK_EVERY, Policy, View};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct MultilevelFeedback {
    time: VirtualTime,
    /// The group of each process is its level.
    shares: Vec<Share>,
    /// [`crate::claim::Process::charged`] of each when it came to its level.
    charged_before: Vec<Nanos>,
    /// When all rise.
    rise_at: Nanos,
}

const LEVELS: u16 = 4;
const RISE_EVERY: Nanos = Nanos::from_secs(1);

impl Policy for MultilevelFeedback {
    fn joined(&mut self) {
        self.time.joined();
        self.shares.push(Share { group: 0, weight: 1 });
        // What it used under another policy does not count.
        self.charged_before.push(Nanos(u64::MAX));
    }

    fn left(&mut self, index: usize) {
        self.time.left(index);
        self.shares.swap_remove(index);
        self.charged_before.swap_remove(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        let rises = view.now >= self.rise_at;
        if rises {
            self.rise_at = view.now + RISE_EVERY;
        }
        let slice = view.settings.slice;
        for (index, process) in view.processes.iter().enumerate() {
            let (share, before) = (&mut self.shares[index], &mut self.charged_before[index]);
            let is_used_up = process.charged - *before >= allowance(share.group, slice);
            if rises {
                share.group = 0;
            } else if is_used_up {
                share.group = (share.group + 1).min(LEVELS - 1);
            }
            if rises || is_used_up {
                self.time.regroup_next();
            }
            if rises || is_used_up || *before > process.charged {
                *before = process.charged;
            }
        }
        let again = self.time.rank(view, &self.shares, ranks);
        let is_shared = view.processes.iter().filter(|process| process.ready > 0).count() > 1;
        again.into_iter().chain(self.sinks_at(view).filter(|_| is_shared)).min()
    }
}

impl MultilevelFeedback {
    /// When the process in front sinks, or all rise.
    fn sinks_at(&self, view: &View<'_>) -> Option<Nanos> {
        let with_work = |index: &usize| view.processes[*index].ready > 0;
        let highest = (0..self.shares.len())
            .filter(with_work)
            .min_by_key(|index| (self.shares[*index].group, !self.time.is_in_front(*index)))?;
        let used = view.processes[highest].charged - self.charged_before[highest];
        let left = allowance(self.shares[highest].group, view.settings.slice) - used;
        let sinks = self.shares[highest].group < LEVELS - 1 && !view.has_starvation_slice;
        let at = if sinks { view.now + left.max(LOOK_EVERY) } else { self.rise_at };
        Some(at.min(self.rise_at))
    }
}

/// The device time that a process may use at a level.
fn allowance(level: u16, slice: Nanos) -> Nanos {
    slice.times(1 << level)
}
