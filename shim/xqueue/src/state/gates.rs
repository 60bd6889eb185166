//! When gates are open. Much may be launched ahead behind a gate, since it keeps no other process waiting.
//!
//! A claim has one gate, which is closed while the claim is preempted. The arbiter closes it by itself where the device can look at
//! a word that they share (`gate_page.rs`). The process then only keeps it open while it must be, and notes its state.
//!
//! Otherwise the process closes it: the watcher, or a launch that notices first. Waking the watcher takes some microseconds, and
//! the report of urgent work as many more. Beside kernels of a millisecond that is nothing; short ones begin meanwhile. So the
//! watcher of a process with such kernels polls instead, for a time that grows with how often the process was preempted of late.
//! The processor time that this takes is in proportion to its use.

use std::sync::Arc;

use xsched_sched::{Limit, Nanos};

use crate::claim::{Claim, Gate};
use crate::clock::now;
use crate::command::DurationClass;
use crate::device::Device;
use crate::gate_page::GatePage;
use crate::ids::{ClaimId, Source};
use crate::queue::Queue;
use crate::registration::{AdmissionState, Registration};
use crate::state::State;

/// How much may be launched ahead behind gates.
const GATED: Limit = Limit::Time { ahead: Nanos::from_millis(1), commands: 2 };

/// How much work may follow a command before the next gate. A caller that waits for commands between two gates waits for so much
/// longer than for its own command. Gates cost the device time as well, so there are fewer where the claim was not preempted of
/// late.
const GATE_EVERY_WHEN_ALERT: Nanos = Nanos::from_micros(5);
const GATE_EVERY: Nanos = Nanos::from_micros(10);

impl<D: Device> State<D> {
    /// The registrations of all claims with their admission states when these were last looked at, if a gate is to be closed sooner
    /// than the watcher could be woken. Empty while gates must stay open.
    pub(crate) fn polled(&mut self, now: Nanos) -> Vec<(Arc<dyn Registration>, AdmissionState)> {
        let is_any_pinned = self.is_any_pinned();
        let is_polled = |(id, claim): (ClaimId, &Claim<D>)| {
            matches!(claim.gate, Gate::There { is_open: true, shared: None, .. })
                && self.claims.last_state(id) == AdmissionState::Below { preempted: false }
                && self.may_use_gate(id)
                && claim.is_alert(now)
                && self.runs_short_commands(id, now)
        };
        if is_any_pinned || !self.claims.iter().any(is_polled) {
            return Vec::new();
        }
        let registered = |(id, claim): (ClaimId, &Claim<D>)| {
            Some((Arc::clone(claim.registration()?), self.claims.last_state(id)))
        };
        self.claims.iter().filter_map(registered).collect()
    }

    /// Whether a claim has commands in flight that are shorter, in the mean, than the bound for polling. Commands that have taken
    /// longer than that already are not.
    fn runs_short_commands(&self, id: ClaimId, now: Nanos) -> bool {
        let flights =
            self.queues.busy_of_claim(id).map(Queue::flight).chain([self.claims.get(id).unqueued()]);
        let (count, length) = flights.fold((0, Nanos::ZERO), |(count, length), flight| {
            (count + flight.in_flight() as u64, length + flight.length(now))
        });
        count > 0 && length < self.limits.poll_below.times(count)
    }

    /// How much a queue of this claim may launch ahead.
    pub(super) fn limit_of(&self, claim: Option<ClaimId>) -> Limit {
        let limit = self.limits.limit;
        match claim.filter(|&claim| self.may_use_gate(claim)).map(|claim| self.claims.get(claim).gate) {
            // A limit from the controller or the environment goes before.
            Some(Gate::There { .. }) if limit == Limit::default() => GATED,
            _ => limit,
        }
    }

    pub(super) fn apply_limits(&mut self) {
        self.claims.ids().for_each(|claim| self.apply_limit(claim));
    }

    fn apply_limit(&mut self, claim: ClaimId) {
        let limit = self.limit_of(Some(claim));
        self.flights_of_mut(claim).for_each(|flight| flight.set_limit(limit));
    }

    /// A claim that should have a gate and has none yet, a stream of it, and where the arbiter closes its gate.
    pub(crate) fn wants_gate(&self) -> Option<(ClaimId, D::Stream, Option<Arc<GatePage>>)> {
        let is_without = |claim: &Claim<D>| matches!(claim.gate, Gate::Untried) && claim.is_below();
        self.claims.iter().filter(|(_, claim)| is_without(claim)).find_map(|(id, claim)| {
            let stream = self.queues.of_claim(id).find_map(Queue::stream)?;
            let page = claim.gate_page();
            (!self.mode.closed && self.may_use_gate(id)).then_some((id, stream, page))
        })
    }

    /// Asks the arbiter not to wake this process when a claim is preempted for which nothing must be done then: launches look at the
    /// mask, the arbiter closes the gate, and the page tells when that was. Not while the process is recorded, which is to see it
    /// in time.
    pub(crate) fn ask_for_quiet(&self) {
        for (id, claim) in self.claims.iter() {
            let Some(page) = claim.gate_page() else { continue };
            let closes_it_itself = match claim.gate {
                Gate::Untried => self.limits.uses_gates,
                Gate::There { shared, .. } => shared.is_none() && self.may_use_gate(id),
                Gate::None => false,
            };
            page.ask_for_quiet(!closes_it_itself && !self.is_recorded());
        }
    }

    /// Whether gates may be used, from now on. One that may not stays open.
    pub(crate) fn use_gates(&mut self, uses: bool, device: &D) {
        self.limits.uses_gates = uses;
        self.apply_limits();
        self.update_gates(device);
    }

    /// Whether a gate of this claim may be closed, and put before its commands.
    fn may_use_gate(&self, id: ClaimId) -> bool {
        self.limits.uses_gates && self.is_only_claim_of_device(id)
    }

    /// Whether the process has no other claim on the device: streams of several priorities share hardware queues, and one's
    /// gate would hold up the others'.
    fn is_only_claim_of_device(&self, id: ClaimId) -> bool {
        let device = self.claims.get(id).key.device;
        self.claims.iter().filter(|(_, claim)| claim.key.device == device).count() == 1
    }

    /// A claim has this gate from now on, or none until it is registered again.
    pub(crate) fn give_gate(&mut self, claim: ClaimId, gate: Option<(D::Gate, Option<&'static GatePage>)>) {
        let gate = gate.filter(|_| !self.mode.closed);
        let gate = gate.map_or(Gate::None, |(gate, shared)| Gate::There { gate, is_open: true, shared });
        self.claims.get_mut(claim).gate = gate;
        self.apply_limit(claim);
    }

    /// The gate to put before a command.
    pub(super) fn gate_before(
        &mut self,
        source: Source,
        claim: ClaimId,
        class: DurationClass,
    ) -> Option<D::Gate> {
        let Gate::There { gate, .. } = self.claims.get(claim).gate else { return None };
        let is_alert = self.claims.get(claim).is_alert(now());
        let every = if is_alert { GATE_EVERY_WHEN_ALERT } else { GATE_EVERY };
        let is_wanted = self.may_use_gate(claim) && self.flight_mut(source)?.wants_gate(class, every);
        is_wanted.then_some(gate)
    }

    /// Opens and closes gates by the claims' admission states. All are open while anything is in flight that must not be stopped.
    pub(crate) fn update_gates(&mut self, device: &D) {
        for id in self.claims.ids() {
            let Gate::There { gate, is_open, shared } = self.claims.get(id).gate else { continue };
            let must_open = self.is_any_pinned() || !self.may_use_gate(id);
            let opens = match shared {
                None => must_open || !self.is_preempted(id),
                Some(page) => self.look_at_shared_gate(id, page, must_open),
            };
            let closure = shared.and_then(|_| self.claims.get_mut(id).take_gate_closure(now()));
            if opens == is_open {
                // It is as it was, but was closed in between.
                if let Some((closed, Some(opened))) = closure.filter(|_| opens && !must_open) {
                    self.gate_changed(id, closed, false);
                    self.gate_changed(id, opened, true);
                }
                continue;
            }
            if shared.is_none() {
                device.set_gate(gate, opens);
            }
            self.claims.get_mut(id).gate = Gate::There { gate, is_open: opens, shared };
            let at = match closure {
                Some((closed, _)) if !opens => closed,
                _ if opens && !must_open => self.claims.get(id).gate_opened_at(now()).unwrap_or_else(now),
                _ => now(),
            };
            self.gate_changed(id, at, opens);
        }
    }

    /// Keeps a gate open that the arbiter closes, or does so no more; whether it is open.
    fn look_at_shared_gate(&self, id: ClaimId, page: &GatePage, must_open: bool) -> bool {
        let claim = self.claims.get(id);
        let is_in_force = |registration: &&Arc<dyn Registration>| registration.is_in_force();
        let registration = claim.registration().filter(|_| !self.mode.closed).filter(is_in_force);
        page.keep_open(must_open || registration.is_none());
        // The arbiter changes first the mask and then the gate. If they differ, it is changing the gate in this very moment, or has
        // given up on it.
        if let Some(registration) = registration
            && page.is_allowed() == registration.state().is_preempted()
        {
            registration.request_gate_check();
        }
        page.is_open()
    }

    /// The claim's registration goes: what the arbiter last wrote in its gate page means nothing any more.
    pub(super) fn leave_gate(&mut self, id: ClaimId) {
        if let Gate::There { shared: Some(page), is_open, .. } = self.claims.get(id).gate {
            page.keep_open(true);
            if !is_open {
                self.gate_changed(id, now(), true);
            }
            self.claims.get_mut(id).gate = Gate::Untried;
        }
    }

    /// A claim's gate was opened or closed. Commands that wait at it are not executed meanwhile.
    fn gate_changed(&mut self, id: ClaimId, at: Nanos, is_open: bool) {
        self.flights_of_mut(id).for_each(|flight| flight.set_gate(at, is_open));
        self.note_gate(id, is_open);
    }

    /// Opens all gates, for good: they are not used again.
    pub(crate) fn retire_gates(&mut self, device: &D) {
        for id in self.claims.ids() {
            if let Gate::There { gate, is_open, shared } = self.claims.get(id).gate {
                match shared {
                    Some(page) => page.keep_open(true),
                    None => device.set_gate(gate, true),
                }
                if !is_open {
                    self.gate_changed(id, now(), true);
                }
            }
            self.claims.get_mut(id).gate = Gate::None;
            self.apply_limit(id);
        }
    }
}
