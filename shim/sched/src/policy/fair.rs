//! Weighted fair share: processes of equal priority share device time in proportion to their weights; a higher priority
//! goes first.
//!
//! A process with several claims has the highest priority and the largest weight of them. Its own stream priorities order
//! its streams while it is in front.

use super::virtual_time::{Share, VirtualTime};
use super::{Policy, View, downwards};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct Fair {
    time: VirtualTime,
    shares: Vec<Share>,
}

impl Policy for Fair {
    fn joined(&mut self) {
        self.time.joined();
    }

    fn left(&mut self, index: usize) {
        self.time.left(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if view.altered {
            self.shares.clear();
            self.shares.resize(view.processes.len(), Share { group: u16::MAX, weight: 1 });
            for claim in view.claims {
                let share = &mut self.shares[claim.process];
                share.group = share.group.min(downwards(claim.attributes.priority));
                share.weight = share.weight.max(claim.attributes.weight);
            }
        }
        self.time.rank(view, &self.shares, ranks)
    }
}
