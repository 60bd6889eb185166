//! Gates: what is launched ahead of them is in nobody's way, so that much may be.
//!
//! A claim has one gate, which is shut while the claim must give way. The arbiter shuts it by itself where the device can look at a
//! word that they share (`gate_page.rs`); the process then only keeps it open while it must be, and notes how it is.
//!
//! Else the watcher shuts it, or whoever notices first. To be woken takes the watcher some microseconds, and whoever reports urgent
//! work as many. Beside kernels of a millisecond that is nothing; short ones begin meanwhile. So the watcher of a process that runs
//! such polls instead, for a time that grows with how often it has had to give way of late: what that takes of a processor is in
//! proportion to what it is good for.

use std::sync::Arc;

use xsched_sched::{Limit, Nanos};

use crate::queues::claim::{Claim, ClaimId, Gate, Seat, Standing};
use crate::queues::contention::Place;
use crate::queues::flight::Class;
use crate::queues::state::State;
use crate::queues::{Device, GatePage, now};

/// How much may be launched ahead behind gates.
const GATED: Limit = Limit::Time { ahead: Nanos::from_millis(1), commands: 2 };

/// How much work may follow a command before the next gate: whoever waits for what is between two gates waits for so much
/// longer than for the command. Gates cost the device time as well, so there are fewer where nobody has had to give way of late.
const GATE_EVERY: Nanos = Nanos::from_micros(5);
const GATE_EVERY_IN_PEACE: Nanos = Nanos::from_micros(10);

impl<D: Device> State<D> {
    /// The places of all claims, and how these stood when that was last looked at, if a gate is to be shut sooner than the
    /// watcher could be woken. None while gates must stay open.
    pub(super) fn polled(&self, now: Nanos) -> Vec<(Arc<dyn Seat>, Standing)> {
        let claims = || self.claims.iter().zip(self.standings.iter().copied()).enumerate();
        let is_polled = |(index, (claim, standing)): (usize, (&Claim<D>, Standing))| {
            matches!(claim.gate, Gate::There { is_open: true, shared: None, .. })
                && standing == Standing::Below { held: false }
                && self.may_use_gate(ClaimId(index))
                && claim.is_alert(now)
                && self.runs_short_commands(ClaimId(index), now)
        };
        if self.is_any_pinned() || !claims().any(is_polled) {
            return Vec::new();
        }
        claims().filter_map(|(_, (claim, standing))| Some((claim.seat.clone()?, standing))).collect()
    }

    /// Whether it has commands on the device, and these are shorter than it is to poll for, in the mean. What takes longer than
    /// that already is not.
    fn runs_short_commands(&self, id: ClaimId, now: Nanos) -> bool {
        let queues = self.queues.values().filter(|queue| queue.claim == Some(id));
        let flights = queues.map(|queue| &queue.flight).chain([&self.claims[id.0].loose]);
        let (count, length) = flights.fold((0, Nanos::ZERO), |(count, length), flight| {
            (count + flight.in_flight() as u64, length + flight.length(now))
        });
        count > 0 && length < self.poll_below.times(count)
    }

    /// How much a queue of this claim may launch ahead.
    pub(super) fn limit_of(&self, claim: Option<ClaimId>) -> Limit {
        match claim.filter(|&claim| self.may_use_gate(claim)).map(|claim| self.claims[claim.0].gate) {
            // What the controller or the user has asked for goes before.
            Some(Gate::There { .. }) if self.limit == Limit::default() => GATED,
            _ => self.limit,
        }
    }

    pub(super) fn apply_limits(&mut self) {
        (0..self.claims.len()).for_each(|index| self.apply_limit(ClaimId(index)));
    }

    pub(super) fn apply_limit(&mut self, claim: ClaimId) {
        let limit = self.limit_of(Some(claim));
        let queues = self.queues.values_mut().filter(|queue| queue.claim == Some(claim));
        let loose = &mut self.claims[claim.0].loose;
        queues.map(|queue| &mut queue.flight).chain([loose]).for_each(|flight| flight.set_limit(limit));
    }

    /// A claim that should have a gate and has none yet, a stream of its, and where the arbiter shuts its gate.
    pub(super) fn wants_gate(&self) -> Option<(ClaimId, D::Stream, Option<Arc<GatePage>>)> {
        let claims = self.claims.iter().enumerate();
        let mut without = claims.filter(|(_, claim)| matches!(claim.gate, Gate::Untried) && claim.is_below());
        without.find_map(|(index, claim)| {
            let id = ClaimId(index);
            let mut of_claim = self.queues.values().filter(|queue| queue.claim == Some(id));
            let stream = of_claim.find_map(|queue| queue.stream)?;
            let page = claim.seat.as_ref().and_then(|seat| seat.gate_page());
            (!self.closed && self.may_use_gate(id)).then_some((id, stream, page))
        })
    }

    /// Has the arbiter not wake anybody when a claim has to give way of which nobody has to do anything then: whoever launches
    /// looks at the mask, the arbiter shuts the gate, and it says in the page when that was. Not while somebody records, who is to
    /// see it in time.
    pub(super) fn ask_for_quiet(&self) {
        for (index, claim) in self.claims.iter().enumerate() {
            let Some(page) = claim.seat.as_ref().and_then(|seat| seat.gate_page()) else { continue };
            let shuts_it_itself = match claim.gate {
                Gate::Untried => self.uses_gates,
                Gate::There { shared, .. } => shared.is_none() && self.may_use_gate(ClaimId(index)),
                Gate::None => false,
            };
            page.ask_for_quiet(!shuts_it_itself && !self.is_recorded());
        }
    }

    /// Whether a gate of this claim's may be shut, and put before its commands.
    fn may_use_gate(&self, id: ClaimId) -> bool {
        self.uses_gates && self.has_device_alone(id)
    }

    /// Whether the process has no other claim on the device: streams of several priorities share hardware queues, and one's
    /// gate would hold up the others'.
    fn has_device_alone(&self, id: ClaimId) -> bool {
        let device = self.claims[id.0].key.device;
        self.claims.iter().filter(|claim| claim.key.device == device).count() == 1
    }

    /// A claim has this gate from now on, or none with this place.
    pub(super) fn give_gate(&mut self, claim: ClaimId, gate: Option<(D::Gate, Option<&'static GatePage>)>) {
        let gate = gate.filter(|_| !self.closed);
        self.claims[claim.0].gate =
            gate.map_or(Gate::None, |(gate, shared)| Gate::There { gate, is_open: true, shared });
        self.apply_limit(claim);
    }

    /// The gate to put before a command.
    pub(super) fn gate_before(&mut self, place: Place, claim: ClaimId, class: Class) -> Option<D::Gate> {
        let Gate::There { gate, .. } = self.claims[claim.0].gate else { return None };
        let is_alert = self.claims[claim.0].is_alert(now());
        let every = if is_alert { GATE_EVERY } else { GATE_EVERY_IN_PEACE };
        let is_wanted = self.may_use_gate(claim) && self.flight_mut(place)?.wants_gate(class, every);
        is_wanted.then_some(gate)
    }

    /// Opens and shuts gates as claims stand. All are open while anything is on the device that must not be stopped.
    pub(super) fn set_gates(&mut self, device: &D) {
        for index in 0..self.claims.len() {
            let id = ClaimId(index);
            let Gate::There { gate, is_open, shared } = self.claims[index].gate else { continue };
            let must_open = self.is_any_pinned() || !self.may_use_gate(id);
            let opens = match shared {
                None => must_open || !self.is_held(id),
                Some(page) => self.look_at_gate(id, page, must_open),
            };
            let unnoted = shared.and_then(|_| self.unnoted_closure(id));
            if opens == is_open {
                // It is as it was, but has not been all the time.
                if let Some((shut, Some(opened))) = unnoted.filter(|_| opens && !must_open) {
                    self.gate_was_set(id, shut, false);
                    self.gate_was_set(id, opened, true);
                }
                continue;
            }
            if shared.is_none() {
                device.set_gate(gate, opens);
            }
            self.claims[index].gate = Gate::There { gate, is_open: opens, shared };
            let at = match unnoted {
                Some((shut, _)) if !opens => shut,
                _ if opens && !must_open => self.opened_at(id).unwrap_or_else(now),
                _ => now(),
            };
            self.gate_was_set(id, at, opens);
        }
    }

    /// When the arbiter last shut a claim's gate, if that is not accounted for, and opened it again. From now on it is.
    fn unnoted_closure(&mut self, id: ClaimId) -> Option<(Nanos, Option<Nanos>)> {
        let claim = &mut self.claims[id.0];
        let (shut, opened) = claim.last_closure().filter(|&(shut, _)| shut != claim.shut_noted)?;
        claim.shut_noted = shut;
        let seat = claim.seat.as_ref()?;
        let at = |page_ns| now() - seat.ago(page_ns);
        Some((at(shut), opened.map(at)))
    }

    /// When the arbiter last opened a claim's gate, if it has since it last shut it.
    fn opened_at(&self, id: ClaimId) -> Option<Nanos> {
        let claim = &self.claims[id.0];
        let (_, opened) = claim.last_closure()?;
        Some(now() - claim.seat.as_ref()?.ago(opened?))
    }

    /// Keeps a gate open that the arbiter shuts, or does not any more; whether it is open.
    fn look_at_gate(&self, id: ClaimId, page: &GatePage, must_open: bool) -> bool {
        let seat = self.claims[id.0].seat.as_ref().filter(|seat| !self.closed && seat.is_heeded());
        page.keep_open(must_open || seat.is_none());
        // The arbiter changes first the mask and then the gate. If that is not so in this very moment it has given up on it.
        if let Some(seat) = seat
            && page.is_allowed() == seat.standing().is_held()
        {
            seat.ask_for_gate();
        }
        page.is_open()
    }

    /// The arbiter has given the claim's place away: what it last wrote there stands for nothing.
    pub(super) fn leave_gate(&mut self, id: ClaimId) {
        if let Gate::There { shared: Some(page), is_open, .. } = self.claims[id.0].gate {
            page.keep_open(true);
            if !is_open {
                self.gate_was_set(id, now(), true);
            }
            self.claims[id.0].gate = Gate::Untried;
        }
    }

    /// What waits at it is not executed meanwhile.
    fn gate_was_set(&mut self, id: ClaimId, at: Nanos, is_open: bool) {
        let queues = self.queues.values_mut().filter(|queue| queue.claim == Some(id));
        let loose = &mut self.claims[id.0].loose;
        queues.map(|queue| &mut queue.flight).chain([loose]).for_each(|flight| flight.set_gate(at, is_open));
        self.note_gate(id, is_open);
    }

    /// Opens all gates, for good: they are not used again.
    pub(super) fn forget_gates(&mut self, device: &D) {
        for index in 0..self.claims.len() {
            let id = ClaimId(index);
            if let Gate::There { gate, is_open, shared } = self.claims[index].gate {
                match shared {
                    Some(page) => page.keep_open(true),
                    None => device.set_gate(gate, true),
                }
                if !is_open {
                    self.gate_was_set(id, now(), true);
                }
            }
            self.claims[index].gate = Gate::None;
            self.apply_limit(id);
        }
    }
}
