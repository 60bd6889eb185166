//! What follows when other processes begin or cease to use a device of this one, or preempt it.

use crate::clock::now;
use crate::device::Device;
use crate::flight::Flight;
use crate::ids::ClaimId;
use crate::queue::Queue;
use crate::registration::AdmissionState;
use crate::state::State;

impl<D: Device> State<D> {
    /// Whether any claim's admission state has changed since the last call.
    pub(crate) fn take_has_new_admission_state(&mut self) -> bool {
        self.update_admission_states();
        self.claims.take_has_new_state()
    }

    /// Notes the claims' levels and admission states, and preemptions since the last look. This comes before completions are noted: the time
    /// in which a preemption kept a command from the device is not that command's.
    pub(crate) fn update_admission_states(&mut self) {
        self.follow_levels();
        let changes = self.claims.update_states();
        for change in &changes {
            self.close_journals_of(change.claim);
            for flight in self.flights_of_mut(change.claim) {
                if change.concerns_preemption() {
                    flight.preempted(now(), change.now.is_preempted());
                }
                if change.now == AdmissionState::Alone {
                    flight.stop_following();
                }
            }
        }
        for claim in self.claims.ids() {
            let is_seen = changes.iter().any(|change| change.claim == claim && change.concerns_preemption());
            self.note_unseen_preemption(claim, !is_seen);
        }
        if changes.iter().any(|change| change.concerns_level()) {
            self.apply_limits();
        }
        for change in changes.iter().filter(|change| change.concerns_preemption()) {
            self.note_admission_state(change.claim);
        }
        for change in changes.iter().filter(|change| change.before == AdmissionState::Alone) {
            self.adopt(change.claim, |_| true);
        }
    }

    /// Notes a preemption that began and ended between two looks.
    fn note_unseen_preemption(&mut self, claim: ClaimId, is_unseen: bool) {
        let (now, state) = (now(), self.claims.last_state(claim));
        if self.claims.get_mut(claim).note_unseen_preemption(now, state, is_unseen) {
            for flight in self.flights_of_mut(claim) {
                flight.preempted(now, true);
                flight.preempted(now, false);
            }
        }
    }

    /// Follows commands that were launched before another process came, or while completions were not followed. Each concerned
    /// stream is taken to have something in flight until it is asked. The claim reports its work again, since the arbiter may be
    /// another one.
    fn adopt(&mut self, claim: ClaimId, is_concerned: impl Fn(&Flight<D::Marker>) -> bool) {
        for id in self.queues.ids_of_claim(claim) {
            let may_be_asked = |queue: &&Queue<D>| queue.stream().is_some() && self.may_be_asked(queue);
            let is_adopted =
                self.queues.get(id).filter(may_be_asked).is_some_and(|queue| is_concerned(queue.flight()));
            if let Some(queue) = self.queues.get_mut(id).filter(|_| is_adopted) {
                queue.flight_mut().adopt(now());
            }
        }
        if self.has_work(claim) {
            self.claims.get_mut(claim).has_work_now(now());
        }
    }

    /// Completions are followed again. Commands that were launched meanwhile may be in flight.
    pub(crate) fn adopt_unfollowed(&mut self) {
        for claim in self.claims.ids() {
            if !self.claims.get(claim).is_alone() {
                self.adopt(claim, Flight::is_any_unfollowed);
            }
        }
    }
}
