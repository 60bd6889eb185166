//! Earliest deadline first: the process whose request is due first has the device, or the first K side by side.
//!
//! Processes without a deadline share what those with one leave, as under `fair`. `side_by_side` says how many run at once: more fill a device
//! that one does not, and each then takes longer. Only processes that have work count.

use super::jobs::{Jobs, has_deadline};
use super::order::Order;
use super::{Policy, View};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct EarliestDeadline {
    jobs: Jobs,
    order: Order,
}

impl Policy for EarliestDeadline {
    fn joined(&mut self) {
        self.jobs.joined();
        self.order.joined();
    }

    fn left(&mut self, index: usize) {
        self.jobs.left(index);
        self.order.left(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        self.jobs.follow(view);
        for process in 0..view.processes.len() {
            self.order.set_standing(process, self.jobs.standing(process, view.now, |job| job.deadline));
        }
        let side_by_side = view.settings.side_by_side as usize;
        let again = self.order.rank(view, side_by_side, has_deadline, ranks);
        again.into_iter().chain(self.jobs.again(view, self.order.in_front())).min()
    }
}
