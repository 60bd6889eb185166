//! Calls, grouped by one property.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use clap::ValueEnum;
use xsched_perfetto::{ProcessId, ThreadId};
use xsched_recording::Durations;

/// Most groups that are distinguished; further calls share one, so that memory is bounded.
const GROUPS_MAX: usize = 65_536;

/// The property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dimension {
    /// The library to which a call belongs
    Library,
    /// The kernel that is launched
    Kernel,
    /// The stream, in its process
    Stream,
    /// The calling thread
    Thread,
    /// The calling process
    Process,
    /// The function
    Api,
    /// The verdict on a call, and its rule
    Rule,
}

impl Dimension {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 7] =
        [Self::Library, Self::Kernel, Self::Stream, Self::Thread, Self::Process, Self::Api, Self::Rule];

    /// Name on the command line, in tables and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Kernel => "kernel",
            Self::Stream => "stream",
            Self::Thread => "thread",
            Self::Process => "process",
            Self::Api => "api",
            Self::Rule => "rule",
        }
    }
}

/// The property that the calls of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A library, a kernel, a function.
    Text(Arc<str>),
    /// A stream of a process, if that is known.
    Stream(Option<ProcessId>, Arc<str>),
    Thread(ThreadId),
    Process(ProcessId),
    /// None: there were too many groups.
    Others,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// How many, unfinished ones included.
    pub(super) calls: u64,
    pub(super) durations: Durations,
}

#[derive(Clone, Default)]
pub(super) struct Groups(HashMap<Key, Group>);

impl Groups {
    pub(super) fn add(&mut self, key: Key, duration_ns: Option<u64>) {
        let has_room = self.0.len() < GROUPS_MAX;
        let group = match self.0.entry(key) {
            Entry::Occupied(group) => group.into_mut(),
            Entry::Vacant(group) if has_room => group.insert(Group::default()),
            Entry::Vacant(_) => self.0.entry(Key::Others).or_default(),
        };
        group.calls += 1;
        if let Some(ns) = duration_ns {
            group.durations.record(ns);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same calls in fewer groups: groups whose keys become equal by `rename` are summed.
    pub(super) fn merged(&self, rename: impl Fn(&Key) -> Key) -> Self {
        let mut merged: HashMap<Key, Group> = HashMap::new();
        for (key, group) in &self.0 {
            let sum = merged.entry(rename(key)).or_default();
            sum.calls += group.calls;
            sum.durations.add(&group.durations);
        }
        Self(merged)
    }

    /// The groups, most time first.
    pub(super) fn sorted(&self) -> Vec<(&Key, &Group)> {
        let mut groups: Vec<_> = self.0.iter().collect();
        groups.sort_by_cached_key(|(key, group)| {
            (std::cmp::Reverse((group.durations.total_ns(), group.calls)), format!("{key:?}"))
        });
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_limit_share_one() {
        let mut groups = Groups::default();
        for number in 0..GROUPS_MAX + 10 {
            groups.add(Key::Text(format!("kernel_{number}").into()), Some(1));
        }
        groups.add(Key::Text("kernel_0".into()), None);
        let sorted = groups.sorted();
        assert_eq!(sorted.len(), GROUPS_MAX + 1);
        assert_eq!((sorted[0].0, sorted[0].1.calls), (&Key::Others, 10));
        assert_eq!(sorted.iter().map(|(_, group)| group.calls).sum::<u64>(), GROUPS_MAX as u64 + 11);
    }
}
