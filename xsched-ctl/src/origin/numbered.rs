//! What programs know by numbers: the libraries that calls belong to, and the rules.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use xsched_abi::verdict::{Decided, RULE_DOMAIN};
use xsched_rules::{Decider, Decision, Rules};

use super::rule_names::RuleNames;
use crate::chain::Chain;

/// Libraries that get a number of their own.
const ORIGINS_MAX: usize = 1 << 16;

/// The numbers that were given.
pub(super) struct Numbered {
    /// Libraries that calls belong to, from 1 on.
    origins: HashMap<String, u32>,
    /// The same for others, who are told of a library before any process is.
    names: watch::Sender<Vec<Arc<str>>>,
    rules: RuleNames,
}

impl Numbered {
    pub(super) fn new(names: watch::Sender<Vec<Arc<str>>>, rules: RuleNames) -> Self {
        Self { origins: HashMap::new(), names, rules }
    }

    /// A decision about calls of a chain as the programs are told.
    pub(super) fn decided(&mut self, rules: &Rules, chain: &Chain, decision: Decision) -> Decided {
        let origin = self.origin(origin(rules, chain));
        let rule = match decision.by {
            Decider::Nobody => 0,
            Decider::Rule(number) => number + 1,
            Decider::Domain => RULE_DOMAIN,
        };
        let by = self.rules.number(rules, decision.by);
        Decided { verdict: decision.verdict().by(by).0, origin, rule }
    }

    /// The number of a library; 0 if there are too many.
    fn origin(&mut self, library: String) -> u32 {
        let next = self.origins.len() as u32 + 1;
        match self.origins.get(&library) {
            Some(number) => *number,
            None if self.origins.len() >= ORIGINS_MAX => 0,
            None => {
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
