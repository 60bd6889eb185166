//! Finds the rule that decides on a call, and whether the immediate caller alone determines the decision.

use std::sync::Arc;

use xsched_protocol::verdict::{Action, Verdict};

use crate::origin::Rules;
use crate::patterns::Pattern;
use crate::rule::{Frame, FramePattern, Rule};

/// The process that makes calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The path of the process's executable.
    pub executable: String,
    /// The id and the name of its user.
    pub users: Vec<String>,
    /// Its cgroup and that cgroup's ancestors.
    pub cgroups: Vec<String>,
}

/// A call for which a decision is needed.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The call chain, innermost frame first; the first frame is the immediate caller. May be empty.
    pub chain: &'a [Frame<'a>],
    /// Whether the chain is complete.
    pub is_whole: bool,
    /// The function, if it is known.
    pub api: Option<&'a str>,
    /// The kernel that it launches, if it launches one.
    pub kernel: Option<&'a str>,
}

/// The reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decider {
    /// No rule matches: the call is scheduled.
    Default,
    /// The rule with this index in [`Rules::rules`].
    Rule(u32),
    /// A scheduling domain: a library on the chain has declared how to treat its calls.
    Domain,
}

/// The decision on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How to treat the call.
    pub action: Action,
    /// The highest preemption mode; 0: no limit.
    pub mode: u8,
    /// The reason.
    pub by: Decider,
    /// Whether every call with the same immediate caller, HIP function and kernel gets the same decision.
    pub is_by_caller: bool,
    /// Whether the same holds for other kernels.
    pub is_for_any_kernel: bool,
}

impl Decision {
    /// The decision as one word.
    pub const fn verdict(self) -> Verdict {
        let verdict = Verdict::new(self.action, self.mode, self.is_by_caller);
        if self.is_for_any_kernel { verdict.for_any_kernel() } else { verdict }
    }
}

/// A scheduling domain: a library's declaration how to treat its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The library's file name.
    pub library: String,
    /// How to treat calls with the library on their chain.
    pub action: Action,
}

/// The rules for one process.
#[derive(Clone, Debug)]
pub struct Rulebook {
    rules: Arc<Rules>,
    /// The indexes of the rules that can match calls of the process.
    concerning: Vec<u32>,
    domains: Vec<Domain>,
}

/// The value of a condition if only the immediate caller is known.
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

/// The parts of a call chain that rules have conditions on.
struct View<'a> {
    call: Call<'a>,
    /// The frame that the call belongs to.
    own: Option<Frame<'a>>,
    /// Whether the immediate caller alone determines that frame.
    is_own_sure: bool,
    /// The frame that called the library of `own`.
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
            // A complete chain with only frames of the runtime belongs to the runtime.
            own: own.or(first.filter(|_| call.is_whole)),
            is_own_sure: own.is_some() && own == first,
            above: own.and_then(|own| opaque().find(|frame| frame.library != own.library)),
            outermost: opaque().next_back().filter(|_| call.is_whole),
        }
    }

    /// Whether a rule matches, and whether it would match other calls with the same immediate caller, each apart from its condition
    /// on the kernel.
    fn evaluate(&self, rule: &Rule) -> (bool, Truth) {
        let wanted = &rule.wanted;
        if !is_any(&wanted.api, self.call.api) {
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
            // If the immediate caller matches, every chain with that caller matches.
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
    /// The rules for a process.
    pub fn new(rules: Arc<Rules>, caller: &Caller) -> Self {
        let concerning = rules.rules().iter().enumerate().filter(|(_, rule)| concerns(rule, caller));
        let concerning = concerning.map(|(number, _)| number as u32).collect();
        Self { rules, concerning, domains: Vec::new() }
    }

    /// All rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether any rule can match calls of the process.
    pub fn has_any(&self) -> bool {
        !self.concerning.is_empty()
    }

    /// Sets a library's scheduling domain, or removes it if `action` is None.
    pub fn set_domain(&mut self, library: &str, action: Option<Action>) {
        self.domains.retain(|domain| domain.library != library);
        self.domains.extend(action.map(|action| Domain { library: library.to_owned(), action }));
    }

    /// The scheduling domains, in the order in which they were declared.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn rule(&self, number: u32) -> &Rule {
        &self.rules.rules()[number as usize]
    }

    /// Decides on a call: by the nearest library on its chain with a scheduling domain, else by the first rule that matches,
    /// else the call is scheduled.
    pub fn decide(&self, call: Call<'_>) -> Decision {
        let view = View::new(&self.rules, call);
        let mut decided = None;
        // All decisions that are possible for calls with this immediate caller.
        let mut possible: Vec<(Action, u8)> = Vec::new();
        let mut is_settled = false;
        let mut is_for_any_kernel = true;
        let nearest = |domain: &&Domain| call.chain.iter().position(|frame| frame.library == domain.library);
        let mut domains: Vec<_> = self.domains.iter().filter(|domain| nearest(domain).is_some()).collect();
        domains.sort_by_key(nearest);
        if let Some(domain) = domains.first() {
            decided = Some((domain.action, 0, Decider::Domain));
        }
        for domain in &self.domains {
            possible.push((domain.action, 0));
            if call.chain.first().is_some_and(|first| first.library == domain.library) {
                // The immediate caller is nearer than any other library.
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
            let (fits, truth) = view.evaluate(rule);
            is_for_any_kernel &= is_settled || truth == Truth::No || !rule.names_kernels();
            if !is_any(&rule.wanted.kernel, call.kernel) {
                continue;
            }
            if fits && decided.is_none() {
                decided = Some((rule.action, rule.mode, Decider::Rule(number)));
            }
            if truth != Truth::No && !is_settled {
                possible.push((rule.action, rule.mode));
                is_settled = truth == Truth::Yes;
            }
        }
        if !is_settled {
            possible.push((Action::Schedule, 0));
        }
        let (action, mode, by) = decided.unwrap_or((Action::Schedule, 0, Decider::Default));
        let is_by_caller = !call.chain.is_empty() && possible.iter().all(|&other| other == (action, mode));
        Decision { action, mode, by, is_by_caller, is_for_any_kernel }
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
