//! Gates: what is launched ahead of them is in nobody's way, so that much may be.
//!
//! A claim has one gate, which is shut while the claim must give way. The watcher shuts it, or whoever notices first.

use xsched_sched::{Limit, Nanos};

use crate::xqueue::Device;
use crate::xqueue::claim::{ClaimId, Gate};
use crate::xqueue::contention::Place;
use crate::xqueue::flight::Class;
use crate::xqueue::state::State;

/// How much may be launched ahead behind gates.
const GATED: Limit = Limit::Time { ahead: Nanos::from_millis(1), commands: 2 };

impl<D: Device> State<D> {
    /// How much a queue of this claim may launch ahead.
    pub(super) fn limit_of(&self, claim: Option<ClaimId>) -> Limit {
        match claim.map(|claim| self.claims[claim.0].gate) {
            // What the controller or the user has asked for goes before.
            Some(Gate::There { .. }) if self.limit == Limit::default() => GATED,
            _ => self.limit,
        }
    }

    pub(super) fn apply_limit(&mut self, claim: ClaimId) {
        let limit = self.limit_of(Some(claim));
        let queues = self.queues.values_mut().filter(|queue| queue.claim == Some(claim));
        let loose = &mut self.claims[claim.0].loose;
        queues.map(|queue| &mut queue.flight).chain([loose]).for_each(|flight| flight.set_limit(limit));
    }

    /// A claim that should have a gate and has none yet, and a stream of its.
    pub(super) fn wants_gate(&self) -> Option<(ClaimId, D::Stream)> {
        let claims = self.claims.iter().enumerate();
        let mut without = claims.filter(|(_, claim)| matches!(claim.gate, Gate::Untried) && claim.is_below());
        without.find_map(|(index, _)| {
            let id = ClaimId(index);
            let stream = self.queues.values().find(|queue| queue.claim == Some(id))?.stream;
            (self.uses_gates && !self.closed && self.has_device_alone(id)).then_some((id, stream))
        })
    }

    /// Whether the process has no other claim on the device: streams of several priorities share hardware queues, and one's
    /// gate would hold up the others'.
    fn has_device_alone(&self, id: ClaimId) -> bool {
        let device = self.claims[id.0].key.device;
        self.claims.iter().filter(|claim| claim.key.device == device).count() == 1
    }

    /// A claim has this gate from now on, or never will.
    pub(super) fn give_gate(&mut self, claim: ClaimId, gate: Option<D::Gate>) {
        let gate = gate.filter(|_| !self.closed);
        self.claims[claim.0].gate = gate.map_or(Gate::None, |gate| Gate::There { gate, is_open: true });
        self.apply_limit(claim);
    }

    /// The gate to put before a command.
    pub(super) fn gate_before(&mut self, place: Place, claim: ClaimId, class: Class) -> Option<D::Gate> {
        let Gate::There { gate, .. } = self.claims[claim.0].gate else { return None };
        let is_wanted = self.has_device_alone(claim) && self.flight_mut(place)?.wants_gate(class);
        is_wanted.then_some(gate)
    }

    /// Opens and shuts gates as claims stand. All are open while anything is on the device that must not be stopped.
    pub(super) fn set_gates(&mut self, device: &D) {
        for index in 0..self.claims.len() {
            if !matches!(self.claims[index].gate, Gate::There { .. }) {
                continue;
            }
            let should_open = !self.is_held(ClaimId(index)) || self.is_any_pinned();
            if let Gate::There { gate, is_open } = &mut self.claims[index].gate
                && *is_open != should_open
            {
                device.set_gate(*gate, should_open);
                *is_open = should_open;
            }
        }
    }

    /// Opens all gates, for good: they are not used again.
    pub(super) fn forget_gates(&mut self, device: &D) {
        for index in 0..self.claims.len() {
            if let Gate::There { gate, .. } = self.claims[index].gate {
                device.set_gate(gate, true);
            }
            self.claims[index].gate = Gate::None;
            self.apply_limit(ClaimId(index));
        }
    }
}
