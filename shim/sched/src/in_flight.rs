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

mod estimate;

use std::collections::VecDeque;

use crate::Nanos;
use estimate::Estimates;

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
    /// Sum of [`Command::at_most`].
    at_most: Nanos,
    /// When the last completion was noticed.
    completed: Nanos,
    /// What may still be launched of a batch.
    batch_left: u32,
    estimates: Estimates,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    class: u64,
    launched: Nanos,
    /// How long it will probably take, if anything is known.
    expected: Option<Nanos>,
    /// How long it will hardly exceed; zero if nothing is known.
    at_most: Nanos,
}

/// When to look for a completion of which nothing is known.
const FIRST_LOOK: Nanos = Nanos::from_micros(20);

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

    /// A command was launched.
    pub fn launched(&mut self, now: Nanos, class: u64) {
        let estimate = self.estimates.of(class);
        let at_most = estimate.map_or(Nanos::ZERO, |estimate| estimate.at_most);
        let expected = estimate.map(|estimate| estimate.expected);
        self.launched.push_back(Command { class, launched: now, expected, at_most });
        self.at_most += at_most;
        if let Limit::Commands { threshold, batch } = self.limit {
            let left =
                if self.batch_left > 0 { self.batch_left.into() } else { batch_of(threshold, batch).1 };
            self.batch_left = (left - 1) as u32;
        }
    }

    /// The first `count` of the outstanding commands have completed, as is noticed now. Returns the device time that they
    /// took, as far as the times of the host tell: from the completion before or from the launch, whichever is later.
    pub fn completed(&mut self, now: Nanos, count: usize) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        let device = now - self.began(first);
        self.completed_in(now, count, device);
        device
    }

    /// The first `count` of the outstanding commands have completed, and took so much device time together.
    pub fn completed_in(&mut self, now: Nanos, count: usize, device: Nanos) {
        let count = count.min(self.launched.len());
        if count == 0 {
            return;
        }
        let done = || self.launched.iter().take(count);
        // Each is taken for its part of the whole; one of which nothing is known, for an equal part.
        let known = done().filter_map(|command| command.expected);
        let (sum, known) = known.fold((0, 0_u64), |(sum, count), time| (sum + time.0, count + 1));
        let typical = sum.checked_div(known).unwrap_or(1).max(1);
        let weight = |command: &Command| command.expected.map_or(typical, |time| time.0.max(1));
        let whole: u64 = done().map(weight).sum();
        for _ in 0..count {
            let Some(command) = self.launched.pop_front() else { break };
            let part = u128::from(device.0) * u128::from(weight(&command)) / u128::from(whole);
            self.at_most = self.at_most - command.at_most;
            self.estimates.learn(command.class, Nanos(part as u64));
        }
        self.completed = now;
    }

    /// Nothing is in flight any more: what was will not be known to complete. What is known of kernels stays.
    pub fn clear(&mut self) {
        self.launched.clear();
        self.at_most = Nanos::ZERO;
        self.batch_left = 0;
    }

    /// Device time launched and not yet done, at most, as far as is known.
    pub fn ahead(&self, now: Nanos) -> Nanos {
        let Some(first) = self.launched.front() else { return Nanos::ZERO };
        let of_first = (now - self.began(first)).min(first.at_most);
        self.at_most - of_first
    }

    /// When to look for completions if there is more to launch: when the first command will have completed, and half of
    /// what may be ahead, so that short commands are not looked for one by one. `None`: nothing is in flight.
    pub fn room_at(&self, now: Nanos) -> Option<Nanos> {
        let first = self.launched.front()?;
        let half = match self.limit {
            Limit::Time { ahead, .. } => now + (self.ahead(now) - ahead / 2),
            Limit::Commands { .. } => now,
        };
        let commands = match self.limit {
            Limit::Time { commands, .. } => commands as usize,
            Limit::Commands { .. } => usize::MAX,
        };
        let wanted =
            self.end_of(first).map(|end| if self.launched.len() > commands { end.max(half) } else { end });
        Some(self.look_at(now, first, wanted))
    }

    /// When to look for completions if there is nothing more to launch: when all will have completed. `None`: nothing is in
    /// flight.
    pub fn done_at(&self, now: Nanos) -> Option<Nanos> {
        let first = self.launched.front()?;
        let rest = self.launched.iter().skip(1).map(|command| command.expected);
        let rest = rest.sum::<Option<Nanos>>();
        let end = self.end_of(first).zip(rest).map(|(end, rest)| end + rest);
        Some(self.look_at(now, first, end))
    }

    /// What is overdue is looked for less and less often.
    fn look_at(&self, now: Nanos, first: &Command, end: Option<Nanos>) -> Nanos {
        match end {
            Some(end) if end > now => end,
            _ => {
                let due = self.end_of(first).unwrap_or_else(|| self.began(first) + FIRST_LOOK);
                let [soonest, latest] = LOOK_AGAIN;
                if due > now { due } else { now + ((now - due) / 4).clamp(soonest, latest) }
            }
        }
    }

    /// When it began to run, as far as is known: behind what was before it.
    fn began(&self, first: &Command) -> Nanos {
        first.launched.max(self.completed)
    }

    fn end_of(&self, first: &Command) -> Option<Nanos> {
        Some(self.began(first) + first.expected?)
    }

    fn all_known(&self) -> bool {
        self.launched.iter().all(|command| command.expected.is_some())
    }
}

/// With their least values, and in proportion.
fn batch_of(threshold: u32, batch: u32) -> (u64, u64) {
    let threshold = u64::from(threshold.max(1));
    (threshold, u64::from(batch.max(1)).min(threshold))
}

#[cfg(test)]
mod tests;
