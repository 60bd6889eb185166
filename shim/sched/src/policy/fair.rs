//! Weighted fair share: processes of equal priority share device time in proportion to their weights; a higher priority
//! goes first.
//!
//! A process with several queues has the highest priority and the largest weight of them. Its own stream priorities order
//! its streams while it is in front.

use super::virtual_time::{Claim, VirtualTime};
use super::{Answer, Policy, View, downwards};
use crate::level::Rank;

#[derive(Debug, Default)]
pub(super) struct Fair {
    time: VirtualTime,
    claims: Vec<Claim>,
}

impl Policy for Fair {
    fn joined(&mut self) {
        self.time.joined();
    }

    fn left(&mut self, index: usize) {
        self.time.left(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut [Rank]) -> Answer {
        if view.altered {
            self.claims.clear();
            self.claims.resize(view.processes.len(), Claim { group: u16::MAX, weight: 1 });
            for queue in view.queues {
                let claim = &mut self.claims[queue.process];
                claim.group = claim.group.min(downwards(queue.attributes.priority));
                claim.weight = claim.weight.max(queue.attributes.weight);
            }
        }
        let answer = self.time.elect(view, &self.claims);
        if answer.changed {
            for (queue, rank) in view.queues.iter().zip(ranks) {
                *rank = self.time.rank(queue);
            }
        }
        answer
    }
}
