//! Numbers for the libraries to which calls belong, and for rules, as the programs use them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use xsched_chains::Chain;
use xsched_control_api::peer::Party;
use xsched_protocol::verdict::{Decided, RULE_DOMAIN};
use xsched_rules::{Decider, Decision, Rules};

use super::rule_names::RuleNames;

/// Most libraries that get a number, and most of them that processes of one party may bring: enough for 32 parties.
/// Numbers are never reused.
const ORIGINS_MAX: usize = 1 << 16;
const ORIGINS_PER_PARTY_MAX: usize = ORIGINS_MAX / 32;

/// Most of them for all containers together, which come and go while users stay.
const ORIGINS_OF_CONTAINERS_MAX: usize = ORIGINS_MAX / 4 * 3;

pub(super) struct Numbered {
    /// Libraries to which calls belong, from 1 on.
    origins: HashMap<String, u32>,
    /// How many of these each party has brought, if any.
    brought: HashMap<Party, usize>,
    /// The same names for others; a name is published before any process gets its number.
    names: watch::Sender<Vec<Arc<str>>>,
    rules: RuleNames,
}

impl Numbered {
    pub(super) fn new(names: watch::Sender<Vec<Arc<str>>>, rules: RuleNames) -> Self {
        Self { origins: HashMap::new(), brought: HashMap::new(), names, rules }
    }

    /// A decision about calls of a chain in the programs' form, for a process of this party.
    pub(super) fn decided(
        &mut self,
        party: Party,
        rules: &Rules,
        chain: &Chain,
        decision: Decision,
    ) -> Decided {
        let origin = self.origin(party, origin(rules, chain));
        let rule = match decision.by {
            Decider::Default => 0,
            Decider::Rule(number) => number + 1,
            Decider::Domain => RULE_DOMAIN,
        };
        let by = self.rules.number(rules, decision.by);
        Decided { verdict: decision.verdict().by(by).0, origin, rule }
    }

    /// The number of a library for a process of this party; 0 if there are too many.
    fn origin(&mut self, party: Party, library: String) -> u32 {
        if let Some(number) = self.origins.get(&library) {
            return *number;
        }
        let room = match party {
            Party::User(_) => ORIGINS_MAX,
            Party::Container(_) => ORIGINS_OF_CONTAINERS_MAX,
        };
        let (known, brought) = (self.origins.len(), self.brought.get(&party).copied().unwrap_or(0));
        if known >= room || brought >= ORIGINS_PER_PARTY_MAX {
            return 0;
        }
        self.brought.insert(party, brought + 1);
        self.names.send_modify(|names| names.push(library.as_str().into()));
        let number = known as u32 + 1;
        self.origins.insert(library, number);
        number
    }
}

/// The library to which calls of a chain belong.
pub(super) fn origin(rules: &Rules, chain: &Chain) -> String {
    let libraries = chain.frames.iter().map(|frame| &*frame.library);
    rules.origin(libraries).unwrap_or("[unknown]").to_owned()
}

#[cfg(test)]
mod tests {
    use xsched_control_api::peer::Peer;

    use super::*;

    #[test]
    fn many_libraries_of_a_party_take_no_numbers_from_others() {
        let mut numbered = Numbered::new(watch::channel(Vec::new()).0, RuleNames::new());
        for number in 0..ORIGINS_MAX {
            numbered.origin(Party::User(1000), format!("lib{number}.so"));
        }
        assert_ne!(numbered.origin(Party::User(2000), "libother.so".to_owned()), 0);
        assert_eq!(numbered.origin(Party::User(2000), "lib0.so".to_owned()), 1, "it has one");
        assert_eq!(numbered.origin(Party::User(1000), "libnew.so".to_owned()), 0);
        assert_ne!(numbered.origin(Party::User(1000), "libother.so".to_owned()), 0);
    }

    #[test]
    fn containers_that_come_and_go_leave_numbers_for_users() {
        let mut numbered = Numbered::new(watch::channel(Vec::new()).0, RuleNames::new());
        for container in 1..=100 {
            for number in 0..ORIGINS_PER_PARTY_MAX {
                numbered
                    .origin(Peer::contained(1, 0, container).party, format!("lib{container}-{number}.so"));
            }
        }
        assert_eq!(numbered.origins.len(), ORIGINS_OF_CONTAINERS_MAX);
        assert_ne!(numbered.origin(Party::User(1000), "libother.so".to_owned()), 0);
    }
}
