//! Utilisation partition: each process is promised a part of the device time.
//!
//! A promise holds while the process has work; what it does not use goes to the others. Those that have been promised
//! nothing divide what is left evenly among those of them that have work now. If nothing is left, because promises come
//! to the whole or more, they are taken for one percent together, and all parts shrink in proportion.
//!
//! Who always has work gets its part; who comes and goes gets it while it is there, which is the same part of the whole
//! or all that it asked for. So time that was not used is not owed. Priorities say nothing here.

use super::virtual_time::{Claim, VirtualTime};
use super::{Policy, View};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct Partition {
    time: VirtualTime,
    /// Percent by process; `None`: nothing is promised.
    promised: Vec<Option<u8>>,
    /// How many processes with work have been promised nothing, and the claims that follow.
    others: usize,
    claims: Vec<Claim>,
}

/// Parts of a percent that a claim distinguishes.
const SCALE: u32 = 1_000;

impl Policy for Partition {
    fn joined(&mut self) {
        self.time.joined();
    }

    fn left(&mut self, index: usize) {
        self.time.left(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if view.altered {
            self.promised.clear();
            self.promised.resize(view.processes.len(), None);
            for queue in view.queues {
                let promised = &mut self.promised[queue.process];
                *promised = (*promised).max(queue.attributes.share);
            }
        }
        let others = self.promised.iter().zip(view.processes);
        let others = others.filter(|(promised, process)| promised.is_none() && process.ready > 0).count();
        if view.altered || others != self.others {
            self.others = others;
            self.claim();
        }
        self.time.rank(view, &self.claims, ranks)
    }
}

impl Partition {
    fn claim(&mut self) {
        let sum: u32 = self.promised.iter().flatten().map(|percent| u32::from(*percent)).sum();
        let others = u32::try_from(self.others).unwrap_or(u32::MAX).max(1);
        let rest = (100_u32.saturating_sub(sum).max(1) * SCALE / others).max(1);
        let weight =
            |promised: &Option<u8>| promised.map_or(rest, |percent| u32::from(percent.max(1)) * SCALE);
        self.claims.clear();
        self.claims.extend(self.promised.iter().map(|promised| Claim { group: 0, weight: weight(promised) }));
    }
}
