//! The record of a simulation, and queries on it.

#[cfg(test)]
use super::client::Plan;
use crate::{ClaimChange, ClaimId, Level, Nanos};

/// The record of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Time, client and act.
    pub(crate) acts: Vec<(Nanos, usize, Act)>,
    /// Inputs of the scheduler; `None`: it was asked to decide.
    pub(crate) steps: Vec<(Nanos, Option<ClaimChange>)>,
    /// Its decisions.
    pub(crate) decisions: Vec<(Nanos, Vec<(ClaimId, Level)>)>,
    /// The charge of each client, each time that the scheduler decided.
    #[cfg(test)]
    pub(super) charges: Vec<(Nanos, Vec<Nanos>)>,
    #[cfg(test)]
    pub(crate) plans: Vec<Plan>,
    #[cfg(test)]
    pub(super) until: Nanos,
}

/// An act of a client, or of the device for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Opened,
    Closed,
    Ready,
    Idle,
    Level(Level),
    /// It has something to launch and may not, or may again.
    Blocked,
    Allowed,
    /// It is blocked, and masks have changed: they would let it launch now, or would not.
    Chance,
    Kept,
    /// It has this many kernels in flight with this one; all but the first will take this device time.
    Launched {
        limited: bool,
        count: usize,
        time: Nanos,
    },
    /// Its kernel runs.
    Started,
    Ended,
}

/// Only tests look at it; a recorded program may run for hours.
const IS_KEPT: bool = cfg!(test);

impl Trace {
    pub(super) fn act(&mut self, now: Nanos, client: usize, act: Act) {
        if IS_KEPT {
            self.acts.push((now, client, act));
        }
    }

    pub(super) fn step(&mut self, now: Nanos, change: Option<ClaimChange>) {
        if IS_KEPT {
            self.steps.push((now, change));
        }
    }

    pub(super) fn decided(&mut self, now: Nanos, levels: &[(ClaimId, Level)]) {
        if IS_KEPT {
            self.decisions.push((now, levels.to_vec()));
        }
    }
}

#[cfg(test)]
impl Trace {
    pub(super) fn end(&mut self, until: Nanos, plans: Vec<Plan>) {
        self.until = until;
        self.plans = plans;
    }

    pub(super) fn of(&self, client: usize) -> impl Iterator<Item = (Nanos, Act)> {
        self.acts.iter().filter(move |(_, who, _)| *who == client).map(|(time, _, act)| (*time, *act))
    }

    /// Times at which a condition held for a client.
    pub(super) fn times(&self, client: usize, begins: Act, ends: Act) -> Vec<(Nanos, Nanos)> {
        let mut times = Vec::new();
        let mut since = None;
        for (time, act) in self.of(client) {
            if act == begins {
                since = since.or(Some(time));
            } else if act == ends {
                times.extend(since.take().map(|since| (since, time)));
            }
        }
        times.extend(since.map(|since| (since, self.until)));
        times
    }

    /// Device time of a client.
    pub(super) fn used(&self, client: usize, from: Nanos, to: Nanos) -> Nanos {
        let times = self.times(client, Act::Started, Act::Ended);
        times.into_iter().map(|(began, ended)| ended.min(to) - began.max(from)).sum()
    }

    /// The charge of each client between the first decision after a time and the last one of all, with the times of these.
    pub(super) fn charged(&self, from: Nanos) -> Option<(Nanos, Nanos, Vec<Nanos>)> {
        let (from, before) = self.charges.iter().find(|(time, _)| *time >= from)?;
        let (to, after) = self.charges.last()?;
        Some((*from, *to, after.iter().zip(before).map(|(after, before)| *after - *before).collect()))
    }

    /// Each client's part of the device time of all, in percent.
    pub(super) fn parts(&self, from: Nanos, to: Nanos) -> Vec<f64> {
        let used: Vec<_> = (0..self.plans.len()).map(|client| self.used(client, from, to)).collect();
        let sum: Nanos = used.iter().copied().sum();
        used.into_iter().map(|used| used.0 as f64 / sum.0.max(1) as f64 * 100.0).collect()
    }
}
