//! Numbers for the rules that have decided about calls, which a verdict has room for, and what those rules are called, for
//! whoever records.
//!
//! Other rules may hold later: a number keeps its meaning as long as this process lives.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use xsched_abi::verdict::RuleId;
use xsched_rules::{Decider, Rules};

/// What rules are called, in the order of their numbers, which begin with 1.
pub(crate) type Names = watch::Receiver<Vec<Arc<str>>>;

/// The numbers that were given.
pub(super) struct RuleNames {
    numbers: HashMap<String, RuleId>,
    names: watch::Sender<Vec<Arc<str>>>,
}

impl RuleNames {
    /// None yet; names go there as they come.
    pub(super) fn new(names: watch::Sender<Vec<Arc<str>>>) -> Self {
        Self { numbers: HashMap::new(), names }
    }

    /// The number of what has decided. It is told what that is called before anybody can ask.
    pub(super) fn number(&mut self, rules: &Rules, by: Decider) -> RuleId {
        let number = match by {
            Decider::Nobody => return RuleId::NOBODY,
            Decider::Domain => return RuleId::DOMAIN,
            Decider::Rule(number) => number,
        };
        let rule = &rules.rules()[number as usize];
        let name = rule.name.clone().unwrap_or_else(|| rule.place("rules"));
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = RuleId::numbered(self.numbers.len());
        if number != RuleId::UNNUMBERED {
            self.names.send_modify(|names| names.push(name.as_str().into()));
            self.numbers.insert(name, number);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_whatever_rules_hold() {
        let (sender, names) = watch::channel(Vec::new());
        let mut numbers = RuleNames::new(sender);
        let rule = |name: &str| format!("[[rule]]\n{name}action = 'passthrough'\n");
        let both = Rules::parse(&format!("{}{}", rule("name = 'mine'\n"), rule(""))).unwrap();
        let unnamed = Rules::parse(&rule("")).unwrap();
        assert_eq!(numbers.number(&both, Decider::Nobody), RuleId::NOBODY);
        assert_eq!(numbers.number(&both, Decider::Domain), RuleId::DOMAIN);
        assert_eq!(numbers.number(&both, Decider::Rule(1)), RuleId::numbered(0));
        assert_eq!(numbers.number(&both, Decider::Rule(0)), RuleId::numbered(1));
        assert_eq!(numbers.number(&unnamed, Decider::Rule(0)), RuleId::numbered(2), "another line");
        assert_eq!(numbers.number(&both, Decider::Rule(0)), RuleId::numbered(1));
        let names: Vec<_> = names.borrow().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["rules:4", "mine", "rules:1"]);
    }
}
