//! How gates are made: each is tried before it is used. The watcher looks at trials between its other duties and never waits for
//! one: the device may have to finish other streams' work first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_protocol::arbiter_page::GATE_KEPT_OPEN;
use xsched_sched::Nanos;

use crate::clock::now;
use crate::device::{Device, Tried};
use crate::gate_page::GatePage;
use crate::ids::{ClaimId, RuntimeId};
use crate::queue::Queue;
use crate::state::State;
use crate::state::gate_table::{Attempt, DeviceGate, Gate, Shared, Stage};

/// A gate that is to be tried.
pub(crate) struct WantedGate<D: Device> {
    device: u64,
    runtime: RuntimeId,
    /// The claim that the gate will belong to.
    claim: ClaimId,
    /// A stream that will use the gate.
    pub(crate) stream: D::Stream,
    /// The page in which the arbiter closes the gate, if there is one.
    pub(crate) page: Option<Arc<GatePage>>,
}

impl<D: Device> State<D> {
    /// When the watcher must look at trials, or begin one.
    pub(crate) fn see_to_gates_at(&self) -> Option<Nanos> {
        let attempt = |stage: &Stage<D>| match stage {
            Stage::Tried(attempt) => Some(attempt.look_at),
            _ => None,
        };
        let looks = self.gates.iter().filter_map(|gate| attempt(&gate.stage));
        looks.chain(self.wanted_gate().map(|_| now())).min()
    }

    /// A gate that is needed and was not tried yet.
    pub(crate) fn wanted_gate(&self) -> Option<WantedGate<D>> {
        if self.mode.closed || !self.limits.uses_gates {
            return None;
        }
        // Only one trial at a time runs on a device: all use one word of the page.
        let is_tried = |gate: &DeviceGate<D>| matches!(gate.stage, Stage::Tried(_));
        let mut untried = self.gates.iter().filter(|gate| {
            matches!(gate.stage, Stage::Untried) && !self.gates.of_device(gate.device).any(is_tried)
        });
        untried.find_map(|gate| {
            let claim = self.gate_claim(gate.device).filter(|&claim| self.claims.get(claim).is_below())?;
            let stream =
                self.queues.values().filter(|queue| self.is_behind(queue, gate)).find_map(Queue::stream)?;
            let page = self.claims.get(claim).gate_page().filter(|_| !gate.refuses_pages).cloned();
            Some(WantedGate { device: gate.device, runtime: gate.runtime, claim, stream, page })
        })
    }

    /// Begins the trial of a gate; None: the runtime has no such gate.
    pub(crate) fn trial_begins(
        &mut self,
        &WantedGate { device, runtime, claim, .. }: &WantedGate<D>,
        page: Option<&'static GatePage>,
        trial: Option<D::Trial>,
    ) {
        // If the gate is gone, so is the trial: nothing of it is on the device yet.
        let Some(index) = self.gates.position(device, runtime).filter(|_| !self.mode.closed) else { return };
        let is_there = trial.is_some();
        let attempt = Attempt { trial, page, claim: Some(claim), look_at: now() };
        self.gates.at_mut(index).stage = Stage::Tried(attempt);
        if !is_there {
            self.gate_tried(index, None);
        }
    }

    /// Takes out a trial that is due to be looked at. [`Self::trial_looked_at`] gives it back.
    pub(crate) fn due_trial(&mut self) -> Option<(usize, D::Trial)> {
        let now = now();
        (0..self.gates.len()).find_map(|index| match &mut self.gates.at_mut(index).stage {
            Stage::Tried(attempt) if attempt.look_at <= now => Some((index, attempt.trial.take()?)),
            _ => None,
        })
    }

    /// Notes what the watcher has found at a trial.
    pub(crate) fn trial_looked_at(
        &mut self,
        index: usize,
        mut trial: D::Trial,
        tried: Tried<D::Gate>,
        device: &D,
    ) {
        let Stage::Tried(attempt) = &mut self.gates.at_mut(index).stage else {
            // The runtime has refused the gate, or the process ends.
            device.release_trial(&mut trial);
            return;
        };
        match tried {
            Tried::Pending { again } => {
                attempt.look_at = now() + again;
                if attempt.claim.is_none() {
                    device.release_trial(&mut trial);
                }
                attempt.trial = Some(trial);
            }
            Tried::Undecided if attempt.claim.is_some() => attempt.trial = Some(trial),
            Tried::Undecided => self.gates.at_mut(index).stage = Stage::Untried,
            Tried::Works(gate) => self.gate_tried(index, Some(gate)),
            Tried::Refused => self.gate_tried(index, None),
        }
    }

    /// A trial is over: streams wait at the gate on the device, or, with None, they do not.
    fn gate_tried(&mut self, index: usize, on_device: Option<D::Gate>) {
        let gate = self.gates.at_mut(index);
        let Stage::Tried(Attempt { page, claim, .. }) = gate.stage else { return };
        gate.refuses_pages |= page.is_some() && on_device.is_none();
        gate.stage = match (on_device, claim) {
            (Some(on_device), Some(claim)) => {
                let closing_noted = self.claims.get(claim).last_gate_closing();
                let shared = page.map(|page| Shared { page, closing_noted });
                Stage::There(Gate { on_device, claim, is_open: true, shared })
            }
            (None, _) if page.is_none() => Stage::None,
            _ => Stage::Untried,
        };
        self.apply_limits();
    }

    /// Opens the words of all trials in pages, so that nothing waits there. A trial that the watcher has taken out will find its
    /// word open.
    pub(crate) fn open_tried_pages(&self) {
        for gate in self.gates.iter() {
            if let Stage::Tried(Attempt { page: Some(page), .. }) = &gate.stage {
                page.trial().store(GATE_KEPT_OPEN, Ordering::Release);
            }
        }
    }

    /// Releases all trials, so that nothing waits there until the watcher looks again.
    pub(crate) fn release_trials(&mut self, device: &D) {
        for index in 0..self.gates.len() {
            if let Stage::Tried(Attempt { trial: Some(trial), .. }) = &mut self.gates.at_mut(index).stage {
                device.release_trial(trial);
            }
        }
    }
}
