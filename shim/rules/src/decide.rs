//! Which rule decides about a call, and whether its caller alone has decided that.

use std::sync::Arc;

use xsched_protocol::verdict::{Action, Verdict};

use crate::origin::Rules;
use crate::patterns::Pattern;
use crate::rule::{Frame, FramePattern, Rule};

/// Who makes calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Path of what the process executes.
    pub executable: String,
    /// Number and name of its user.
    pub users: Vec<String>,
    /// Its cgroup and those above it.
    pub cgroups: Vec<String>,
}

/// A call to be decided about.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Innermost first; the first is the immediate caller. May be empty.
    pub chain: &'a [Frame<'a>],
    /// Whether the chain has all frames.
    pub is_whole: bool,
    /// The function, if it is known.
    pub api: Option<&'a str>,
    /// The kernel that it launches, if it launches one.
    pub kernel: Option<&'a str>,
}

/// Who has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decider {
    /// No rule fits: the call is scheduled.
    Nobody,
    /// The rule with this number, counted from 0 in [`Rules::rules`].
    Rule(u32),
    /// A library on the chain has said what its calls are.
    Domain,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is done with it.
    pub action: Action,
    /// The highest level of preemption; 0: no limit.
    pub level: u8,
    /// Who says so.
    pub by: Decider,
    /// Whether any call with the same immediate caller, API and kernel would be decided about in the same way.
    pub is_by_caller: bool,
}

impl Decision {
    /// As one word.
    pub const fn verdict(self) -> Verdict {
        Verdict::new(self.action, self.level, self.is_by_caller)
    }
}

/// What a library has said of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its file name.
    pub library: String,
    /// What becomes of calls with it on their chain.
    pub action: Action,
}

/// The rules as they concern one process.
#[derive(Clone, Debug)]
pub struct Rulebook {
    rules: Arc<Rules>,
    /// Those that may fit, by their numbers.
    concerning: Vec<u32>,
    domains: Vec<Domain>,
}

/// What is known of a condition if nothing is known but the immediate caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    No,
    Perhaps,
    Yes,
}

impl From<bool> for Truth {
    fn from(truth: bool) -> Self {
        if truth { Self::Yes } else { Self::No }
    }
}

/// What the rules look at.
struct View<'a> {
    call: Call<'a>,
    /// The frame to which the call belongs.
    own: Option<Frame<'a>>,
    /// Whether that follows from the immediate caller.
    is_own_sure: bool,
    /// The frame that has called its library.
    above: Option<Frame<'a>>,
    outermost: Option<Frame<'a>>,
}

impl<'a> View<'a> {
    fn new(rules: &Rules, call: Call<'a>) -> Self {
        let opaque = || call.chain.iter().copied().filter(|frame| !rules.is_transparent(frame.library));
        let own = opaque().next();
        let first = call.chain.first().copied();
        Self {
            call,
            // A chain of nothing but the runtime belongs to the runtime, if that is all of it.
            own: own.or(first.filter(|_| call.is_whole)),
            is_own_sure: own.is_some() && own == first,
            above: own.and_then(|own| opaque().find(|frame| frame.library != own.library)),
            outermost: opaque().next_back().filter(|_| call.is_whole),
        }
    }

    /// Whether a rule fits, and whether it may fit another call of the same immediate caller.
    fn ask(&self, rule: &Rule) -> (bool, Truth) {
        let wanted = &rule.wanted;
        let api = is_any(&wanted.api, self.call.api);
        let kernel = is_any(&wanted.kernel, self.call.kernel);
        if !(api && kernel) {
            return (false, Truth::No);
        }
        let own = (
            is_any(&wanted.library, self.own.map(|own| own.library))
                && is_any(&wanted.function, self.own.and_then(|own| own.function)),
            wanted.library.is_empty() && wanted.function.is_empty() || self.is_own_sure,
        );
        let first = self.call.chain.first().copied();
        let chain = (
            wanted.chain.is_empty()
                || self.call.chain.iter().any(|&frame| is_any_frame(&wanted.chain, Some(frame))),
            // What the immediate caller fulfils is fulfilled by every chain of his.
            is_any_frame(&wanted.chain, first),
        );
        let under = (is_any_frame(&wanted.under, self.above), wanted.under.is_empty());
        let outermost = (is_any_frame(&wanted.outermost, self.outermost), wanted.outermost.is_empty());
        let conditions = [own, chain, under, outermost];
        let fits = conditions.iter().all(|(holds, _)| *holds);
        let truth = conditions.iter().fold(Truth::Yes, |truth, &(holds, is_sure)| {
            match (truth, if is_sure { holds.into() } else { Truth::Perhaps }) {
                (Truth::No, _) | (_, Truth::No) => Truth::No,
                (Truth::Perhaps, _) | (_, Truth::Perhaps) => Truth::Perhaps,
                _ => Truth::Yes,
            }
        });
        (fits, truth)
    }
}

fn is_any(patterns: &[Pattern], name: Option<&str>) -> bool {
    patterns.is_empty() || name.is_some_and(|name| patterns.iter().any(|pattern| pattern.matches(name)))
}

fn is_any_frame(patterns: &[FramePattern], frame: Option<Frame<'_>>) -> bool {
    patterns.is_empty() || frame.is_some_and(|frame| patterns.iter().any(|pattern| pattern.matches(frame)))
}

impl Rulebook {
    /// The rules that concern a process.
    pub fn new(rules: Arc<Rules>, caller: &Caller) -> Self {
        let concerning = rules.rules().iter().enumerate().filter(|(_, rule)| concerns(rule, caller));
        let concerning = concerning.map(|(number, _)| number as u32).collect();
        Self { rules, concerning, domains: Vec::new() }
    }

    /// All rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether any of those that concern the process asks which kernel is launched.
    pub fn names_kernels(&self) -> bool {
        self.concerning.iter().any(|&number| self.rule(number).names_kernels())
    }

    /// A library says what its calls are; none: nothing any more.
    pub fn set_domain(&mut self, library: &str, action: Option<Action>) {
        self.domains.retain(|domain| domain.library != library);
        self.domains.extend(action.map(|action| Domain { library: library.to_owned(), action }));
    }

    /// What libraries have said, in the order in which they did.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn rule(&self, number: u32) -> &Rule {
        &self.rules.rules()[number as usize]
    }

    /// Decides about a call: by the library nearest to it that has said what its calls are, else by the first rule that
    /// fits, else it is scheduled.
    pub fn decide(&self, call: Call<'_>) -> Decision {
        let view = View::new(&self.rules, call);
        let mut decided = None;
        // What the immediate caller leaves open: all that could be decided about calls of his.
        let mut possible: Vec<(Action, u8)> = Vec::new();
        let mut is_settled = false;
        let nearest = |domain: &&Domain| call.chain.iter().position(|frame| frame.library == domain.library);
        let mut domains: Vec<_> = self.domains.iter().filter(|domain| nearest(domain).is_some()).collect();
        domains.sort_by_key(nearest);
        if let Some(domain) = domains.first() {
            decided = Some((domain.action, 0, Decider::Domain));
        }
        for domain in &self.domains {
            possible.push((domain.action, 0));
            if call.chain.first().is_some_and(|first| first.library == domain.library) {
                // Nearer than any other.
                possible = vec![(domain.action, 0)];
                is_settled = true;
                break;
            }
        }
        for &number in &self.concerning {
            if decided.is_some() && is_settled {
                break;
            }
            let rule = self.rule(number);
            let (fits, truth) = view.ask(rule);
            if fits && decided.is_none() {
                decided = Some((rule.action, rule.level, Decider::Rule(number)));
            }
            if truth != Truth::No && !is_settled {
                possible.push((rule.action, rule.level));
                is_settled = truth == Truth::Yes;
            }
        }
        if !is_settled {
            possible.push((Action::Schedule, 0));
        }
        let (action, level, by) = decided.unwrap_or((Action::Schedule, 0, Decider::Nobody));
        let is_by_caller = !call.chain.is_empty() && possible.iter().all(|&other| other == (action, level));
        Decision { action, level, by, is_by_caller }
    }
}

fn concerns(rule: &Rule, caller: &Caller) -> bool {
    let wanted = &rule.wanted;
    let file_name = caller.executable.rsplit('/').next().unwrap_or_default();
    let is_executable = |pattern: &Pattern| {
        pattern.matches(if pattern.to_string().contains('/') { &caller.executable } else { file_name })
    };
    let is_one_of = |patterns: &[Pattern], names: &[String]| {
        patterns.is_empty() || names.iter().any(|name| is_any(patterns, Some(name)))
    };
    (wanted.process.is_empty() || wanted.process.iter().any(is_executable))
        && is_one_of(&wanted.user, &caller.users)
        && is_one_of(&wanted.cgroup, &caller.cgroups)
}

#[cfg(test)]
mod tests;
