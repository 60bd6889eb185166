//! What programs know by numbers: the libraries that calls belong to, and the rules.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use xsched_protocol::verdict::{Decided, RULE_DOMAIN};
use xsched_rules::{Decider, Decision, Rules};

use super::rule_names::RuleNames;
use crate::chain::Chain;

/// Libraries that get a number of their own, and how many of them processes of one user may bring: enough for 32 users. None is taken
/// back.
const ORIGINS_MAX: usize = 1 << 16;
const ORIGINS_PER_USER_MAX: usize = ORIGINS_MAX / 32;

/// The numbers that were given.
pub(super) struct Numbered {
    /// Libraries that calls belong to, from 1 on.
    origins: HashMap<String, u32>,
    /// How many of these each user has brought.
    brought: HashMap<u32, usize>,
    /// The same for others, who are told of a library before any process is.
    names: watch::Sender<Vec<Arc<str>>>,
    rules: RuleNames,
}

impl Numbered {
    pub(super) fn new(names: watch::Sender<Vec<Arc<str>>>, rules: RuleNames) -> Self {
        Self { origins: HashMap::new(), brought: HashMap::new(), names, rules }
    }

    /// A decision about calls of a chain as the programs are told, for a process of this user.
    pub(super) fn decided(&mut self, uid: u32, rules: &Rules, chain: &Chain, decision: Decision) -> Decided {
        let origin = self.origin(uid, origin(rules, chain));
        let rule = match decision.by {
            Decider::Default => 0,
            Decider::Rule(number) => number + 1,
            Decider::Domain => RULE_DOMAIN,
        };
        let by = self.rules.number(rules, decision.by);
        Decided { verdict: decision.verdict().by(by).0, origin, rule }
    }

    /// The number of a library that a process of this user has; 0 if there are too many.
    fn origin(&mut self, uid: u32, library: String) -> u32 {
        let next = self.origins.len() as u32 + 1;
        let brought = self.brought.entry(uid).or_default();
        match self.origins.get(&library) {
            Some(number) => *number,
            None if self.origins.len() >= ORIGINS_MAX || *brought >= ORIGINS_PER_USER_MAX => 0,
            None => {
                *brought += 1;
                self.names.send_modify(|names| names.push(library.as_str().into()));
                *self.origins.entry(library).or_insert(next)
            }
        }
    }
}

/// The library to which calls of a chain belong.
pub(super) fn origin(rules: &Rules, chain: &Chain) -> String {
    let libraries = chain.frames.iter().map(|frame| &*frame.library);
    rules.origin(libraries).unwrap_or("[unknown]").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_many_libraries_takes_no_numbers_from_others() {
        let mut numbered = Numbered::new(watch::channel(Vec::new()).0, RuleNames::new());
        for number in 0..ORIGINS_MAX {
            numbered.origin(1000, format!("lib{number}.so"));
        }
        assert_ne!(numbered.origin(2000, "libother.so".to_owned()), 0);
        assert_eq!(numbered.origin(2000, "lib0.so".to_owned()), 1, "it has one");
        assert_eq!(numbered.origin(1000, "libnew.so".to_owned()), 0);
        assert_ne!(numbered.origin(1000, "libother.so".to_owned()), 0);
    }
}
