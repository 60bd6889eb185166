//! Names for priorities.

use std::fmt;

use xsched_sched::CLASSES;

use super::{PRIORITY_MAX, PRIORITY_MIN};

/// A class of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Class {
    /// -100: batch work, for which no user waits.
    Low,
    /// 0: the default.
    Normal,
    /// 100: services for which users wait.
    High,
    /// 200: work with deadlines.
    Realtime,
}

impl Class {
    /// All of them, in the order of [`Class::NAMES`].
    pub const ALL: [Self; 4] = [Self::Realtime, Self::High, Self::Normal, Self::Low];
    /// Their names.
    pub const NAMES: [&str; 4] = [CLASSES[0].0, CLASSES[1].0, CLASSES[2].0, CLASSES[3].0];

    /// Its name, and the priority of a process that was given only the class.
    fn entry(self) -> (&'static str, i16) {
        CLASSES[CLASSES.len() - 1 - self as usize]
    }

    /// The priority of a process that was given only the class.
    pub fn priority(self) -> i16 {
        self.entry().1
    }

    /// The highest priority of the class: half way to the next one.
    pub fn highest(self) -> i16 {
        match self {
            Self::Realtime => PRIORITY_MAX,
            below => below.priority() + 49,
        }
    }

    /// The class of a priority.
    pub fn of(priority: i16) -> Self {
        [Self::Low, Self::Normal, Self::High]
            .into_iter()
            .find(|class| (PRIORITY_MIN..=class.highest()).contains(&priority))
            .unwrap_or(Self::Realtime)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.entry().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_priority_has_one_class_and_each_class_its_own() {
        for class in Class::ALL {
            assert_eq!(Class::of(class.priority()), class);
            assert_eq!(Class::of(class.highest()), class);
        }
        assert_eq!(Class::of(50), Class::High);
        assert_eq!((Class::of(PRIORITY_MIN), Class::of(PRIORITY_MAX)), (Class::Low, Class::Realtime));
        assert_eq!(Class::ALL.map(|class| class.to_string()), Class::NAMES);
        // The command line has the names from the variants.
        let typed = |name| <Class as clap::ValueEnum>::from_str(name, false);
        assert_eq!(Class::NAMES.map(typed), Class::ALL.map(Ok));
    }
}
