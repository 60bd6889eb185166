//! One device: its claims, their states, and how urgent they are.
//!
//! Time passes in [`Device::pass`] only, which charges each claim for the time since the last change. Then changes set states,
//! and [`Device::decide`] assigns levels.

use crate::account::Account;
use crate::claim::{Claim, Process};
use crate::commands::Commands;
use crate::level::{Level, Move};
use crate::mask::Mask;
use crate::policies::PolicyKind;
use crate::policy::{Policy, View};
use crate::ranks::Ranks;
use crate::requests::Requests;
use crate::starvation::{self, Patience};
use crate::turns::{Happening, Turns};
use crate::{Attributes, ClaimId, DeviceId, Nanos, Settings};

/// No claim is charged for more than this at once: the clock goes on while the machine is suspended.
const LONGEST: Nanos = Nanos::from_secs(1);

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    claims: Vec<Claim>,
    processes: Vec<Process>,
    /// Indices of processes whose work or charge may have changed since the policy saw it, each once.
    changed: Vec<usize>,
    ranks: Ranks,
    policy: Box<dyn Policy>,
    now: Nanos,
    /// Levels at which claims are ready, and the number of ready claims.
    mask: Mask,
    ready: u32,
    /// A claim may have a starvation slice. None begins or ends before `slice_due`, which was computed for the claims that waited
    /// then. `waiting_changed` says that other claims wait now, or that one waits since another time.
    has_slices: bool,
    slice_due: Option<Nanos>,
    waiting_changed: bool,
    /// The policy has not seen all claims, or all attributes.
    altered: bool,
    /// When the next decision is due. In the past: at once.
    due: Option<Nanos>,
    /// What happened since the caller asked last; `None` if it does not ask.
    happenings: Option<Vec<Happening>>,
}

impl Device {
    pub(crate) fn new(id: DeviceId, policy: PolicyKind, now: Nanos, is_observed: bool) -> Self {
        Self {
            id,
            claims: Vec::new(),
            processes: Vec::new(),
            changed: Vec::new(),
            ranks: Ranks::default(),
            policy: policy.start(),
            now,
            mask: Mask::new(),
            ready: 0,
            has_slices: false,
            slice_due: None,
            waiting_changed: false,
            altered: false,
            due: None,
            happenings: is_observed.then(Vec::new),
        }
    }

    pub(crate) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Whether a claim may launch.
    pub(crate) fn is_allowed(&self, claim: &Claim) -> bool {
        claim.level.is_some_and(|level| self.mask.allows(level))
    }

    /// The percentile of its process's latencies for which there is an SLO.
    pub(crate) fn latency(&self, claim: &Claim) -> Option<Nanos> {
        self.processes[claim.process].requests.latency(claim.attributes.slo?.per_mille)
    }

    /// From now on notes what happens.
    pub(crate) fn observe(&mut self) {
        self.happenings.get_or_insert_default();
    }

    /// Moves what has happened since the last call.
    pub(crate) fn take_happenings(&mut self, to: &mut Vec<Happening>) {
        if let Some(happenings) = &mut self.happenings {
            to.append(happenings);
        }
    }

    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Whether ranks here depend on which claims have work.
    pub(crate) fn follows_work(&self) -> bool {
        self.policy.follows_work()
    }

    /// Replaces the policy. The new one knows only what claims and processes keep themselves.
    pub(crate) fn set_policy(&mut self, now: Nanos, policy: Box<dyn Policy>, settings: &Settings) {
        self.pass(now, settings);
        self.policy = policy;
        for _ in &self.processes {
            self.policy.joined();
        }
        self.alter();
    }

    /// Called before the settings change: the time so far is judged by the old ones.
    pub(crate) fn settings_change(&mut self, now: Nanos, settings: &Settings) {
        self.pass(now, settings);
        self.slice_due = Some(now);
        self.alter();
    }

    /// Returns the claim's index.
    pub(crate) fn open(
        &mut self,
        now: Nanos,
        id: ClaimId,
        attributes: Attributes,
        settings: &Settings,
    ) -> usize {
        self.pass(now, settings);
        let known = self.processes.iter().position(|process| process.id == attributes.process);
        let process = known.unwrap_or_else(|| {
            self.policy.joined();
            self.processes.push(Process {
                id: attributes.process,
                claims: 0,
                ready: 0,
                charged: Nanos::ZERO,
                allowed: Nanos::ZERO,
                allowed_until: now,
                commands: Commands::default(),
                requests: Requests::default(),
                is_changed: false,
            });
            self.processes.len() - 1
        });
        self.processes[process].claims += 1;
        self.claims.push(Claim {
            id,
            attributes,
            process,
            ready: false,
            level: None,
            account: Account::new(now),
            patience: Patience::default(),
            turns: Turns::default(),
        });
        self.alter();
        self.claims.len() - 1
    }

    /// The last claim gets the index of the closed one; returns its name, if there is one.
    pub(crate) fn close(&mut self, now: Nanos, index: usize, settings: &Settings) -> Option<ClaimId> {
        self.pass(now, settings);
        self.set_ready(now, index, false, settings);
        let claim = self.claims.swap_remove(index);
        self.processes[claim.process].claims -= 1;
        if self.processes[claim.process].claims == 0 {
            self.leave(claim.process);
        }
        self.alter();
        self.claims.get(index).map(|claim| claim.id)
    }

    fn leave(&mut self, process: usize) {
        self.policy.left(process);
        self.processes.swap_remove(process);
        let moved = self.processes.len();
        for claim in &mut self.claims {
            if claim.process == moved {
                claim.process = process;
            }
        }
    }

    pub(crate) fn set_ready(&mut self, now: Nanos, index: usize, ready: bool, settings: &Settings) {
        self.pass(now, settings);
        let claim = &mut self.claims[index];
        if claim.ready == ready {
            return;
        }
        claim.ready = ready;
        let front = self.mask.front();
        let process = &mut self.processes[claim.process];
        process.note_change(claim.process, &mut self.changed);
        if ready {
            self.ready += 1;
            process.ready += 1;
            if process.ready == 1 {
                process.requests.begin(self.now, process.charged);
            }
            claim.level.inspect(|level| self.mask.add(*level));
            let due = claim.patience.due(now, settings);
            self.slice_due = self.slice_due.into_iter().chain(due).min();
        } else {
            self.ready -= 1;
            process.ready -= 1;
            if process.ready == 0 {
                process.requests.end(self.now, settings.linger);
            }
            self.waiting_changed |= claim.patience.due(now, settings) == self.slice_due;
            claim.patience.became_idle(claim.level == front);
            claim.level.inspect(|level| self.mask.remove(*level));
            claim.turns = Turns::default();
        }
        self.waiting_changed |= self.mask.front() != front;
        self.due = Some(Nanos::ZERO);
    }

    /// Device and process must be unchanged.
    pub(crate) fn set_attributes(
        &mut self,
        now: Nanos,
        index: usize,
        attributes: Attributes,
        settings: &Settings,
    ) {
        self.pass(now, settings);
        self.claims[index].attributes = attributes;
        self.alter();
    }

    pub(crate) fn reported(
        &mut self,
        now: Nanos,
        index: usize,
        used: Nanos,
        commands: u64,
        settings: &Settings,
    ) {
        self.pass(now, settings);
        let claim = &mut self.claims[index];
        if !used.is_zero() {
            self.waiting_changed |= claim.patience.used();
        }
        let ran_on = claim.account.ran_on(now, used);
        let correction = claim.account.reported(now, used, settings.patience);
        let process = &mut self.processes[claim.process];
        process.charge(correction);
        process.commands.reported(used, commands);
        process.note_change(claim.process, &mut self.changed);
        if !ran_on.is_zero() {
            self.fill(index, ran_on);
        }
        self.due = Some(Nanos::ZERO);
    }

    /// Divides time that a claim used while others kept it out among those others, in proportion to the time that each did not use.
    fn fill(&mut self, index: usize, time: Nanos) {
        let unused = |claim: &Claim| u128::from(claim.account.unused().0);
        let all: u128 = self.claims.iter().map(unused).sum::<u128>() - unused(&self.claims[index]);
        for (_, claim) in self.claims.iter_mut().enumerate().filter(|(other, _)| *other != index) {
            // The sum of the parts is at most `time`.
            let part = u128::from(time.0) * unused(claim) / all.max(1);
            claim.account.was_filled(Nanos(part as u64));
        }
    }

    /// Adds the levels that change to `moves`.
    pub(crate) fn decide(&mut self, now: Nanos, settings: &Settings, moves: &mut Vec<Move>) {
        self.pass(now, settings);
        let slices_due = self.slice_due.is_some_and(|due| due <= self.now);
        if slices_due {
            self.has_slices =
                starvation::grant_slices(self.now, settings, &mut self.claims, &mut self.happenings);
        }
        if self.altered {
            self.ranks.reset(self.claims.len());
            self.changed.clear();
            self.changed.extend(0..self.processes.len());
        }
        let view = View {
            now: self.now,
            settings,
            claims: &self.claims,
            processes: &self.processes,
            changed: &self.changed,
            altered: self.altered,
            has_starvation_slice: self.has_slices
                && self.claims.iter().any(|claim| claim.ready && claim.patience.has_slice()),
        };
        let again = self.policy.rank(&view, &mut self.ranks);
        for process in self.changed.drain(..) {
            self.processes[process].is_changed = false;
        }
        self.assign(slices_due, moves);
        let next = || starvation::next(self.now, settings, &self.claims, self.mask.front());
        if slices_due || self.altered || self.waiting_changed {
            self.slice_due = next();
        }
        debug_assert!(
            next().is_none_or(|next| self.slice_due.is_some_and(|due| due <= next)),
            "a slice is missed"
        );
        (self.altered, self.waiting_changed) = (false, false);
        self.due = again.into_iter().chain(self.slice_due).min();
    }

    /// Assigns levels to claims: where ranks have changed, own or neighbouring ones, or to all.
    fn assign(&mut self, all: bool, moves: &mut Vec<Move>) {
        for (index, level) in self.ranks.moved(all) {
            let claim = &mut self.claims[index];
            let level = if claim.patience.has_slice() { Level::STARVED } else { level };
            if claim.level == Some(level) {
                continue;
            }
            let from = claim.level.replace(level);
            if claim.ready {
                from.inspect(|from| self.mask.remove(*from));
                self.mask.add(level);
            }
            moves.push(Move { claim: claim.id, from, to: level });
            self.waiting_changed = true;
        }
    }

    /// The policy has to rank all claims again.
    fn alter(&mut self) {
        self.altered = true;
        self.due = Some(Nanos::ZERO);
    }

    /// Time passes, with all states unchanged.
    fn pass(&mut self, now: Nanos, settings: &Settings) {
        let time = now - self.now;
        if time.is_zero() {
            return;
        }
        self.now = now;
        let Some(front) = self.mask.front() else { return };
        let running = self.mask.count(front);
        let part = time.min(LONGEST) / u64::from(running);
        for claim in self.claims.iter_mut().filter(|claim| claim.ready) {
            let is_allowed = claim.level == Some(front);
            if let Some(happenings) = &mut self.happenings {
                let turns = &mut claim.turns;
                let what = if is_allowed { turns.was_allowed() } else { turns.had_to_wait(time) };
                happenings.extend(what.map(|what| Happening { claim: claim.id, what }));
            }
            if !is_allowed {
                claim.patience.had_to_wait(time, settings);
                continue;
            }
            claim.patience.was_allowed(time, settings);
            let charge = claim.account.ran(now, part, self.ready > running, settings.patience);
            let process = &mut self.processes[claim.process];
            process.charge(charge);
            process.note_change(claim.process, &mut self.changed);
            if process.allowed_until < now {
                process.allowed_until = now;
                process.allowed += time;
            }
        }
    }
}
