//! Fixed priority: the most urgent process that has work goes first, those of equal priority side by side.
//!
//! Where somebody more urgent uses the device, those of equal priority take turns instead, as under [fair share](super::fair).
//! Each has its own commands in flight; what the urgent one finds there when it comes is one process's then, however many
//! there are.
//!
//! A program's own stream priorities lift its streams as far as the process's ceiling, or lower them. At the ceiling they
//! count only while no other process is there: a program must not come before its equals by asking for it, nor fall
//! behind them for having asked.

use std::collections::BTreeMap;

use super::virtual_time::{Claim, VirtualTime};
use super::{Policy, View, downwards};
use crate::ranks::{Rank, Ranks};
use crate::{Attributes, Nanos, ProcessId};

#[derive(Debug, Default)]
pub(super) struct FixedPriority {
    /// Of those that take turns.
    time: VirtualTime,
    /// By process; groups are priorities.
    claims: Vec<Claim>,
    /// The first group's number.
    top: u16,
    /// Whether anybody takes turns.
    has_turns: bool,
}

/// Above what orders the streams of a process: it is not in front.
const BEHIND: u64 = 1 << 32;

impl Policy for FixedPriority {
    fn joined(&mut self) {
        self.time.joined();
    }

    fn left(&mut self, index: usize) {
        self.time.left(index);
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if view.altered {
            self.regroup(view);
        }
        let (changed, again) =
            if self.has_turns { self.time.decide(view, &self.claims) } else { (false, None) };
        if view.altered || changed {
            self.set_ranks(view, ranks);
        }
        // Those of the first group, while they have work, take no turns.
        let of_top = view
            .processes
            .iter()
            .zip(&self.claims)
            .any(|(process, claim)| process.ready > 0 && claim.group == self.top);
        again.filter(|_| !of_top)
    }
}

impl FixedPriority {
    /// Finds the priority of each process, and whether any of them have to take turns.
    fn regroup(&mut self, view: &View<'_>) {
        self.claims.clear();
        self.claims.resize(view.processes.len(), Claim { group: u16::MAX, weight: 1 });
        for queue in view.queues {
            let claim = &mut self.claims[queue.process];
            claim.group = claim.group.min(downwards(effective(&queue.attributes)));
            claim.weight = claim.weight.max(queue.attributes.weight);
        }
        self.top = self.claims.iter().map(|claim| claim.group).min().unwrap_or(0);
        let mut groups: Vec<_> = self.claims.iter().map(|claim| claim.group).collect();
        groups.sort_unstable();
        let had_turns = std::mem::replace(
            &mut self.has_turns,
            groups.windows(2).any(|two| two[0] == two[1] && two[0] != self.top),
        );
        if self.has_turns && !had_turns {
            // What anybody used while nobody took turns was nobody else's.
            self.time.begin_anew();
        }
    }

    fn set_ranks(&self, view: &View<'_>, ranks: &mut Ranks) {
        // Who is at a priority; `None`: several.
        let mut only: BTreeMap<i16, Option<ProcessId>> = BTreeMap::new();
        for queue in view.queues {
            let process = queue.attributes.process;
            let at = only.entry(effective(&queue.attributes)).or_insert(Some(process));
            if *at != Some(process) {
                *at = None;
            }
        }
        for (index, queue) in view.queues.iter().enumerate() {
            let priority = effective(&queue.attributes);
            let alone = only.get(&priority).is_some_and(Option::is_some);
            let takes_turns = self.has_turns && !alone && self.claims[queue.process].group != self.top;
            let among_own = if alone { queue.stream_order() } else { 0 };
            let place = if takes_turns && !self.time.is_in_front(queue.process) { BEHIND } else { among_own };
            let order = u64::from(downwards(priority)) << 33 | place;
            // Nobody of the first group takes turns.
            ranks.set(index, Rank { order, sliced: false });
        }
    }
}

/// The priority that a queue has with the one that the program asked for, but not above the ceiling.
fn effective(attributes: &Attributes) -> i16 {
    let process = i32::from(attributes.priority);
    let ceiling = i32::from(attributes.ceiling).max(process);
    let wanted = process.saturating_add(attributes.stream_priority).min(ceiling);
    wanted.clamp(Attributes::PRIORITY_MIN.into(), Attributes::PRIORITY_MAX.into()) as i16
}
