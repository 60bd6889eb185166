//! When gates are open. Behind a gate much may be launched ahead: the gate can keep all of it from other processes.
//!
//! Each runtime copy that uses a device has one gate there, for streams of all priorities: they may share hardware queues and
//! wait for each other. The gate belongs to the process's claim on the most urgent level, and is closed while that claim is preempted.
//!
//! Where the device can read memory that it shares with the arbiter (`gate_page.rs`), the arbiter closes the gate. The process
//! then only keeps the gate open while it must be open, and notes its state.
//!
//! Elsewhere the process closes the gate: the watcher does, or a launch that notices a preemption first. Waking the watcher takes
//! some microseconds, and so does the report of urgent work. Kernels of a millisecond do not mind, but several short ones begin
//! meanwhile. So the watcher polls in a process with short kernels, for a time that grows with the number of recent preemptions.
//! This bounds the processor time that polling takes.

use std::cmp::Reverse;
use std::sync::Arc;

use xsched_sched::{Limit, Nanos};

use crate::claim::Claim;
use crate::clock::now;
use crate::command::DurationClass;
use crate::device::Device;
use crate::gate_page::GatePage;
use crate::ids::{ClaimId, RuntimeId, Source};
use crate::queue::Queue;
use crate::registration::{AdmissionState, Registration};
use crate::state::State;
use crate::state::gate_table::{DeviceGate, Gate, Shared, Stage};

impl<D: Device> State<D> {
    /// The registrations of all claims, with their states at the last look, if the watcher must poll. It must if a gate may have
    /// to close before it could be woken. Empty while gates must stay open.
    pub(crate) fn polled(&mut self, now: Nanos) -> Vec<(Arc<dyn Registration>, AdmissionState)> {
        let is_any_pinned = self.is_any_pinned();
        let is_polled = |gate: &DeviceGate<D>| {
            gate.there().is_some_and(|there| {
                there.is_open
                    && there.shared.is_none()
                    && self.claims.last_state(there.claim) == AdmissionState::Below { preempted: false }
                    && self.limits.uses_gates
                    && self.claims.get(there.claim).is_alert(now)
                    && self.runs_short_commands(gate, now)
            })
        };
        if is_any_pinned || !self.gates.iter().any(is_polled) {
            return Vec::new();
        }
        let registered = |(id, claim): (ClaimId, &Claim<D>)| {
            Some((Arc::clone(claim.registration()?), self.claims.last_state(id)))
        };
        self.claims.iter().filter_map(registered).collect()
    }

    /// Whether the commands in flight behind a gate are shorter, on average, than the bound for polling. A command that has
    /// already run for longer is not.
    fn runs_short_commands(&self, gate: &DeviceGate<D>, now: Nanos) -> bool {
        let queues = self
            .queues
            .busy()
            .map(|(_, queue)| queue)
            .filter(|queue| self.is_behind(queue, gate))
            .map(Queue::flight);
        let of_device = self.claims.iter().filter(|(_, claim)| claim.key.device == gate.device);
        let flights = queues.chain(of_device.map(|(_, claim)| claim.unqueued()));
        let (count, length) = flights.fold((0, Nanos::ZERO), |(count, length), flight| {
            (count + flight.in_flight() as u64, length + flight.length(now))
        });
        count > 0 && length < self.limits.poll_below.times(count)
    }

    /// How much a queue of this claim may launch ahead, on a stream of this runtime.
    pub(super) fn limit_of(&self, claim: Option<ClaimId>, runtime: RuntimeId) -> Limit {
        let gate = claim.and_then(|claim| Some((claim, self.gate_for(claim, runtime)?)));
        self.limit_if(gate.map(|(claim, gate)| {
            // Other gates are closed late, or by another claim's preemption: what is ahead delays more urgent work.
            let is_closed_in_time = gate.claim == claim && gate.shared.is_some();
            if is_closed_in_time { D::GATED } else { Limit::GATED }
        }))
    }

    /// The same for a claim's streams without queues, which may be of any runtime.
    fn unqueued_limit_of(&self, claim: ClaimId) -> Limit {
        let mut gates = self.gates.of_device(self.claims.get(claim).key.device).peekable();
        let has_any = gates.peek().is_some();
        let is_gated = has_any && gates.all(|gate| self.gate_for(claim, gate.runtime).is_some());
        self.limit_if(is_gated.then_some(Limit::GATED))
    }

    fn limit_if(&self, gated: Option<Limit>) -> Limit {
        match self.limits.limit {
            // A limit from the controller or the environment takes precedence.
            limit if limit == Limit::default() => gated.unwrap_or(limit),
            limit => limit,
        }
    }

    pub(super) fn apply_limits(&mut self) {
        for id in self.queue_ids() {
            self.apply_limit(id);
        }
        for claim in self.claims.ids() {
            let limit = self.unqueued_limit_of(claim);
            self.claims.get_mut(claim).unqueued_mut().set_limit(limit);
        }
    }

    /// A claim has streams of this runtime: they need a gate on its device.
    pub(super) fn add_gate(&mut self, claim: ClaimId, runtime: RuntimeId) {
        self.gates.add(self.claims.get(claim).key.device, runtime);
    }

    /// Asks the arbiter not to wake this process at preemptions where nothing need be done. Launches look at the mask, the
    /// arbiter closes the gate, and the page tells when. A recorded process is woken, so that it notes preemptions in time.
    pub(crate) fn ask_for_quiet(&self) {
        for (id, claim) in self.claims.iter() {
            let Some(page) = claim.gate_page() else { continue };
            let closes_it_itself = |gate: &DeviceGate<_>| match &gate.stage {
                Stage::Untried | Stage::Tried(_) => true,
                // A gate that the process closes, or keeps open for another claim until that one is preempted, too.
                Stage::There(gate) => {
                    gate.claim == id && gate.shared.is_none()
                        || gate.claim != id && self.is_another_ahead(gate)
                }
                Stage::None => false,
            };
            let mut gates = self.gates.of_device(claim.key.device);
            let closes_any_itself = self.limits.uses_gates && gates.any(closes_it_itself);
            page.ask_for_quiet(!closes_any_itself && !self.is_recorded());
        }
    }

    /// Sets whether gates may be used. A gate that may not be used stays open.
    pub(crate) fn use_gates(&mut self, uses: bool, device: &D) {
        self.limits.uses_gates = uses;
        self.apply_limits();
        self.update_gates(device);
    }

    /// Whether any gate of the process is not closed by the arbiter.
    pub(super) fn closes_any_gate_itself(&self) -> bool {
        self.gates.iter().filter_map(DeviceGate::there).any(|gate| gate.shared.is_none())
    }

    /// The claim that a device's gates belong to: that on the most urgent level, which is preempted last. A claim's key does not tell
    /// it: what the program asks for a stream replaces a priority that the process does not know. Of equals, claims of a process that
    /// is not in front, it is the claim of the most urgent streams: it comes first when the process is in front.
    pub(super) fn gate_claim(&self, device: u64) -> Option<ClaimId> {
        let urgency =
            |claim: &Claim<D>| (claim.usual_level().unwrap_or(u8::MAX), Reverse(claim.key.stream_priority));
        self.registered_on(device).min_by_key(|(_, claim)| urgency(claim)).map(|(id, _)| id)
    }

    /// Notes the claims' levels. Gates go to other claims if these have become the most urgent.
    pub(super) fn follow_levels(&mut self) {
        let is_any_new =
            self.claims.iter_mut().fold(false, |is_any, (_, claim)| claim.note_level() || is_any);
        if !is_any_new {
            return;
        }
        let is_anothers = |gate: &&DeviceGate<D>| {
            gate.claim().is_some_and(|claim| Some(claim) != self.gate_claim(gate.device))
        };
        let devices: Vec<_> = self.gates.iter().filter(is_anothers).map(|gate| gate.device).collect();
        for device in devices {
            self.settle_gates(device);
        }
    }

    #[cfg(test)]
    pub(crate) fn gate_belongs_to(&self) -> Option<ClaimId> {
        self.gates.iter().find_map(DeviceGate::there).map(|gate| gate.claim)
    }

    fn registered_on(&self, device: u64) -> impl Iterator<Item = (ClaimId, &Claim<D>)> {
        self.claims
            .iter()
            .filter(move |(_, claim)| claim.key.device == device && claim.registration().is_some())
    }

    /// Whether another claim on the device may launch while the gate's claim is preempted, such as a claim that has waited for
    /// the starvation bound. Its work may be behind the gate.
    fn is_another_ahead(&self, gate: &Gate<D::Gate>) -> bool {
        let mut others =
            self.registered_on(self.claims.get(gate.claim).key.device).filter(|(id, _)| *id != gate.claim);
        self.is_preempted(gate.claim) && others.any(|(id, _)| !self.is_preempted(id))
    }

    /// Gives a device's gates to the claim that is the most urgent now: a claim was registered, has lost its registration, or has
    /// another level.
    pub(super) fn settle_gates(&mut self, device: u64) {
        let claim = self.gate_claim(device);
        for index in 0..self.gates.len() {
            let Some(claim) = claim.filter(|_| self.gates.at(index).device == device) else { continue };
            // The new claim has another page.
            self.give_up_page(index, |known| known != claim);
            match &mut self.gates.at_mut(index).stage {
                Stage::Tried(attempt) if attempt.page.is_none() => attempt.claim = Some(claim),
                Stage::There(gate) => gate.claim = claim,
                Stage::Tried(_) | Stage::Untried | Stage::None => {}
            }
        }
        self.apply_limits();
    }

    /// The gate for a claim's commands on a runtime's streams. None if it would stay open while the claim is preempted: the most
    /// urgent claim of the process is then never preempted.
    fn gate_for(&self, claim: ClaimId, runtime: RuntimeId) -> Option<&Gate<D::Gate>> {
        let gate = self.gates.find(self.claims.get(claim).key.device, runtime)?.there()?;
        let closes = gate.claim == claim || self.claims.get(gate.claim).is_below();
        (self.limits.uses_gates && closes).then_some(gate)
    }

    /// The gate to put before a command on a runtime's stream, if it is time for one.
    pub(super) fn gate_before(
        &mut self,
        source: Source,
        claim: ClaimId,
        runtime: RuntimeId,
        class: DurationClass,
    ) -> Option<D::Gate> {
        let gate = self.gate_for(claim, runtime)?.on_device;
        let every = self.gate_every(claim);
        self.flight_mut(source)?.wants_gate(class, every).then_some(gate)
    }

    /// How much work may follow a command of a claim before the next gate.
    fn gate_every(&self, claim: ClaimId) -> Nanos {
        self.claims.get(claim).gate_every(now())
    }

    /// The same if the arbiter closes the claim's gate.
    pub(super) fn shared_gate_every(&self, claim: ClaimId, runtime: RuntimeId) -> Option<Nanos> {
        let is_shared = self.gate_for(claim, runtime)?.shared.is_some();
        is_shared.then(|| self.gate_every(claim))
    }

    /// Opens and closes gates by the claims' admission states. All stay open while anything pinned is in flight.
    pub(crate) fn update_gates(&mut self, device: &D) {
        if self.gates.iter().all(|gate| gate.there().is_none()) {
            return;
        }
        let is_any_pinned = self.is_any_pinned();
        for index in 0..self.gates.len() {
            self.update_gate(index, is_any_pinned, device);
        }
    }

    fn update_gate(&mut self, index: usize, is_any_pinned: bool, device: &D) {
        let Some(mut gate) = self.gates.at(index).there().copied() else { return };
        let must_open = is_any_pinned
            || self.limits.is_watcher_stuck
            || !self.limits.uses_gates
            || self.is_another_ahead(&gate);
        let opens = match gate.shared {
            None => must_open || !self.is_preempted(gate.claim),
            Some(Shared { page, .. }) => self.look_at_shared_gate(gate.claim, page, must_open),
        };
        let claim = self.claims.get(gate.claim);
        let noted = gate.shared.as_mut().map(|shared| &mut shared.closing_noted);
        let closure = noted.and_then(|noted| claim.take_gate_closure(noted));
        let was_open = std::mem::replace(&mut gate.is_open, opens);
        if opens != was_open || closure.is_some() {
            self.gates.at_mut(index).stage = Stage::There(gate);
        }
        if opens == was_open {
            // Its state is the same, but the arbiter closed and opened it between two looks.
            if let Some((closed, Some(opened))) = closure.filter(|_| opens && !must_open) {
                self.gate_changed(index, closed, false);
                self.gate_changed(index, opened, true);
            }
            return;
        }
        if gate.shared.is_none() {
            device.set_gate(gate.on_device, opens);
        }
        let at = match closure {
            Some((closed, _)) if !opens => closed,
            _ if opens && !must_open => self.claims.get(gate.claim).gate_opened_at().unwrap_or_else(now),
            _ => now(),
        };
        self.gate_changed(index, at, opens);
    }

    /// Keeps a gate open that the arbiter closes, or stops doing so. Returns whether it is open.
    fn look_at_shared_gate(&self, id: ClaimId, page: &GatePage, must_open: bool) -> bool {
        let claim = self.claims.get(id);
        let is_in_force = |registration: &&Arc<dyn Registration>| registration.is_in_force();
        let registration = claim.registration().filter(|_| !self.mode.closed).filter(is_in_force);
        page.keep_open(must_open || registration.is_none());
        // The arbiter writes the mask first and then the gate. If they differ, it is about to write the gate, or has given up.
        if let Some(registration) = registration
            && page.is_allowed() == registration.state().is_preempted()
        {
            registration.request_gate_check();
        }
        page.is_open()
    }

    /// A claim loses its registration: what the arbiter last wrote into its gate page is void.
    pub(super) fn leave_gate(&mut self, id: ClaimId) {
        for index in 0..self.gates.len() {
            self.give_up_page(index, |claim| claim == id);
        }
    }

    /// Stops using a gate in a page if the gate belongs to one of these claims. Commands that wait there begin.
    fn give_up_page(&mut self, index: usize, is_given_up: impl Fn(ClaimId) -> bool) {
        match &mut self.gates.at_mut(index).stage {
            Stage::Tried(attempt) if attempt.page.is_some() => {
                attempt.claim = attempt.claim.filter(|&claim| !is_given_up(claim));
            }
            &mut Stage::There(Gate { claim, shared: Some(Shared { page, .. }), .. })
                if is_given_up(claim) =>
            {
                page.keep_open(true);
                self.end_gate(index, Stage::Untried);
            }
            _ => {}
        }
    }

    /// The runtime has refused a gate, and is not asked again. Commands that may wait there begin.
    pub(crate) fn gate_refused(&mut self, claim: ClaimId, runtime: RuntimeId, device: &D) {
        let known = self.gates.position(self.claims.get(claim).key.device, runtime);
        if let Some(index) = known.filter(|&index| self.gates.at(index).there().is_some()) {
            self.open_for_good(index, device);
            self.apply_limits();
        }
    }

    /// Opens all gates of a runtime for good, or with None all gates of the process.
    pub(crate) fn retire_gates(&mut self, runtime: Option<RuntimeId>, device: &D) {
        for index in 0..self.gates.len() {
            if runtime.is_none_or(|runtime| self.gates.at(index).runtime == runtime) {
                self.open_for_good(index, device);
            }
        }
        self.apply_limits();
    }

    /// Forgets the gates of a runtime that is gone; they were retired before.
    pub(crate) fn forget_gates(&mut self, runtime: RuntimeId) {
        self.gates.remove(runtime);
        self.apply_limits();
    }

    fn open_for_good(&mut self, index: usize, device: &D) {
        match &mut self.gates.at_mut(index).stage {
            Stage::Tried(attempt) => attempt.trial.iter_mut().for_each(|trial| device.release_trial(trial)),
            // Another runtime's streams may wait at the same word: commands of both begin.
            Stage::There(Gate { shared: Some(Shared { page, .. }), .. }) => page.keep_open(true),
            Stage::There(gate) => device.set_gate(gate.on_device, true),
            Stage::Untried | Stage::None => {}
        }
        self.end_gate(index, Stage::None);
    }

    /// Stops looking at a gate, which is open from now on.
    fn end_gate(&mut self, index: usize, stage: Stage<D>) {
        if self.gates.at(index).there().is_some_and(|gate| !gate.is_open) {
            self.gate_changed(index, now(), true);
        }
        self.gates.at_mut(index).stage = stage;
    }

    /// Notes that a gate was opened or closed: commands that wait at it do not execute meanwhile.
    fn gate_changed(&mut self, index: usize, at: Nanos, is_open: bool) {
        let Self { queues, claims, gates, .. } = self;
        let DeviceGate { device, runtime, .. } = *gates.at(index);
        for queue in queues.values_mut().filter(|queue| queue.runtime() == runtime) {
            if queue.claim().is_some_and(|claim| claims.get(claim).key.device == device) {
                queue.flight_mut().set_gate(at, is_open);
            }
        }
        let of_device: Vec<_> =
            claims.iter().filter(|(_, claim)| claim.key.device == device).map(|(id, _)| id).collect();
        for claim in of_device {
            self.claims.get_mut(claim).unqueued_mut().set_gate(at, is_open);
            self.note_gate(claim, is_open);
        }
    }

    /// Whether a queue's commands have this gate before them: same runtime, same device.
    pub(super) fn is_behind(&self, queue: &Queue<D>, gate: &DeviceGate<D>) -> bool {
        let device = queue.claim().map(|claim| self.claims.get(claim).key.device);
        queue.runtime() == gate.runtime && device == Some(gate.device)
    }
}
