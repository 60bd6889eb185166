//! One device: its queues, their states, and how urgent they are.
//!
//! Time passes in [`Device::pass`] only, which charges each queue for the time since the last change. Then changes set states,
//! and [`Device::decide`] assigns levels.

use crate::account::Account;
use crate::level::{Level, Move};
use crate::mask::Mask;
use crate::policies::PolicyKind;
use crate::policy::{Policy, View};
use crate::queue::{Process, Queue};
use crate::ranks::Ranks;
use crate::requests::Requests;
use crate::starvation::{self, Patience};
use crate::turns::{Happening, Turns};
use crate::{Attributes, DeviceId, Nanos, QueueId, Settings};

/// No queue is charged for more than this at once: the clock goes on while the machine is suspended.
const LONGEST: Nanos = Nanos::from_secs(1);

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    queues: Vec<Queue>,
    processes: Vec<Process>,
    /// Indices of processes whose work or charge may have changed since the policy saw it, each once.
    changed: Vec<usize>,
    ranks: Ranks,
    policy: Box<dyn Policy>,
    now: Nanos,
    /// Levels at which queues are ready, and the number of ready queues.
    mask: Mask,
    ready: u32,
    /// A queue may have a starvation slice. None begins or ends before `slice_due`, which was computed for the queues that waited
    /// then. `waiting_changed` says that other queues wait now, or that one waits since another time.
    has_slices: bool,
    slice_due: Option<Nanos>,
    waiting_changed: bool,
    /// The policy has not seen all queues, or all attributes.
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
            queues: Vec::new(),
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

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Whether a queue may launch.
    pub(crate) fn is_allowed(&self, queue: &Queue) -> bool {
        queue.level.is_some_and(|level| self.mask.allows(level))
    }

    /// The percentile of its process's latencies for which there is an SLO.
    pub(crate) fn latency(&self, queue: &Queue) -> Option<Nanos> {
        self.processes[queue.process].requests.latency(queue.attributes.slo?.per_mille)
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

    /// Whether ranks here depend on which queues have work.
    pub(crate) fn follows_work(&self) -> bool {
        self.policy.follows_work()
    }

    /// Replaces the policy. The new one knows only what queues and processes keep themselves.
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

    /// Returns the queue's index.
    pub(crate) fn open(
        &mut self,
        now: Nanos,
        id: QueueId,
        attributes: Attributes,
        settings: &Settings,
    ) -> usize {
        self.pass(now, settings);
        let known = self.processes.iter().position(|process| process.id == attributes.process);
        let process = known.unwrap_or_else(|| {
            self.policy.joined();
            self.processes.push(Process {
                id: attributes.process,
                queues: 0,
                ready: 0,
                charged: Nanos::ZERO,
                allowed: Nanos::ZERO,
                allowed_until: now,
                requests: Requests::default(),
                is_changed: false,
            });
            self.processes.len() - 1
        });
        self.processes[process].queues += 1;
        self.queues.push(Queue {
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
        self.queues.len() - 1
    }

    /// The last queue gets the index of the closed one; returns its name, if there is one.
    pub(crate) fn close(&mut self, now: Nanos, index: usize, settings: &Settings) -> Option<QueueId> {
        self.pass(now, settings);
        self.set_ready(now, index, false, settings);
        let queue = self.queues.swap_remove(index);
        self.processes[queue.process].queues -= 1;
        if self.processes[queue.process].queues == 0 {
            self.leave(queue.process);
        }
        self.alter();
        self.queues.get(index).map(|queue| queue.id)
    }

    fn leave(&mut self, process: usize) {
        self.policy.left(process);
        self.processes.swap_remove(process);
        let moved = self.processes.len();
        for queue in &mut self.queues {
            if queue.process == moved {
                queue.process = process;
            }
        }
    }

    pub(crate) fn set_ready(&mut self, now: Nanos, index: usize, ready: bool, settings: &Settings) {
        self.pass(now, settings);
        let queue = &mut self.queues[index];
        if queue.ready == ready {
            return;
        }
        queue.ready = ready;
        let front = self.mask.front();
        let process = &mut self.processes[queue.process];
        process.note_change(queue.process, &mut self.changed);
        if ready {
            self.ready += 1;
            process.ready += 1;
            if process.ready == 1 {
                process.requests.begin(self.now, process.charged);
            }
            queue.level.inspect(|level| self.mask.add(*level));
            let due = queue.patience.due(now, settings);
            self.slice_due = self.slice_due.into_iter().chain(due).min();
        } else {
            self.ready -= 1;
            process.ready -= 1;
            if process.ready == 0 {
                process.requests.end(self.now, settings.linger);
            }
            self.waiting_changed |= queue.patience.due(now, settings) == self.slice_due;
            queue.patience.became_idle(queue.level == front);
            queue.level.inspect(|level| self.mask.remove(*level));
            queue.turns = Turns::default();
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
        self.queues[index].attributes = attributes;
        self.alter();
    }

    pub(crate) fn reported(&mut self, now: Nanos, index: usize, used: Nanos, settings: &Settings) {
        self.pass(now, settings);
        let queue = &mut self.queues[index];
        if !used.is_zero() {
            self.waiting_changed |= queue.patience.used();
        }
        let ran_on = queue.account.ran_on(now, used);
        let correction = queue.account.reported(now, used, settings.patience);
        let process = &mut self.processes[queue.process];
        process.charge(correction);
        process.note_change(queue.process, &mut self.changed);
        if !ran_on.is_zero() {
            self.fill(index, ran_on);
        }
        self.due = Some(Nanos::ZERO);
    }

    /// Divides time that a queue used while others kept it out among those others, in proportion to the time that each did not use.
    fn fill(&mut self, index: usize, time: Nanos) {
        let unused = |queue: &Queue| u128::from(queue.account.unused().0);
        let all: u128 = self.queues.iter().map(unused).sum::<u128>() - unused(&self.queues[index]);
        for (_, queue) in self.queues.iter_mut().enumerate().filter(|(other, _)| *other != index) {
            // The sum of the parts is at most `time`.
            let part = u128::from(time.0) * unused(queue) / all.max(1);
            queue.account.was_filled(Nanos(part as u64));
        }
    }

    /// Adds the levels that change to `moves`.
    pub(crate) fn decide(&mut self, now: Nanos, settings: &Settings, moves: &mut Vec<Move>) {
        self.pass(now, settings);
        let slices_due = self.slice_due.is_some_and(|due| due <= self.now);
        if slices_due {
            self.has_slices =
                starvation::grant_slices(self.now, settings, &mut self.queues, &mut self.happenings);
        }
        if self.altered {
            self.ranks.reset(self.queues.len());
            self.changed.clear();
            self.changed.extend(0..self.processes.len());
        }
        let view = View {
            now: self.now,
            settings,
            queues: &self.queues,
            processes: &self.processes,
            changed: &self.changed,
            altered: self.altered,
            has_starvation_slice: self.has_slices
                && self.queues.iter().any(|queue| queue.ready && queue.patience.has_slice()),
        };
        let again = self.policy.rank(&view, &mut self.ranks);
        for process in self.changed.drain(..) {
            self.processes[process].is_changed = false;
        }
        self.assign(slices_due, moves);
        let next = || starvation::next(self.now, settings, &self.queues, self.mask.front());
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

    /// Assigns levels to queues: where ranks have changed, own or neighbouring ones, or to all.
    fn assign(&mut self, all: bool, moves: &mut Vec<Move>) {
        for (index, level) in self.ranks.moved(all) {
            let queue = &mut self.queues[index];
            let level = if queue.patience.has_slice() { Level::STARVED } else { level };
            if queue.level == Some(level) {
                continue;
            }
            let from = queue.level.replace(level);
            if queue.ready {
                from.inspect(|from| self.mask.remove(*from));
                self.mask.add(level);
            }
            moves.push(Move { queue: queue.id, from, to: level });
            self.waiting_changed = true;
        }
    }

    /// The policy has to rank all queues again.
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
        for queue in self.queues.iter_mut().filter(|queue| queue.ready) {
            let is_allowed = queue.level == Some(front);
            if let Some(happenings) = &mut self.happenings {
                let turns = &mut queue.turns;
                let what = if is_allowed { turns.was_allowed() } else { turns.had_to_wait(time) };
                happenings.extend(what.map(|what| Happening { queue: queue.id, what }));
            }
            if !is_allowed {
                queue.patience.had_to_wait(time, settings);
                continue;
            }
            queue.patience.was_allowed(time, settings);
            let charge = queue.account.ran(now, part, self.ready > running, settings.patience);
            let process = &mut self.processes[queue.process];
            process.charge(charge);
            process.note_change(queue.process, &mut self.changed);
            if process.allowed_until < now {
                process.allowed_until = now;
                process.allowed += time;
            }
        }
    }
}
