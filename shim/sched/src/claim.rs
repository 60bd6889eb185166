//! A claim and a process as one device knows them: the data that policies and the starvation bound use.

use crate::account::Account;
use crate::commands::Commands;
use crate::requests::Requests;
use crate::starvation::Patience;
use crate::turns::Turns;
use crate::{Attributes, ClaimId, Level, Nanos, ProcessId};

/// A claim.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) id: ClaimId,
    pub(crate) attributes: Attributes,
    /// Index of its process.
    pub(crate) process: usize,
    pub(crate) ready: bool,
    /// `None` before the first decision.
    pub(crate) level: Option<Level>,
    pub(crate) account: Account,
    pub(crate) patience: Patience,
    /// Kept up to date only if the caller asked for happenings.
    pub(crate) turns: Turns,
}

impl Claim {
    /// Its position among its process's claims, most urgent first.
    pub(crate) fn stream_order(&self) -> u64 {
        u64::from(i32::MAX.abs_diff(self.attributes.stream_priority))
    }
}

/// A process's use of one device.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    /// How many claims it has.
    pub(crate) claims: usize,
    /// How many of them are ready.
    pub(crate) ready: usize,
    /// Device time charged for all its claims so far. A report may reduce it.
    pub(crate) charged: Nanos,
    /// Time for which it had a ready claim that was allowed to launch.
    pub(crate) allowed: Nanos,
    pub(crate) allowed_until: Nanos,
    pub(crate) commands: Commands,
    pub(crate) requests: Requests,
    /// It is among those that have changed.
    pub(crate) is_changed: bool,
}

impl Process {
    /// Its work or charge may have changed. `index` is its own.
    pub(crate) fn note_change(&mut self, index: usize, changed: &mut Vec<usize>) {
        if !self.is_changed {
            self.is_changed = true;
            changed.push(index);
        }
    }

    pub(crate) fn charge(&mut self, time: i64) {
        self.charged = Nanos(self.charged.0.saturating_add_signed(time));
    }
}
