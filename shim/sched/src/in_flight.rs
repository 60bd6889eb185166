//! How much work a queue may have launched ahead.
//!
//! What has been launched runs, whatever becomes more urgent meanwhile (unless something stops it on the device). So it
//! should be little; but enough to keep the device busy until the next completion has been noticed. Both are times, not
//! counts: two kernels of a millisecond are plenty and two of five microseconds are nothing.
//!
//! ```text
//!   completed            running   next      may one more be launched?
//!   ........|------------|=====>---|---------|- - - - -|
//!                              '--- ahead ---'   class
//! ```
//!
//! The limiter is told what is launched and what has completed, in order; it estimates how long kernels of a class take
//! from when they completed, and says when to look for completions next.

mod busy;
mod estimate;
mod gate;

use std::collections::VecDeque;
use std::ops::Range;

use crate::Nanos;
use estimate::{Estimate, Estimates, Known};
pub use gate::Gate;

/// The limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As many commands as take so long together, as far as is known, but `commands` in any case.
    Time {
        /// Device time that may be launched ahead.
        ahead: Nanos,
        /// Commands that may be, however long they take. 0 means 1.
        commands: u32,
    },
    /// XSched's: at most `threshold` commands; when there is room for `batch` of them, so many are launched at once.
    Commands {
        /// Commands that may be launched ahead. 0 means 1.
        threshold: u32,
        /// Commands launched at once. 0 means 1; no more than the threshold.
        batch: u32,
    },
}

impl Default for Limit {
    /// The command that runs and the one after it; of short ones, a tenth of a millisecond.
    fn default() -> Self {
        Self::Time { ahead: Nanos::from_micros(100), commands: 2 }
    }
}

/// What a queue has in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    limit: Limit,
    /// In the order in which they were launched and will complete.
    launched: VecDeque<Command>,
    /// Sums of [`Command::at_least`] and [`Command::at_most`].
    at_least: Nanos,
    at_most: Nanos,
    /// When the last one completed, probably.
    completed: Nanos,
    /// When it had at the latest.
    completed_by: Nanos,
    /// When it was last seen that the oldest command had not completed.
    incomplete: Nanos,
    /// What may still be launched of a batch.
    batch_left: u32,
    /// Commands, from the oldest one on, beside which others' may run.
    disturbed: usize,
    /// Those that complete by then are beside others', too.
    disturbed_until: Nanos,
    /// What was charged to whom since somebody last asked. A few, in no order.
    charges: Vec<(Payer, Nanos)>,
    gate: Gate,
    estimates: Estimates,
}

/// For whom a command was launched, as far as the caller tells its callers apart.
pub type Payer = u8;

/// A command that was launched.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// What makes commands take equally long: the kernel and its grid, say.
    pub class: u64,
    /// For whom.
    pub payer: Payer,
    /// From when on it may have run: the call that launched it began then, and returned later.
    pub begun: Nanos,
    /// Whether it waits where the gate is shut when it is its turn.
    pub is_gated: bool,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    launch: Launch,
    launched: Nanos,
    /// What was known of its class.
    estimate: Option<Estimate>,
}

/// By what a time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// That of the host, which is late to see.
    Host,
    Device,
}

/// What of others may be in flight when a queue is resumed: so many commands, or so much device time, and as much of the
/// queue's own between them.
const DISTURBED: usize = 2;
const DISTURBED_FOR: Nanos = Nanos::from_micros(250);

/// The clocks of the host and of a device differ by less than one part in so many.
const CLOCKS: u64 = 4096;

/// When to look for a completion of which nothing is known.
const FIRST_LOOK: Nanos = Nanos::from_micros(20);

/// Looks for an overdue command in the time that it has taken so far: a completion is noticed late by one part in so many.
const LOOKS: u64 = 16;

/// How soon, at the earliest, and how late, at the latest, to look again for what is overdue.
const LOOK_AGAIN: [Nanos; 2] = [Nanos::from_micros(5), Nanos::from_millis(1)];

impl InFlight {
    /// Nothing in flight, nothing known.
    pub fn new(limit: Limit) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Another limit from now on. What is known of kernels stays.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.batch_left = 0;
    }

    /// The limit that holds.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Commands launched and not known to have completed.
    pub fn outstanding(&self) -> usize {
        self.launched.len()
    }

    /// Whether one more may be launched now. `class` stands for what makes commands take equally long: the kernel and its
    /// grid, say.
    pub fn may_launch(&self, now: Nanos, class: u64) -> bool {
        let count = self.launched.len() as u64;
        match self.limit {
            _ if count == 0 => true,
            Limit::Time { commands, .. } if count < commands.into() => true,
            Limit::Time { ahead, .. } => self
                .estimates
                .of(class)
                .is_some_and(|estimate| self.ahead(now) + estimate.at_most <= ahead && self.all_known()),
            Limit::Commands { threshold, batch } => {
                let (threshold, batch) = batch_of(threshold, batch);
                count < threshold && (self.batch_left > 0 || count + batch <= threshold)
            }
        }
    }

    /// The queue was suspended, or resumed: other processes' commands run beside those that are in flight and the next
    /// few. How long they take says little then.
    pub fn disturbed(&mut self, now: Nanos) {
        self.disturbed = self.launched.len() + DISTURBED;
        self.disturbed_until = now + DISTURBED_FOR;
    }

    /// The gate is open, or shut, from now on.
    pub fn set_gate(&mut self, now: Nanos, is_open: bool) {
        self.gate.set(now, is_open);
        if self.launched.is_empty() {
            // Whoever comes now comes later.
            self.gate.forget(now);
        }
    }

    /// A command was launched.
    pub fn launched(&mut self, now: Nanos, class: u64) {
        self.launched_for(now, Launch { class, payer: 0, begun: now, is_gated: false });
    }

    /// The same on behalf of somebody: [`Self::take_charges`] says what it took.
    pub fn launched_for(&mut self, now: Nanos, launch: Launch) {
        let launch = Launch { begun: launch.begun.min(now), ..launch };
        let command = Command { launch, launched: now, estimate: self.estimates.of(launch.class) };
        self.at_least += command.at_least();
        self.at_most += command.at_most();
        self.launched.push_back(command);
        if let Limit::Commands { threshold, batch } = self.limit {
            let left =
                if self.batch_left > 0 { self.batch_left.into() } else { batch_of(threshold, batch).1 };
            self.batch_left = (left - 1) as u32;
        }
    }

    /// Somebody has looked: the first `count` of the outstanding commands have completed, some time since the last look, or
    /// none. Returns the device time that they took, as far as the host can tell: since the completion before or the
    /// launch, whichever is later, less what passed at a shut gate and the gaps that must have been between them, and no more than
    /// usual if other processes' work was probably in between.
    pub fn completed(&mut self, now: Nanos, count: usize) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        let began = self.passed(first, now);
        let took = now - began;
        // The next one has not completed; it may be about to.
        let next_runs = self.launched.len() > count;
        let but_one = if next_runs { took.times(count as u64) / (count as u64 + 1) } else { Nanos::ZERO };
        let earliest = (began + but_one).max(self.incomplete).max(self.last_begun(count)).min(now);
        // It must not be taken for now whenever somebody looks: the next look would be as late.
        let end = if now - earliest <= took / 8 { now } else { earliest + (now - earliest) / 2 };
        let own = self.finish(end, now, count, end - began, Clock::Host);
        self.incomplete = now;
        own
    }

    /// Somebody has waited for it: the first `count` of the outstanding commands have completed, just now. Returns what
    /// [`Self::completed`] does.
    pub fn waited(&mut self, now: Nanos, count: usize) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        self.finish(now, now, count, now - self.passed(first, now), Clock::Host)
    }

    /// The same with the time between the completion before and the last of these by the device's clock. It tells as well when
    /// they were done, which may be long ago: who looks late at several in turn is to see how long each took.
    pub fn completed_in(&mut self, now: Nanos, count: usize, between: Nanos) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        // The completion before is known to the host as well as it was ever noticed, and this one by it: what lies between
        // them may be idling.
        let by = self.completed_by + between + between / CLOCKS;
        // An end before what is known to be later tells nothing.
        let is_possible = by > self.last_begun(count) && by >= self.incomplete;
        let by = if is_possible { by.min(now) } else { now };
        let began = self.passed(first, by);
        let took = between.min(by - began);
        let end = (began + took).max(self.incomplete).min(now);
        self.finish(end, by, count, took, Clock::Device)
    }

    /// When the launch of the last of the first `count` began: none of them was all done before.
    fn last_begun(&self, count: usize) -> Nanos {
        let last = count.min(self.launched.len()).checked_sub(1);
        last.and_then(|last| self.launched.get(last)).map_or(Nanos::ZERO, |last| last.launch.begun)
    }

    /// The first `count` were done at `end`, probably, and by `by` for certain. They took that long with what was between them,
    /// by that clock.
    fn finish(&mut self, end: Nanos, by: Nanos, count: usize, took: Nanos, clock: Clock) -> Nanos {
        let count = count.min(self.launched.len());
        if count == 0 {
            return Nanos::ZERO;
        }
        let done = || self.launched.iter().take(count);
        // Each is taken for its part of the whole; one of which nothing is known, for an equal part.
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
        // Commands of a class need not take equally long. How unlike they are is known where some were seen one by one.
        let may_be_long = |command: &Command| Some((command.launch.begun, command.estimate?.longest?));
        let took = if done().all(|command| may_be_long(command).is_some()) {
            in_proportion.max(busy::possibly(took, by, done().filter_map(may_be_long)))
        } else {
            in_proportion
        };
        let is_exact = count == 1 && clock == Clock::Device;
        // Which of them had passed it is not known.
        let is_gated = done().skip(1).any(|command| command.launch.is_gated);
        let shut = if is_gated { self.gate.shut_for(by - took, by) } else { Nanos::ZERO };
        let mut own = Nanos::ZERO;
        for _ in 0..count {
            let Some(command) = self.launched.pop_front() else { break };
            // Nothing but this would bound what an unknown one is charged for.
            let took = if command.estimate.is_none() { took - shut } else { took };
            let part = u128::from(took.0) * u128::from(weight(&command)) / u128::from(whole);
            let part = Nanos(part as u64);
            let disturbed = self.disturbed > 0 || end < self.disturbed_until;
            self.disturbed = self.disturbed.saturating_sub(1);
            let known = Known { disturbed, is_exact };
            let charge = command.estimate.map_or(part, |estimate| estimate.own_part(part, known));
            own += charge;
            self.charge(command.launch.payer, charge);
            self.at_least = self.at_least - command.at_least();
            self.at_most = self.at_most - command.at_most();
            self.estimates.learn(command.launch.class, part, known);
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

    /// Who took what of the device time that was returned since this was last called; together it is all of it.
    pub fn take_charges(&mut self) -> impl Iterator<Item = (Payer, Nanos)> {
        self.charges.drain(..)
    }

    /// From now on it is not known for whom anything was launched: payers' numbers have lost their meaning.
    pub fn forget_payers(&mut self) {
        self.launched.iter_mut().for_each(|command| command.launch.payer = 0);
        self.charges.clear();
    }

    /// Nothing is in flight any more: what was will not be known to complete. What is known of kernels stays.
    pub fn clear(&mut self) {
        self.launched.clear();
        (self.at_least, self.at_most) = (Nanos::ZERO, Nanos::ZERO);
        self.batch_left = 0;
    }

    /// Device time launched and not yet done, at most, as far as is known.
    pub fn ahead(&self, now: Nanos) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        let of_first = (now - self.began(first)).min(first.at_most());
        self.at_most - of_first
    }

    /// How long the outstanding commands take together at most, as far as is known, with what is over of it; but no less than
    /// they have taken already.
    pub fn length(&self, now: Nanos) -> Nanos {
        self.at_most.max(self.running_for(now))
    }

    /// How long commands of a class usually take, if anything is known.
    pub fn expected(&self, class: u64) -> Option<Nanos> {
        self.estimates.of(class).map(|estimate| estimate.expected)
    }

    /// For how long the first command has been running, as far as the times of the host tell. Zero if nothing is in flight.
    pub fn running_for(&self, now: Nanos) -> Nanos {
        self.launched.front().map_or(Nanos::ZERO, |first| now - self.began(first))
    }

    /// By how much the first command takes longer than it hardly ever did. Of what nothing is known, all of its time.
    pub fn overdue(&self, now: Nanos) -> Nanos {
        self.launched.front().map_or(Nanos::ZERO, |first| self.running_for(now) - first.at_most())
    }

    /// Whether half of what may be ahead is there, or may be: what is still to be launched may soon wait for room.
    pub fn is_half_full(&self, now: Nanos) -> bool {
        match self.limit {
            Limit::Time { ahead, .. } => self.ahead(now) > ahead / 2 || !self.all_known(),
            Limit::Commands { threshold, .. } => 2 * self.launched.len() as u64 >= u64::from(threshold),
        }
    }

    /// When to look for completions if there is more to launch: when the first command may have completed, and only half of
    /// what may be ahead may be left, so that short commands are not looked for one by one. `None`: nothing is in flight.
    ///
    /// Of what was launched without a limit there may be many times as much, and each may take less time than it did, beside
    /// others': it is looked at as often as what a limit leaves room for.
    pub fn room_at(&self, now: Nanos) -> Option<Nanos> {
        let first = self.launched.front()?;
        let end = self.end_of(first);
        let wanted = match self.limit {
            Limit::Time { ahead, commands } if self.launched.len() > commands as usize => {
                end.max(self.runs_since(first) + (self.at_least - ahead / 2)).min(end + ahead)
            }
            _ => end,
        };
        Some(self.look_at(now, first, wanted))
    }

    /// When to look for completions if there is nothing more to launch: when the oldest commands, which take `work` together
    /// at least, may have completed; half-way there if that is far, since commands may take less time than they did. `None`:
    /// nothing is in flight.
    ///
    /// Not when all will have: whoever goes on launching would put that off for ever.
    pub fn done_at(&self, now: Nanos, work: Nanos) -> Option<Nanos> {
        let first = self.launched.front()?;
        let rest = work - first.at_least();
        Some(self.look_at(now, first, self.end_of(first) + rest / 2))
    }

    /// What commands in flight take together at least, by their places from the oldest on.
    pub fn least(&self, places: Range<usize>) -> Nanos {
        let end = places.end.min(self.launched.len());
        self.launched
            .range(places.start.min(end)..end)
            .fold(Nanos::ZERO, |sum, command| sum + command.at_least())
    }

    /// What is overdue is looked for at intervals that are a part of the time that it has taken already; as long as that if it
    /// probably waits at a gate. Nobody is in need of what it does there, and whoever opens the gate has it looked at.
    fn look_at(&self, now: Nanos, first: &Command, wanted: Nanos) -> Nanos {
        if wanted > now {
            return wanted;
        }
        let taken = now - self.runs_since(first);
        let waits = first.launch.is_gated && self.gate.is_shut() && taken > first.at_most();
        let [soonest, latest] = LOOK_AGAIN;
        now + (if waits { taken } else { taken / LOOKS }).clamp(soonest, latest)
    }

    /// When it began to run, as far as is known: behind what was before it.
    fn began(&self, first: &Command) -> Nanos {
        first.launched.max(self.completed)
    }

    /// The same of what has not completed, which may have waited at a gate meanwhile.
    fn runs_since(&self, first: &Command) -> Nanos {
        self.passed(first, Nanos(u64::MAX))
    }

    /// The same of what has completed.
    fn passed(&self, first: &Command, by: Nanos) -> Nanos {
        let began = self.began(first);
        if first.launch.is_gated { self.gate.passed(began, by) } else { began }
    }

    /// A little before it will have completed, since a look that finds it done does not tell since when.
    fn end_of(&self, first: &Command) -> Nanos {
        let at_least = first.at_least();
        self.runs_since(first) + (at_least - at_least / LOOKS)
    }

    fn all_known(&self) -> bool {
        self.launched.iter().all(|command| command.estimate.is_some())
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

/// With their least values, and in proportion.
fn batch_of(threshold: u32, batch: u32) -> (u64, u64) {
    let threshold = u64::from(threshold.max(1));
    (threshold, u64::from(batch.max(1)).min(threshold))
}

#[cfg(test)]
mod tests;
