//! A process that asks, and what was decided for it.

use std::collections::HashMap;
use std::sync::Arc;

use xsched_abi::verdict::{Decided, RULE_DOMAIN, RuleId, Subject, VerdictKey};
use xsched_abi::wire::SchedulingDomain;
use xsched_abi::{ChainEnd, PROBES};
use xsched_rules::{Call, Caller, Decider, Decision, Frame, Rulebook, Rules};
use xsched_symbols::now_ns;

use super::{ClientKey, Newcomer};
use crate::chain::Chain;

/// Most kernels that a process numbers.
const KERNELS_MAX: usize = 1 << 16;

/// Most libraries of a process that say what their calls are.
const DOMAINS_MAX: usize = 64;

/// Answers of one process after which old ones are forgotten.
const ANSWERS_MAX: usize = 1 << 16;

/// One process.
pub(super) struct Client {
    pub(super) key: ClientKey,
    pub(super) pid: u32,
    /// When it joined.
    pub(super) since_ns: u64,
    caller: Caller,
    /// Rules of its user's own.
    settings: Option<Rules>,
    pub(super) book: Rulebook,
    kernels: HashMap<u32, String>,
    pub(super) answers: HashMap<VerdictKey, Answer>,
}

/// What was decided about calls with one chain and one subject.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) chain: Arc<Chain>,
    pub(super) decision: Decision,
}

impl Client {
    pub(super) fn new(newcomer: Newcomer, rules: &Arc<Rules>) -> Self {
        let Newcomer { key, pid, caller, .. } = newcomer;
        let book = Rulebook::new(Arc::clone(rules), &caller);
        Self {
            key,
            pid,
            since_ns: now_ns(),
            caller,
            settings: None,
            book,
            kernels: HashMap::new(),
            answers: HashMap::new(),
        }
    }

    /// Whether a question has to wait until a kernel's name is known.
    pub(super) fn wants_name_of_kernel(&self, subject: Subject) -> bool {
        let is_named = |kernel| self.kernels.contains_key(&kernel);
        self.book.names_kernels() && subject.kernel().is_some_and(|kernel| !is_named(kernel))
    }

    /// Decides about calls with a chain.
    pub(super) fn answer(&mut self, key: VerdictKey, chain: Arc<Chain>) -> &Answer {
        let decision = self.decide(&chain, Subject(key.subject));
        self.answers.entry(key).insert_entry(Answer { chain, decision }).into_mut()
    }

    /// Whether there are so many answers that they should be forgotten.
    pub(super) fn is_full(&self) -> bool {
        self.answers.len() >= ANSWERS_MAX
    }

    fn decide(&self, chain: &Chain, subject: Subject) -> Decision {
        let frames: Vec<_> = frames(chain).collect();
        self.book.decide(Call {
            chain: &frames,
            is_whole: chain.end == ChainEnd::Complete,
            api: api(subject),
            kernel: subject.kernel().and_then(|kernel| self.kernels.get(&kernel)).map(String::as_str),
        })
    }

    /// Decides about everything anew; the keys of what has another answer now.
    pub(super) fn reconsider(&mut self) -> Vec<VerdictKey> {
        let mut answers = std::mem::take(&mut self.answers);
        let mut changed = Vec::new();
        for (key, answer) in &mut answers {
            let decision = self.decide(&answer.chain, Subject(key.subject));
            if std::mem::replace(&mut answer.decision, decision) != decision {
                changed.push(*key);
            }
        }
        self.answers = answers;
        changed
    }

    /// The process's user has rules of his own.
    pub(super) fn set_settings(&mut self, settings: Rules, rules: &Arc<Rules>) {
        self.settings = Some(settings);
        self.set_rules(rules);
    }

    /// Other rules hold.
    pub(super) fn set_rules(&mut self, rules: &Arc<Rules>) {
        let rules = match &self.settings {
            Some(settings) => Arc::new(rules.as_ref().clone().behind(settings)),
            None => Arc::clone(rules),
        };
        let mut book = Rulebook::new(rules, &self.caller);
        for domain in self.book.domains() {
            book.set_domain(&domain.library, Some(domain.action));
        }
        self.book = book;
    }

    /// A library has said what its calls are.
    pub(super) fn set_domain(&mut self, library: &str, domain: SchedulingDomain) {
        use xsched_abi::verdict::Action;
        let action = match domain {
            SchedulingDomain::Auto => None,
            SchedulingDomain::System => Some(Action::NeverSuspend),
            SchedulingDomain::Application => Some(Action::Schedule),
        };
        if action.is_some() && self.book.domains().len() >= DOMAINS_MAX {
            return tracing::warn!("process {}: too many libraries say what their calls are", self.pid);
        }
        self.book.set_domain(library, action);
    }

    /// The process has numbered a kernel.
    pub(super) fn set_kernel(&mut self, id: u32, name: String) {
        if self.kernels.len() < KERNELS_MAX {
            self.kernels.insert(id, name);
        }
    }

    /// The name of a kernel that the process has numbered.
    pub(super) fn kernel(&self, id: u32) -> Option<&str> {
        self.kernels.get(&id).map(String::as_str)
    }
}

/// The functions of a chain, innermost first.
pub(super) fn frames(chain: &Chain) -> impl Iterator<Item = Frame<'_>> {
    chain.frames.iter().map(|frame| Frame { library: &frame.library, function: frame.name.as_deref() })
}

/// The name of the function that is called.
pub(super) fn api(subject: Subject) -> Option<&'static str> {
    PROBES.get(usize::from(subject.api())).map(|probe| probe.name)
}

/// As the programs are told.
pub(super) fn decided(decision: Decision, origin: u32, name: RuleId) -> Decided {
    let rule = match decision.by {
        Decider::Nobody => 0,
        Decider::Rule(number) => number + 1,
        Decider::Domain => RULE_DOMAIN,
    };
    Decided { verdict: decision.verdict().by(name).0, origin, rule }
}
