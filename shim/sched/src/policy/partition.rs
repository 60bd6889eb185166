//! Utilisation partition: each process is promised a part of the device time.
//!
//! A promise holds while the process has work; what it does not use goes to the others. The processes without a promise share what is
//! left evenly, among those that have work now. If nothing is left, because promises add up to the whole or more, these processes
//! together count as one percent, and all parts shrink in proportion.
//!
//! A process that always has work gets its part. One whose work comes and goes gets it while it has work: the same part of the
//! whole, or all that it asks for. So unused time is not owed. Priorities have no effect.

use super::virtual_time::{Share, VirtualTime};
use super::{Policy, View};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct Partition {
    time: VirtualTime,
    /// Percent by process; `None`: nothing is promised.
    promised: Vec<Option<u8>>,
    /// The number of processes with work but without a promise, and the shares that follow.
    others: usize,
    shares: Vec<Share>,
}

/// Steps per percent in a share's weight.
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
            for claim in view.claims {
                let promised = &mut self.promised[claim.process];
                *promised = (*promised).max(claim.attributes.share);
            }
        }
        let others = self.promised.iter().zip(view.processes);
        let others = others.filter(|(promised, process)| promised.is_none() && process.ready > 0).count();
        if view.altered || others != self.others {
            self.others = others;
            self.divide();
        }
        self.time.rank(view, &self.shares, ranks)
    }
}

impl Partition {
    fn divide(&mut self) {
        let sum: u32 = self.promised.iter().flatten().map(|percent| u32::from(*percent)).sum();
        let others = u32::try_from(self.others).unwrap_or(u32::MAX).max(1);
        let rest = (100_u32.saturating_sub(sum).max(1) * SCALE / others).max(1);
        let weight =
            |promised: &Option<u8>| promised.map_or(rest, |percent| u32::from(percent.max(1)) * SCALE);
        self.shares.clear();
        self.shares.extend(self.promised.iter().map(|promised| Share { group: 0, weight: weight(promised) }));
    }
}
