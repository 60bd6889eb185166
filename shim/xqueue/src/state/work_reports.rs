//! When claims report to the arbiter that they are ready or idle.

use std::sync::Arc;

use xsched_sched::Nanos;

use crate::claim::{Claim, Work};
use crate::clock::now;
use crate::device::Device;
use crate::ids::{ClaimId, QueueId, Source};
use crate::queue::Queue;
use crate::registration::Registration;
use crate::state::State;

impl<D: Device> State<D> {
    /// Gives a claim a registration with the arbiter, or takes its registration away.
    pub(crate) fn register(&mut self, claim: ClaimId, registration: Option<Arc<dyn Registration>>) {
        self.leave_gate(claim);
        self.close_journals_of(claim);
        self.claims.get_mut(claim).register(registration, now());
        self.settle_gates(self.claims.get(claim).key.device);
    }

    /// Reports the queue's claim ready, if the queue can use the device now.
    pub(super) fn report_use(&mut self, queue: QueueId) {
        let Some(known) = self.queues.get(queue) else { return };
        let is_counted = known.first().is_some_and(|first| first.demand.treatment.is_counted());
        if let Some(claim) = known.claim().filter(|_| is_counted && self.has_use(known)) {
            self.report_work(claim);
        }
    }

    /// Reports a claim ready, unless it is alone: it has work now.
    pub(super) fn report_work(&mut self, claim: ClaimId) {
        let claim = self.claims.get_mut(claim);
        if !claim.is_alone() {
            claim.has_work_now(now());
        }
    }

    /// The same for all queues that may have become able to use the device since a deferred command of this queue was launched.
    pub(super) fn report_uses_after(&mut self, launched: QueueId) {
        if !self.queues.is_any_behind_others() {
            return self.report_use(launched);
        }
        let deferring: Vec<_> = self.queues.deferring().map(|(id, _)| id).collect();
        for queue in deferring {
            self.report_use(queue);
        }
    }

    /// Whether the queue has a command that only its admission keeps. A command that comes after a deferred one does not count:
    /// as work of an urgent stream it could hold back the very command that it waits for.
    pub(super) fn has_use(&self, queue: &Queue<D>) -> bool {
        !queue.is_next_held() && queue.first().is_some_and(|first| self.are_launched(&first.after))
    }

    /// A caller begins to wait for a source's admission. It waits for the claim that the source has, also when a queue goes to another.
    pub(crate) fn caller_waits(&mut self, source: Source) {
        if let Source::Queue(queue) = source
            && let Some(queue) = self.queues.get_mut(queue)
        {
            queue.caller_waits();
        }
        if let Some(claim) = self.claim_of_source(source) {
            self.callers_wait(claim, 1);
        }
    }

    /// A caller's wait for a source's admission is over. If a queue is gone, so are its callers.
    pub(crate) fn caller_waits_no_more(&mut self, source: Source) {
        let claim = self.claim_of_source(source);
        if let Source::Queue(queue) = source
            && let Some(queue) = self.queues.get_mut(queue)
        {
            queue.caller_waits_no_more();
        }
        if let Some(claim) = claim {
            self.claims.get_mut(claim).callers_wait_no_more(1);
        }
    }

    /// More callers wait for a claim's admission.
    pub(super) fn callers_wait(&mut self, claim: ClaimId, callers: usize) {
        if callers == 0 {
            return;
        }
        self.close_journals_of(claim);
        self.claims.get_mut(claim).callers_wait(callers);
        self.report_work(claim);
    }

    /// When the first claim without work may report idle.
    pub(crate) fn idle_at(&self) -> Option<Nanos> {
        let idle = self.claims.iter().filter(|&(id, _)| !self.has_work(id));
        idle.filter_map(|(_, claim)| claim.idle_at()).min()
    }

    /// Reports claims ready or idle where that is due. Returns when to come again, also to look for completions.
    pub(crate) fn report_as_due(&mut self, now: Nanos) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        for id in self.claims.ids() {
            let state = self.claims.get(id).admission_state();
            let may_end = self.claims.get(id).is_idle_due(state, now) && !self.has_work(id);
            let work = Work {
                state,
                is_any: if may_end { !self.ends_at_once(id) } else { self.has_work(id) },
                is_deferred: self.is_waited_for(id),
                is_executing: self.is_executing(id, now),
            };
            let at = self.claims.get_mut(id).report_as_due(work, now);
            next = next.into_iter().chain(at).min();
        }
        next.into_iter().chain(self.next_check_of_all(now)).min()
    }

    /// Whether a command of this claim probably executes. It may wait for commands of a preempted claim; then it does not.
    fn is_executing(&self, id: ClaimId, now: Nanos) -> bool {
        let is_kept = |other: ClaimId| other != id && self.is_preempted(other) && self.has_work(other);
        let of_queues = self.queues.busy_of_claim(id).map(Queue::flight);
        of_queues.chain([self.claims.get(id).unqueued()]).any(|flight| flight.is_executing(now))
            && !self.claims.ids().any(is_kept)
    }

    /// Whether no change by other processes concerns this one until it launches or defers something: it knows that they are
    /// there, and has no work.
    pub(crate) fn is_unconcerned(&self) -> bool {
        let is_idle = |claim: &Claim<D>| {
            let is_waited_for = claim.has_waiting_callers() || claim.is_launching();
            !claim.is_reported_ready() && !is_waited_for
        };
        // An unused claim has no registration.
        let mut registered =
            self.claims.iter().filter(|(_, claim)| claim.registration().is_some()).peekable();
        registered.peek().is_some()
            && registered.all(|(_, claim)| !claim.is_alone())
            && self.claims.iter().all(|(_, claim)| is_idle(claim))
            && self.flights().all(|(_, flight)| flight.is_empty())
            && !self.is_any_buffered()
    }
}
