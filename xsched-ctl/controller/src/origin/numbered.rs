//! Numbers for the libraries to which calls belong, and for rules, as the programs use them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use xsched_chains::Chain;
use xsched_protocol::verdict::{Decided, RULE_DOMAIN};
use xsched_rules::{Decider, Decision, Rules};

use super::rule_names::RuleNames;

/// Most libraries that get a number, and most of them that processes of one user may bring: enough for 32 users.
/// Numbers are never reused.
const ORIGINS_MAX: usize = 1 << 16;
const ORIGINS_PER_USER_MAX: usize = ORIGINS_MAX / 32;

pub(super) struct Numbered {
    /// Libraries to which calls belong, from 1 on.
    origins: HashMap<String, u32>,
    /// How many of these each user has brought.
    brought: HashMap<u32, usize>,
    /// The same names for others; a name is published before any process gets its number.
    names: watch::Sender<Vec<Arc<str>>>,
    rules: RuleNames,
}

impl Numbered {
    pub(super) fn new(names: watch::Sender<Vec<Arc<str>>>, rules: RuleNames) -> Self {
        Self { origins: HashMap::new(), brought: HashMap::new(), names, rules }
    }

    /// A decision about calls of a chain in the programs' form, for a process of this user.
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

    /// The number of a library for a process of this user; 0 if there are too many.
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
    fn many_libraries_of_a_user_take_no_numbers_from_others() {
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
