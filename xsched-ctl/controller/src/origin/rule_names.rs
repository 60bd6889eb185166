//! Numbers for rules, which fit into a verdict, and the names of these rules for recorders.
//!
//! Rules that decide here get their numbers when they first decide. A process that decides itself gets its rules with
//! their numbers.
//!
//! Rules may be replaced later: a number keeps its meaning as long as this process lives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use xsched_protocol::verdict::RuleId;
use xsched_rules::{Decider, Rule, Rules};

/// Names of rules, in the order of their numbers, which begin with 1.
pub(crate) type Names = watch::Receiver<Vec<Arc<str>>>;

/// The numbers given so far. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct RuleNames {
    given: Arc<Mutex<Given>>,
    names: watch::Sender<Vec<Arc<str>>>,
}

#[derive(Debug, Default)]
struct Given {
    /// By name.
    numbers: HashMap<Arc<str>, RuleId>,
    /// The rules that processes got last, and the number of the first; 0: there were too many.
    handed_out: Option<(Arc<Rules>, u16)>,
}

impl RuleNames {
    pub(crate) fn new() -> Self {
        Self { given: Arc::default(), names: watch::Sender::new(Vec::new()) }
    }

    /// Names of rules, now and later.
    pub(crate) fn subscribe(&self) -> Names {
        self.names.subscribe()
    }

    /// The number of what has decided. Its name is published before the number is used.
    pub(super) fn number(&self, rules: &Rules, by: Decider) -> RuleId {
        let number = match by {
            Decider::Default => return RuleId::NONE,
            Decider::Domain => return RuleId::DOMAIN,
            Decider::Rule(number) => number,
        };
        let name = name(&rules.rules()[number as usize]);
        let mut given = self.given();
        if let Some(number) = given.numbers.get(&*name) {
            return *number;
        }
        let number = RuleId::numbered(self.names.borrow().len());
        if number != RuleId::UNNUMBERED {
            self.names.send_modify(|names| names.push(Arc::clone(&name)));
            given.numbers.insert(name, number);
        }
        number
    }

    /// Numbers all of these rules, for processes that decide themselves. Returns the number of the first; the others
    /// follow in their order. 0 if there are too many.
    pub(crate) fn hand_out(&self, rules: &Arc<Rules>) -> u16 {
        let mut given = self.given();
        if let Some((known, first)) = &given.handed_out
            && Arc::ptr_eq(known, rules)
        {
            return *first;
        }
        let before = self.names.borrow().len();
        let has_room = RuleId::numbered(before + rules.rules().len()) != RuleId::UNNUMBERED;
        let first = if has_room {
            self.names.send_modify(|names| names.extend(rules.rules().iter().map(name)));
            before as u16 + 1
        } else {
            0
        };
        given.handed_out = Some((Arc::clone(rules), first));
        first
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(rule: &Rule) -> Arc<str> {
    rule.name.as_deref().map_or_else(|| rule.location("rules").into(), Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str) -> String {
        format!("[[rule]]\n{name}action = 'passthrough'\n")
    }

    fn told(numbers: &RuleNames) -> Vec<String> {
        numbers.subscribe().borrow().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_keeps_its_number_when_rules_are_replaced() {
        let numbers = RuleNames::new();
        let both = Rules::parse(&format!("{}{}", rule("name = 'mine'\n"), rule(""))).unwrap();
        let unnamed = Rules::parse(&rule("")).unwrap();
        assert_eq!(numbers.number(&both, Decider::Default), RuleId::NONE);
        assert_eq!(numbers.number(&both, Decider::Domain), RuleId::DOMAIN);
        assert_eq!(numbers.number(&both, Decider::Rule(1)), RuleId::numbered(0));
        assert_eq!(numbers.number(&both, Decider::Rule(0)), RuleId::numbered(1));
        assert_eq!(numbers.number(&unnamed, Decider::Rule(0)), RuleId::numbered(2), "another line");
        assert_eq!(numbers.number(&both, Decider::Rule(0)), RuleId::numbered(1));
        assert_eq!(told(&numbers), ["rules:4", "mine", "rules:1"]);
    }

    #[test]
    fn rules_that_are_handed_out_have_numbers_in_their_order() {
        let numbers = RuleNames::new();
        let file = Rules::parse(&format!("{}{}", rule("name = 'mine'\n"), rule(""))).unwrap();
        let file = Arc::new(file);
        numbers.number(&file, Decider::Rule(1));
        assert_eq!(numbers.hand_out(&file), 2);
        assert_eq!(numbers.hand_out(&file), 2, "the same rules");
        assert_eq!(told(&numbers)[..3], ["rules:4", "mine", "rules:4"]);
        let next = numbers.hand_out(&Arc::new(Rules::parse(&rule("name = 'other'\n")).unwrap()));
        assert_eq!(told(&numbers)[usize::from(next) - 1], "other");
        assert_eq!(RuleId::handed_out(next, 0), RuleId::numbered(usize::from(next) - 1));
    }

    #[test]
    fn with_too_many_rules_none_is_numbered() {
        let numbers = RuleNames::new();
        let text: String = (0..3_000).map(|_| rule("")).collect();
        assert_eq!(numbers.hand_out(&Arc::new(Rules::parse(&text).unwrap())), 0);
        assert_eq!(told(&numbers), [""; 0]);
    }
}
