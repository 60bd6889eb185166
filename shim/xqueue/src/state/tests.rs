//! What tests ask of the state.

use xsched_sched::Nanos;

use super::*;
use crate::clock::now;
use crate::command::DurationClass;
use crate::status::QueueStatus;

impl<D: Device> State<D> {
    /// Whether no queue is left.
    pub(crate) fn has_no_queues(&self) -> bool {
        self.queues.values().next().is_none()
    }

    /// Whether all workers sleep and nothing is being launched.
    pub(crate) fn do_workers_sleep(&self) -> bool {
        let sleeps = |queue: &Queue<D>| queue.is_worker_asleep() || !queue.has_worker();
        self.queues.values().all(|queue| !queue.is_launching() && sleeps(queue))
    }

    /// How long commands of a class usually take on a queue, if that is known.
    pub(crate) fn expected(&self, queue: QueueId, class: DurationClass) -> Option<Nanos> {
        self.queues.get(queue)?.flight().expected(class)
    }

    pub(crate) fn status_of(&self, queue: QueueId) -> Option<&'static QueueStatus> {
        self.queues.get(queue).map(Queue::status)
    }

    pub(crate) fn is_alert(&self, claim: ClaimId) -> bool {
        self.claims.get(claim).is_alert(now())
    }

    pub(crate) fn work_between_gates(&self, claim: ClaimId) -> Nanos {
        self.claims.get(claim).gate_every(now())
    }
}
