//! The built-in sets of rules, in the format of rules files.

use std::sync::LazyLock;

use crate::rule::{Rule, Source};

/// The built-in set that follows a file's own rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// All calls are scheduled, except those that must not be.
    #[default]
    Default,
    /// Calls of libraries that are commonly excluded from scheduling pass through. All others are treated as by `Default`.
    Compat,
}

impl Profile {
    /// The names in files, in the order of [`Profile::ALL`].
    pub const NAMES: [&str; 2] = ["default", "compat"];

    /// All profiles.
    pub const ALL: [Self; 2] = [Self::Default, Self::Compat];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The text of the set, without those that it builds on.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Default => include_str!("../sets/default.toml"),
            Self::Compat => include_str!("../sets/compat.toml"),
        }
    }

    /// The rules of the set, and of those that it builds on.
    pub(crate) fn rules(self) -> &'static [Rule] {
        static SETS: LazyLock<[Vec<Rule>; 2]> = LazyLock::new(|| {
            let set = |profile: Profile| {
                crate::parse::rules_of(profile.text(), Source::BuiltIn(profile))
                    .expect("a test parses all sets")
            };
            [set(Profile::Default), [set(Profile::Compat), set(Profile::Default)].concat()]
        });
        &SETS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_valid() {
        for profile in Profile::ALL {
            let rules = crate::parse::rules_of(profile.text(), Source::BuiltIn(profile)).unwrap();
            assert!(!rules.is_empty() && rules.iter().all(|rule| rule.name.is_some()), "{profile:?}");
        }
    }
}
