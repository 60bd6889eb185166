//! How much work a queue may have in flight.
//!
//! Launched work runs, whatever becomes more urgent meanwhile (unless something stops it on the device). So it should be little,
//! but enough to keep the device busy until the next completion is noticed. Both are times, not counts: two kernels of a
//! millisecond are plenty, and two of five microseconds are nothing.
//!
//! ```text
//!   completed            running   next      may one more be launched?
//!   ........|------------|=====>---|---------|- - - - -|
//!                              '--- ahead ---'   class
//! ```
//!
//! The limiter gets all launches and completions, in order. From completions it estimates how long commands of a class take, and
//! from that when to look for completions next.

mod busy;
mod estimate;
mod gate;

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use crate::Nanos;
pub use estimate::Durations;
use estimate::{Estimate, Known};
pub use gate::Gate;

/// The limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As many commands as are expected to take `ahead` together, but at least `commands` and at most `most`.
    Time {
        /// Device time that may be in flight.
        ahead: Nanos,
        /// Commands that may be in flight, however long they take. 0 means 1.
        commands: u32,
        /// Commands that may be in flight, however short they are.
        most: u32,
    },
    /// XSched's: at most `threshold` commands; once `batch` more fit, that many are launched at once.
    Commands {
        /// Commands that may be in flight. 0 means 1.
        threshold: u32,
        /// Commands launched at once. 0 means 1; at most the threshold.
        batch: u32,
    },
}

impl Limit {
    /// Behind gates, where more may be launched ahead: it keeps no other process waiting.
    pub const GATED: Self = Self::of_time(Nanos::from_millis(1), 2);

    /// So much device time, but at least so many commands.
    pub const fn of_time(ahead: Nanos, commands: u32) -> Self {
        Self::Time { ahead, commands, most: u32::MAX }
    }
}

impl Default for Limit {
    /// The running command and the next one; of short ones, a tenth of a millisecond.
    fn default() -> Self {
        Self::of_time(Nanos::from_micros(100), 2)
    }
}

/// The commands of a queue that are in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    limit: Limit,
    /// In the order in which they were launched and will complete.
    launched: VecDeque<Command>,
    /// Sums of [`Command::at_least`] and [`Command::at_most`].
    at_least: Nanos,
    at_most: Nanos,
    /// How many commands in flight have no estimate.
    unknown: usize,
    /// When the last completed command probably ended.
    completed: Nanos,
    /// When it ended at the latest.
    completed_by: Nanos,
    /// When the oldest command was last seen not to have completed.
    incomplete: Nanos,
    /// The rest of a batch that may still be launched.
    batch_left: u32,
    /// Number of commands, from the oldest on, beside which other queues' commands may run.
    disturbed: usize,
    /// Commands that complete until then also run beside other queues' commands.
    disturbed_until: Nanos,
    /// Charges by payer since the last [`InFlight::take_charges`]. A few, in no order.
    charges: Vec<(Payer, Nanos)>,
    /// The next command comes behind a wait for something outside the device.
    is_next_behind_wait: bool,
    /// The longest time that a command took recently, whatever its class.
    longest: Nanos,
    gate: Gate,
    durations: Durations,
}

/// An identifier for what a command was launched for, as far as the caller distinguishes it.
pub type Payer = u8;

/// A command that was launched.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Commands of a class take equally long: the kernel and its grid, say.
    pub class: u64,
    /// What it is charged to.
    pub payer: Payer,
    /// The earliest time at which it may run: the begin of the call that launched it, which returned later.
    pub begun: Nanos,
    /// Whether it waits at the gate while that is closed.
    pub is_gated: bool,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    launch: Launch,
    launched: Nanos,
    /// The estimate of its class at launch.
    estimate: Option<Estimate>,
    /// It begins only when something outside the device allows it.
    is_behind_wait: bool,
}

/// The clock by which a time was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// The host's, which sees completions late.
    Host,
    Device,
}

/// When a queue is resumed, this many commands of other queues, or this much of their time, may overlap with its own.
const DISTURBED: usize = 2;
const DISTURBED_FOR: Nanos = Nanos::from_micros(250);

/// The clocks of the host and of a device differ by less than one part in this number.
const CLOCKS: u64 = 4096;

/// The longest time for which a command is taken to execute.
const EXECUTING_MAX: Nanos = Nanos::from_secs(10);

/// When to look for a completion without an estimate.
const FIRST_LOOK: Nanos = Nanos::from_micros(20);

/// An overdue command is looked for at intervals of this part of its time so far. So a completion is noticed late by one part in
/// this number at most.
const LOOKS: u64 = 16;

/// The shortest and the longest time until the next look at an overdue command.
const LOOK_AGAIN: [Nanos; 2] = [Nanos::from_micros(5), Nanos::from_millis(1)];

impl InFlight {
    /// Without commands in flight and without estimates.
    pub fn new(limit: Limit) -> Self {
        Self::sharing(limit, Durations::default())
    }

    /// Without commands in flight, with what other queues have learnt and will learn.
    pub fn sharing(limit: Limit, durations: Durations) -> Self {
        Self { limit, durations, ..Self::default() }
    }

    /// What it has learnt, to share it with another queue.
    pub fn durations(&self) -> Durations {
        self.durations.clone()
    }

    /// Learns with other queues from now on.
    pub fn share(&mut self, durations: Durations) {
        self.durations = durations;
    }

    /// Changes the limit. Estimates stay.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.batch_left = 0;
    }

    /// The limit in effect.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Commands that were launched and are not known to have completed.
    pub fn outstanding(&self) -> usize {
        self.launched.len()
    }

    /// Whether one more may be launched now. Commands of a `class` take equally long: the kernel and its grid, say.
    pub fn may_launch(&self, now: Nanos, class: u64) -> bool {
        let count = self.launched.len() as u64;
        match self.limit {
            _ if count == 0 => true,
            Limit::Time { commands, .. } if count < commands.into() => true,
            Limit::Time { most, .. } if count >= most.into() => false,
            Limit::Time { ahead, .. } => self
                .durations
                .of(class)
                .is_some_and(|estimate| self.ahead(now) + estimate.at_most <= ahead && self.all_known()),
            Limit::Commands { threshold, batch } => {
                let (threshold, batch) = batch_of(threshold, batch);
                count < threshold && (self.batch_left > 0 || count + batch <= threshold)
            }
        }
    }

    /// How much of the limit is left. None: it is not known how long the commands in flight take, or a number of commands is the
    /// limit.
    pub fn left(&self, now: Nanos) -> Option<Nanos> {
        match self.limit {
            Limit::Time { ahead, .. } => self.all_known().then(|| ahead - self.ahead(now)),
            Limit::Commands { .. } => None,
        }
    }

    /// The queue was suspended or resumed: other queues' commands run beside those in flight and the next few. Times of these
    /// commands say little then.
    pub fn disturbed(&mut self, now: Nanos) {
        self.disturbed = self.launched.len() + DISTURBED;
        self.disturbed_until = now + DISTURBED_FOR;
    }

    /// The gate opens or closes.
    pub fn set_gate(&mut self, now: Nanos, is_open: bool) {
        self.gate.set(now, is_open);
        if self.launched.is_empty() {
            // A command that comes from now on comes later.
            self.gate.forget(now);
        }
    }

    /// The next command begins only when something outside the device allows it: the host, or another process.
    pub fn waits(&mut self) {
        self.is_next_behind_wait = true;
    }

    /// That was allowed, before the next command.
    pub fn wait_is_over(&mut self) {
        self.is_next_behind_wait = false;
    }

    /// A command was launched.
    pub fn launched(&mut self, now: Nanos, class: u64) {
        self.launched_for(now, Launch { class, payer: 0, begun: now, is_gated: false });
    }

    /// The same for a payer, which [`Self::take_charges`] returns with the charge. Returns how long the command usually takes, if
    /// that is known.
    pub fn launched_for(&mut self, now: Nanos, launch: Launch) -> Option<Nanos> {
        let launch = Launch { begun: launch.begun.min(now), ..launch };
        let command = Command {
            launch,
            launched: now,
            estimate: self.durations.of(launch.class),
            is_behind_wait: mem::take(&mut self.is_next_behind_wait),
        };
        self.at_least += command.at_least();
        self.at_most += command.at_most();
        self.unknown += usize::from(command.estimate.is_none());
        self.launched.push_back(command);
        if let Limit::Commands { threshold, batch } = self.limit {
            let left =
                if self.batch_left > 0 { self.batch_left.into() } else { batch_of(threshold, batch).1 };
            self.batch_left = (left - 1) as u32;
        }
        command.expected()
    }

    /// The caller has looked: the first `count` of the outstanding commands have completed, some time since the last look;
    /// `count` may be 0. Returns the device time that they took, as far as the host can tell. It begins at the completion before
    /// them or at their launch, whichever is later, and leaves out the time at a closed gate and the gaps between launches. If
    /// other queues' work probably ran in between, it is at most the usual time.
    pub fn completed(&mut self, now: Nanos, count: usize) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        let began = self.passed(first, now);
        let took = now - began;
        // The next one has not completed, but may be about to.
        let next_runs = self.launched.len() > count;
        let but_one = if next_runs { took.times(count as u64) / (count as u64 + 1) } else { Nanos::ZERO };
        let earliest = (began + but_one).max(self.incomplete).max(self.last_begun(count)).min(now);
        // It must not be taken as now at every look: the next look would be as late.
        let end = if now - earliest <= took / 8 { now } else { earliest + (now - earliest) / 2 };
        let own = self.finish(end, now, count, end - began, Clock::Host);
        self.incomplete = now;
        own
    }

    /// The caller has synchronized: the first `count` of the outstanding commands have completed, just now. Returns the same as
    /// [`Self::completed`].
    pub fn waited(&mut self, now: Nanos, count: usize) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        self.finish(now, now, count, now - self.passed(first, now), Clock::Host)
    }

    /// The same, with the time between the completion before and the last of these by the device's clock. That also tells when they
    /// ended, which may be long ago: a caller that looks late at several in turn learns how long each took.
    pub fn completed_in(&mut self, now: Nanos, count: usize, between: Nanos) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        // The host knows the time of the completion before only as well as it noticed it, and derives this one's from it. The
        // device may have been idle between them.
        let by = self.completed_by + between + between / CLOCKS;
        // If the end is before a time that is known to be later, it tells nothing.
        let is_possible = by > self.last_begun(count) && by >= self.incomplete;
        let by = if is_possible { by.min(now) } else { now };
        let began = self.passed(first, by);
        let took = between.min(by - began);
        let end = (began + took).max(self.incomplete).min(now);
        self.finish(end, by, count, took, Clock::Device)
    }

    /// Whether the next command, which is of this class, should be measured by itself. If so, [`Self::sampled`] should tell its time.
    pub fn begins_sample(&self, now: Nanos, class: u64) -> bool {
        self.durations.begins_sample(class, now)
    }

    /// A command of a class, which was launched at `launched`, took this long by itself, by the device's clock. It may still be in
    /// flight as far as is known here.
    pub fn sampled(&mut self, class: u64, launched: Nanos, took: Nanos) {
        let is_disturbed = self.disturbed > 0 || launched < self.disturbed_until;
        if !is_disturbed {
            self.durations.learn_sample(class, took, launched);
        }
    }

    /// When the launch of the last of the first `count` began: not all of them were complete before.
    fn last_begun(&self, count: usize) -> Nanos {
        let last = count.min(self.launched.len()).checked_sub(1);
        last.and_then(|last| self.launched.get(last)).map_or(Nanos::ZERO, |last| last.launch.begun)
    }

    /// The first `count` ended at `end`, probably, and by `by` for certain. With the gaps between them they took `took`, by that
    /// clock.
    fn finish(&mut self, end: Nanos, by: Nanos, count: usize, took: Nanos, clock: Clock) -> Nanos {
        let count = count.min(self.launched.len());
        if count == 0 {
            return Nanos::ZERO;
        }
        let done = || self.launched.iter().take(count);
        // Each gets its part of the whole; one without an estimate gets an equal part.
        let known = done().filter_map(Command::expected);
        let (sum, known) = known.fold((0, 0_u64), |(sum, count), time| (sum + time.0, count + 1));
        let typical = sum.checked_div(known).unwrap_or(1).max(1);
        let weight = |command: &Command| command.expected().map_or(typical, |time| time.0.max(1));
        let whole: u64 = done().map(weight).sum();
        // Of unlike commands the proportions must be known.
        let class = self.launched.front().map(|first| first.launch.class);
        let is_proportionate =
            known == count as u64 || done().all(|command| Some(command.launch.class) == class);
        let parts = done().map(|command| (command.launch.begun, weight(command)));
        let in_proportion = if is_proportionate { busy::at_most(took, by, parts) } else { took };
        // Commands of a class may take unequal times. Classes of which some commands were seen one by one tell how unequal.
        let may_be_long = |command: &Command| Some((command.launch.begun, command.estimate?.longest?));
        let took = if done().all(|command| may_be_long(command).is_some()) {
            in_proportion.max(busy::possibly(took, by, done().filter_map(may_be_long)))
        } else {
            in_proportion
        };
        let is_exact = count == 1 && clock == Clock::Device;
        // Which of them had passed the gate is not known.
        let is_gated = done().skip(1).any(|command| command.launch.is_gated);
        let closed = if is_gated { self.gate.closed_for(by - took, by) } else { Nanos::ZERO };
        let mut own = Nanos::ZERO;
        let durations = self.durations.clone();
        let mut estimates = durations.estimates();
        for _ in 0..count {
            let Some(command) = self.launched.pop_front() else { break };
            // Nothing else bounds the charge of a command without an estimate.
            let took = if command.estimate.is_none() { took - closed } else { took };
            let part = u128::from(took.0) * u128::from(weight(&command)) / u128::from(whole);
            let part = Nanos(part as u64);
            let disturbed = self.disturbed > 0 || end < self.disturbed_until;
            self.disturbed = self.disturbed.saturating_sub(1);
            let known = Known { disturbed, is_exact, at: end };
            // By now its class may be known.
            let estimate = command.estimate.or_else(|| estimates.of(command.launch.class));
            let charge = estimate.map_or(part, |estimate| estimate.own_part(part, known));
            own += charge;
            self.charge(command.launch.payer, charge);
            self.at_least = self.at_least - command.at_least();
            self.at_most = self.at_most - command.at_most();
            self.unknown -= usize::from(command.estimate.is_none());
            estimates.learn(command.launch.class, part, known);
            if !command.is_behind_wait {
                self.longest = part.max(self.longest - self.longest / 64);
            }
        }
        self.completed = end;
        self.completed_by = by;
        self.gate.forget(end);
        own
    }

    fn charge(&mut self, payer: Payer, charge: Nanos) {
        match self.charges.iter_mut().find(|(known, _)| *known == payer) {
            Some((_, sum)) => *sum += charge,
            None => self.charges.push((payer, charge)),
        }
    }

    /// The payers of the device time that was returned since the last call, with their parts; the sum is all of it.
    pub fn take_charges(&mut self) -> impl Iterator<Item = (Payer, Nanos)> {
        self.charges.drain(..)
    }

    /// Forgets which payers commands in flight have: the payers' numbers have lost their meaning.
    pub fn forget_payers(&mut self) {
        self.launched.iter_mut().for_each(|command| command.launch.payer = 0);
        self.charges.clear();
    }

    /// Drops all commands in flight: their completions will not be seen. Estimates stay.
    pub fn clear(&mut self) {
        self.launched.clear();
        (self.at_least, self.at_most, self.unknown) = (Nanos::ZERO, Nanos::ZERO, 0);
        self.batch_left = 0;
    }

    /// Estimated upper bound of the device time that is launched and not yet done.
    pub fn ahead(&self, now: Nanos) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        let of_first = (now - self.began(first)).min(first.at_most());
        self.at_most - of_first
    }

    /// Estimated upper bound of the time that the outstanding commands take together. It includes the time that they have taken
    /// already, and is never less.
    pub fn length(&self, now: Nanos) -> Nanos {
        self.at_most.max(self.running_for(now))
    }

    /// How long commands of a class usually take, if there is an estimate.
    pub fn expected(&self, class: u64) -> Option<Nanos> {
        self.durations.of(class).map(|estimate| estimate.expected)
    }

    /// For how long the first command has been running, by the host's times. Zero if nothing is in flight.
    pub fn running_for(&self, now: Nanos) -> Nanos {
        self.launched.front().map_or(Nanos::ZERO, |first| now - self.began(first))
    }

    /// Whether the first command probably executes: it waits for nothing outside the device, and has run for at most a quarter
    /// longer than its class ever did. For an unknown class, any command counts. Longer commands are taken to wait, since earlier
    /// times may have included waits, too.
    pub fn is_executing(&self, now: Nanos) -> bool {
        self.launched.front().is_some_and(|first| {
            let longest = first.estimate.map_or(self.longest, |estimate| estimate.at_most);
            let most = (longest + longest / 4).min(EXECUTING_MAX);
            !first.is_behind_wait && now < self.runs_since(first) + most
        })
    }

    /// By how much the first command exceeds the time that its class hardly ever exceeds. Without an estimate, all of its time.
    pub fn overdue(&self, now: Nanos) -> Nanos {
        self.launched.front().map_or(Nanos::ZERO, |first| self.running_for(now) - first.at_most())
    }

    /// Whether half of the limit is used, or may be: further launches may soon have to wait.
    pub fn is_half_full(&self, now: Nanos) -> bool {
        match self.limit {
            Limit::Time { ahead, most, .. } => {
                let is_many = 2 * self.launched.len() as u64 >= u64::from(most);
                is_many || self.ahead(now) > ahead / 2 || !self.all_known()
            }
            Limit::Commands { threshold, .. } => 2 * self.launched.len() as u64 >= u64::from(threshold),
        }
    }

    /// When to look for completions if there is more to launch. The first command may have completed then, and at most half of
    /// the limit may be left, so short commands are not looked for one by one. `None`: nothing is in flight.
    ///
    /// Commands that were launched without a limit may exceed it many times. Each may now take less time than it did beside other
    /// queues' commands. They are looked at as often as the limit would require.
    pub fn capacity_at(&self, now: Nanos) -> Option<Nanos> {
        let first = self.launched.front()?;
        let end = self.end_of(first);
        let wanted = match self.limit {
            Limit::Time { ahead, commands, .. } if self.launched.len() > commands as usize => {
                end.max(self.runs_since(first) + (self.at_least - ahead / 2)).min(end + ahead)
            }
            _ => end,
        };
        Some(self.look_at(now, first, wanted))
    }

    /// When to look for completions if there is nothing more to launch: when the oldest commands, which take at least `work`
    /// together, may have completed. If that is far, half-way there, since commands may take less time than they did. `None`:
    /// nothing is in flight.
    ///
    /// It is not when all will have completed: a queue that goes on launching would put that off for ever.
    pub fn done_at(&self, now: Nanos, work: Nanos) -> Option<Nanos> {
        let first = self.launched.front()?;
        let rest = work - first.at_least();
        Some(self.look_at(now, first, self.end_of(first) + rest / 2))
    }

    /// Estimated lower bound of the time that commands in flight take together, given their positions from the oldest on.
    pub fn least(&self, places: Range<usize>) -> Nanos {
        let end = places.end.min(self.launched.len());
        self.launched
            .range(places.start.min(end)..end)
            .fold(Nanos::ZERO, |sum, command| sum + command.at_least())
    }

    /// An overdue command is looked for at intervals that are a part of its time so far. If it probably waits at a gate, the
    /// intervals are as long as that time: its completion is not needed there, and opening the gate causes a look.
    fn look_at(&self, now: Nanos, first: &Command, wanted: Nanos) -> Nanos {
        if wanted > now {
            return wanted;
        }
        let taken = now - self.runs_since(first);
        let waits = first.launch.is_gated && self.gate.is_closed() && taken > first.at_most();
        let [soonest, latest] = LOOK_AGAIN;
        now + (if waits { taken } else { taken / LOOKS }).clamp(soonest, latest)
    }

    /// When it began to run, as far as is known: after the one before it.
    fn began(&self, first: &Command) -> Nanos {
        first.launched.max(self.completed)
    }

    /// The same for a command that has not completed and may have waited at a gate meanwhile.
    fn runs_since(&self, first: &Command) -> Nanos {
        self.passed(first, Nanos(u64::MAX))
    }

    /// The same for a command that has completed.
    fn passed(&self, first: &Command, by: Nanos) -> Nanos {
        let began = self.began(first);
        if first.launch.is_gated { self.gate.passed(began, by) } else { began }
    }

    /// A little before it will have completed: a look that finds it complete does not tell since when.
    fn end_of(&self, first: &Command) -> Nanos {
        let at_least = first.at_least();
        self.runs_since(first) + (at_least - at_least / LOOKS)
    }

    fn all_known(&self) -> bool {
        self.unknown == 0
    }
}

impl Command {
    fn expected(&self) -> Option<Nanos> {
        self.estimate.map(|estimate| estimate.expected)
    }

    fn at_least(&self) -> Nanos {
        self.estimate.map_or(FIRST_LOOK, |estimate| estimate.at_least)
    }

    fn at_most(&self) -> Nanos {
        self.estimate.map_or(Nanos::ZERO, |estimate| estimate.at_most)
    }
}

/// At least 1 each, and in proportion.
fn batch_of(threshold: u32, batch: u32) -> (u64, u64) {
    let threshold = u64::from(threshold.max(1));
    (threshold, u64::from(batch.max(1)).min(threshold))
}

#[cfg(test)]
mod tests;
