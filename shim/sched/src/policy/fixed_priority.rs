//! Fixed priority: the most urgent process that has work goes first, those of equal priority side by side.
//!
//! A program's own stream priorities lift its streams as far as the process's ceiling, or lower them. At the ceiling they
//! count only while no other process is there: a program must not come before its equals by asking for it, nor fall
//! behind them for having asked.

use std::collections::BTreeMap;

use super::{Policy, View, downwards};
use crate::ranks::{Rank, Ranks};
use crate::{Attributes, Nanos, ProcessId};

#[derive(Debug, Default)]
pub(super) struct FixedPriority;

impl Policy for FixedPriority {
    fn follows_work(&self) -> bool {
        false
    }

    fn rank(&mut self, view: &View<'_>, ranks: &mut Ranks) -> Option<Nanos> {
        if !view.altered {
            return None;
        }
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
            let among_own = if alone { queue.stream_order() } else { 0 };
            let order = u64::from(downwards(priority)) << 32 | among_own;
            ranks.set(index, Rank { order, sliced: false });
        }
        None
    }
}

/// The priority that a queue has with the one that the program asked for, but not above the ceiling.
fn effective(attributes: &Attributes) -> i16 {
    let process = i32::from(attributes.priority);
    let ceiling = i32::from(attributes.ceiling).max(process);
    let wanted = process.saturating_add(attributes.stream_priority).min(ceiling);
    wanted.clamp(Attributes::PRIORITY_MIN.into(), Attributes::PRIORITY_MAX.into()) as i16
}
