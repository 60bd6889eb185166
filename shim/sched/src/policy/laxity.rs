//! Least laxity first: the process that can wait for the shortest time has the device. Its laxity is the time until the deadline
//! of its request, less the device time that the request still needs. The process has said that time, or it is what the process's
//! requests usually take.
//!
//! The laxity of the process in front stays, while that of the others shrinks: equals would change places at every look. So another
//! comes to the front when its laxity is shorter by a slice, or by half. Processes without a deadline share what is left, as under `fair`.

use super::jobs::{Jobs, has_deadline};
use super::order::Order;
use super::{LOOK_EVERY, Policy, View};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct LeastLaxity {
    jobs: Jobs,
    order: Order,
}

impl Policy for LeastLaxity {
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
        for (index, process) in view.processes.iter().enumerate() {
            let standing = self.jobs.standing(index, view.now, |job| {
                // When it would have to begin to be done in time.
                let begins = job.deadline - self.jobs.work_left(index, process);
                let slice = view.settings.slice;
                // Of those that are late already, one stays in front for a slice.
                let bonus = if begins <= view.now { slice } else { slice.min((begins - view.now) / 2) };
                if self.order.is_in_front(index) { begins - bonus } else { begins }
            });
            self.order.set_standing(index, standing);
        }
        let again = self.order.rank(view, 1, has_deadline, ranks);
        let jobs = self.jobs.again(view, self.order.in_front());
        // While the one in front runs, it gets nearer to its end, and its lead shrinks.
        let lead = self.order.lead().filter(|_| !view.has_starvation_slice);
        again.into_iter().chain(jobs).chain(lead.map(|lead| view.now + Nanos(lead) + LOOK_EVERY)).min()
    }
}
