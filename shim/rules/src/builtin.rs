//! The sets of rules that come with this crate, as the text that a user could have written.

use std::sync::LazyLock;

use crate::rule::{Rule, Source};

/// Which set follows a file's own rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Everything is scheduled, but for what must not be.
    #[default]
    Default,
    /// Libraries that are often left alone are passed through, whatever they do.
    Compat,
}

impl Profile {
    /// As files name them, in the order of [`Profile::ALL`].
    pub const NAMES: [&str; 2] = ["default", "compat"];

    /// All of them.
    pub const ALL: [Self; 2] = [Self::Default, Self::Compat];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The text of its rules.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Default => include_str!("../sets/default.toml"),
            Self::Compat => include_str!("../sets/compat.toml"),
        }
    }

    pub(crate) fn rules(self) -> &'static [Rule] {
        static SETS: LazyLock<[Vec<Rule>; 2]> = LazyLock::new(|| {
            Profile::ALL.map(|profile| {
                crate::parse::rules_of(profile.text(), Source::BuiltIn(profile))
                    .expect("a test parses all of them")
            })
        });
        &SETS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_one_of_rules() {
        for profile in Profile::ALL {
            let rules = crate::parse::rules_of(profile.text(), Source::BuiltIn(profile)).unwrap();
            assert!(!rules.is_empty() && rules.iter().all(|rule| rule.name.is_some()), "{profile:?}");
        }
    }
}
