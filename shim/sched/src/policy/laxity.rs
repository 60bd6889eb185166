//! Least laxity first: the process that can wait for the shortest time has the device. Its laxity is the time until the deadline of
//! its request, less the device time that the request still needs: what its process has said, or what its requests usually take.
//!
//! The laxity of the process in front stays, while that of the others shrinks: equals would change places at every look. So another
//! comes to the front when its laxity is shorter by a slice, or by half. Processes without a deadline share what is left, as under `fair`.

use super::jobs::{Jobs, has_deadline};
use super::order::{Claim, Order};
use super::{LOOK_EVERY, Policy, View};
use crate::Nanos;
use crate::ranks::Ranks;

#[derive(Debug, Default)]
pub(crate) struct LeastLaxity {
    jobs: Jobs,
    order: Order,
    /// When each process would have to begin to be done in time; the one in front is put first by a slice.
    begins: Vec<Option<Nanos>>,
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
        self.begins.clear();
        for (index, process) in view.processes.iter().enumerate() {
            let begins = self.jobs.of(index).map(|job| {
                let begins = job.deadline - self.jobs.work_left(index, process);
                let bonus = view.settings.slice.min((begins - view.now) / 2);
                if self.order.is_in_front(index) { begins - bonus } else { begins }
            });
            self.begins.push(begins);
            self.order.claim(index, begins.map_or(Claim::Sharing, |begins| Claim::Urgent(begins.0)));
        }
        let again = self.order.rank(view, 1, has_deadline, ranks);
        let jobs = self.jobs.again(view, self.order.in_front());
        again.into_iter().chain(jobs).chain(self.overtaken(view)).min()
    }
}

impl LeastLaxity {
    /// When another process may come to the front: while one runs, what it has left shrinks.
    fn overtaken(&self, view: &View<'_>) -> Option<Nanos> {
        let front = self.order.in_front().next()?;
        let others = self.begins.iter().enumerate().filter(|(index, _)| *index != front);
        let next = others.filter_map(|(_, begins)| *begins).min()?;
        let head_start = next - self.begins[front]? + LOOK_EVERY;
        (!view.has_starvation_slice).then(|| view.now + head_start)
    }
}
