//! All claims of a process, and their admission states at the last look.

use std::mem;

use xsched_sched::Limit;

use crate::claim::Claim;
use crate::device::Device;
use crate::ids::{ClaimId, ClaimKey};
use crate::registration::AdmissionState;

pub(crate) struct ClaimTable<D: Device> {
    claims: Vec<Claim<D>>,
    /// The admission states at the last look, which looks at all of them together.
    states: Vec<AdmissionState>,
    /// Whether any state has changed since the watcher last asked.
    has_new_state: bool,
}

/// A claim whose admission state has changed.
#[derive(Clone, Copy)]
pub(crate) struct StateChange {
    pub(super) claim: ClaimId,
    pub(super) before: AdmissionState,
    pub(super) now: AdmissionState,
}

impl StateChange {
    /// Whether the claim can be preempted and could not before, or the reverse.
    pub(super) fn concerns_level(self) -> bool {
        matches!(self.before, AdmissionState::Below { .. })
            != matches!(self.now, AdmissionState::Below { .. })
    }

    /// Whether the claim is preempted and was not before, or the reverse.
    pub(super) fn concerns_preemption(self) -> bool {
        self.before.is_preempted() != self.now.is_preempted()
    }
}

impl<D: Device> ClaimTable<D> {
    pub(super) fn new() -> Self {
        Self { claims: Vec::new(), states: Vec::new(), has_new_state: false }
    }

    /// The claim with this key; it is made if there is none. The second value is true if it is new.
    pub(super) fn find_or_add(&mut self, key: ClaimKey, limit: Limit) -> (ClaimId, bool) {
        if let Some(known) = self.claims.iter().position(|claim| claim.key == key) {
            return (ClaimId(known), false);
        }
        self.claims.push(Claim::new(key, limit));
        // It is not registered yet.
        self.states.push(AdmissionState::Alone);
        (ClaimId(self.claims.len() - 1), true)
    }

    pub(super) fn len(&self) -> usize {
        self.claims.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ClaimId> + use<D> {
        (0..self.claims.len()).map(ClaimId)
    }

    pub(super) fn get(&self, ClaimId(index): ClaimId) -> &Claim<D> {
        &self.claims[index]
    }

    pub(super) fn get_mut(&mut self, ClaimId(index): ClaimId) -> &mut Claim<D> {
        &mut self.claims[index]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClaimId, &Claim<D>)> {
        self.claims.iter().enumerate().map(|(index, claim)| (ClaimId(index), claim))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ClaimId, &mut Claim<D>)> {
        self.claims.iter_mut().enumerate().map(|(index, claim)| (ClaimId(index), claim))
    }

    /// A claim's admission state at the last look.
    pub(super) fn last_state(&self, ClaimId(index): ClaimId) -> AdmissionState {
        self.states[index]
    }

    /// Looks at all admission states. Returns those that have changed.
    pub(super) fn update_states(&mut self) -> Vec<StateChange> {
        let mut changes = Vec::new();
        for (index, (claim, state)) in self.claims.iter().zip(&mut self.states).enumerate() {
            let now = claim.admission_state();
            let before = mem::replace(state, now);
            if before != now {
                changes.push(StateChange { claim: ClaimId(index), before, now });
            }
        }
        self.has_new_state |= !changes.is_empty();
        changes
    }

    /// Whether any state has changed since the last call.
    pub(super) fn take_has_new_state(&mut self) -> bool {
        mem::take(&mut self.has_new_state)
    }
}
