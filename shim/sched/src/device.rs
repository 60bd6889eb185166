//! One device: its queues, what happened to them, and how urgent they are.
//!
//! Time passes in [`Device::pass`] only, which charges everybody for what has been since the last event; then events
//! change states, and [`Device::decide`] draws the conclusions.

use crate::account::Account;
use crate::level::{Dense, Level, Move, Rank};
use crate::policy::{Answer, Policy, PolicyKind, View};
use crate::starvation::{self, Patience};
use crate::{Attributes, DeviceId, Nanos, ProcessId, QueueId, Settings};

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) attributes: Attributes,
    /// Index of its process.
    pub(crate) process: usize,
    pub(crate) ready: bool,
    /// `None` until it has been decided on.
    pub(crate) level: Option<Level>,
    pub(crate) account: Account,
    pub(crate) patience: Patience,
}

impl Queue {
    /// Its place among its process's queues, most urgent first.
    pub(crate) fn stream_order(&self) -> u64 {
        u64::from(i32::MAX.abs_diff(self.attributes.stream_priority))
    }
}

/// A process's part of a device.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    /// How many queues it has.
    pub(crate) queues: usize,
    /// How many of them are ready.
    pub(crate) ready: usize,
    /// How many of them are ready and allowed to launch.
    pub(crate) running: usize,
    /// Device time that it is charged for, by all its queues so far. A report may take back what was assumed.
    pub(crate) charged: Nanos,
    /// Time for which it had a ready queue that was allowed to launch.
    pub(crate) allowed: Nanos,
}

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    queues: Vec<Queue>,
    processes: Vec<Process>,
    ranks: Vec<Rank>,
    dense: Dense,
    policy: Box<dyn Policy>,
    now: Nanos,
    /// The most urgent level at which a queue is ready.
    front: Option<Level>,
    /// How many queues are ready at that level, and how many at others.
    running: usize,
    waiting: usize,
    /// `front` and what depends on it must be found again.
    stale: bool,
    /// There are queues, or attributes, that the policy has not seen.
    altered: bool,
    /// When there is something to decide at the latest. The past: at once.
    due: Option<Nanos>,
}

impl Device {
    pub(crate) fn new(id: DeviceId, policy: PolicyKind, now: Nanos) -> Self {
        Self {
            id,
            queues: Vec::new(),
            processes: Vec::new(),
            ranks: Vec::new(),
            dense: Dense::default(),
            policy: policy.start(),
            now,
            front: None,
            running: 0,
            waiting: 0,
            stale: false,
            altered: false,
            due: None,
        }
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Whether a queue may launch, as of the last decision.
    pub(crate) fn is_allowed(&self, queue: &Queue) -> bool {
        queue.level.is_some_and(|level| self.front.is_none_or(|front| level <= front))
    }

    pub(crate) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Another policy takes over; it knows nothing of what was before but what is kept of queues and processes.
    pub(crate) fn set_policy(&mut self, now: Nanos, policy: Box<dyn Policy>, settings: &Settings) {
        self.pass(now, settings);
        self.policy = policy;
        for _ in &self.processes {
            self.policy.joined();
        }
        self.alter();
    }

    /// What has been so far is judged by the settings that held.
    pub(crate) fn settings_change(&mut self, now: Nanos, settings: &Settings) {
        self.pass(now, settings);
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
                running: 0,
                charged: Nanos::ZERO,
                allowed: Nanos::ZERO,
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
        });
        self.ranks.push(Rank::default());
        self.alter();
        self.queues.len() - 1
    }

    /// The last queue takes the place of the one that is closed; returns its name, if there is one.
    pub(crate) fn close(&mut self, now: Nanos, index: usize, settings: &Settings) -> Option<QueueId> {
        self.pass(now, settings);
        self.set_ready(now, index, false, settings);
        let queue = self.queues.swap_remove(index);
        self.ranks.swap_remove(index);
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
        let process = &mut self.processes[queue.process];
        if ready {
            process.ready += 1;
        } else {
            process.ready -= 1;
            queue.patience.became_idle(queue.level == self.front);
        }
        self.touch();
    }

    /// Device and process are those that it had.
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
        let correction = queue.account.reported(now, used, settings.patience);
        self.processes[queue.process].charge(correction);
        self.touch();
    }

    /// Levels that are to change are added to `moves`.
    pub(crate) fn decide(&mut self, now: Nanos, settings: &Settings, moves: &mut Vec<Move>) {
        self.pass(now, settings);
        self.look();
        let view = View {
            now: self.now,
            settings,
            queues: &self.queues,
            processes: &self.processes,
            altered: self.altered,
        };
        let Answer { changed, again } = self.policy.rank(&view, &mut self.ranks);
        if changed || self.altered {
            self.dense.assign(&self.ranks);
        }
        starvation::take_turns(self.now, settings, &mut self.queues);
        for (queue, rank) in self.queues.iter_mut().zip(&self.ranks) {
            let level = if queue.patience.has_turn() { Level::TURN } else { self.dense.level(*rank) };
            if queue.level != Some(level) {
                moves.push(Move { queue: queue.id, from: queue.level, to: level });
                queue.level = Some(level);
                self.stale = true;
            }
        }
        self.altered = false;
        self.look();
        let turn = starvation::next(self.now, settings, &self.queues, self.front);
        self.due = again.into_iter().chain(turn).min();
    }

    /// Something happened that the next decision depends on.
    fn touch(&mut self) {
        self.stale = true;
        self.due = Some(Nanos::ZERO);
    }

    fn alter(&mut self) {
        self.altered = true;
        self.touch();
    }

    /// Time passes, with everything as it was.
    fn pass(&mut self, now: Nanos, settings: &Settings) {
        let time = now - self.now;
        if time.is_zero() {
            return;
        }
        self.look();
        self.now = now;
        let Some(front) = self.front else { return };
        let part = time / self.running.max(1) as u64;
        for queue in self.queues.iter_mut().filter(|queue| queue.ready) {
            if queue.level == Some(front) {
                queue.patience.was_allowed(time, settings);
                let charge = queue.account.ran(now, part, self.waiting > 0, settings.patience);
                self.processes[queue.process].charge(charge);
            } else {
                queue.patience.had_to_wait(time);
            }
        }
        for process in self.processes.iter_mut().filter(|process| process.running > 0) {
            process.allowed += time;
        }
    }

    /// Finds out who is in front.
    fn look(&mut self) {
        if !self.stale {
            return;
        }
        self.stale = false;
        self.front = self.queues.iter().filter(|queue| queue.ready).filter_map(|queue| queue.level).min();
        (self.running, self.waiting) = (0, 0);
        for process in &mut self.processes {
            process.running = 0;
        }
        for queue in self.queues.iter().filter(|queue| queue.ready) {
            if queue.level == self.front {
                self.running += 1;
                self.processes[queue.process].running += 1;
            } else {
                self.waiting += 1;
            }
        }
    }
}

impl Process {
    fn charge(&mut self, time: i64) {
        self.charged = Nanos(self.charged.0.saturating_add_signed(time));
    }
}
