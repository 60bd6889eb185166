//! One rule: its conditions on a call, and its verdict on calls that match.

use std::fmt;

use xsched_protocol::verdict::Action;

use crate::builtin::Profile;
use crate::patterns::Pattern;

/// The source of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The rules file.
    File,
    /// The settings of the process's user.
    Settings,
    /// A built-in set.
    BuiltIn(Profile),
}

/// A rule. It matches a call if all its conditions match.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name for people.
    pub name: Option<String>,
    /// The source.
    pub source: Source,
    /// The line of its header in the source, counted from 1.
    pub line: usize,
    /// How to treat calls that match.
    pub action: Action,
    /// The highest preemption mode, 1 to 3; 0: no limit.
    pub mode: u8,
    pub(crate) wanted: Wanted,
}

/// The conditions of a rule. An empty list is no condition; in any other list, one match is sufficient.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The library that the call belongs to.
    pub(crate) library: Vec<Pattern>,
    /// The function in that library.
    pub(crate) function: Vec<Pattern>,
    /// Any frame of the chain.
    pub(crate) chain: Vec<FramePattern>,
    /// The caller of the library that the call belongs to.
    pub(crate) under: Vec<FramePattern>,
    /// The outermost library.
    pub(crate) outermost: Vec<FramePattern>,
    pub(crate) api: Vec<Pattern>,
    pub(crate) kernel: Vec<Pattern>,
    pub(crate) process: Vec<Pattern>,
    pub(crate) user: Vec<Pattern>,
    pub(crate) cgroup: Vec<Pattern>,
}

/// A library, and a function in it if one is given: `libMIOpen.so*` or `libMIOpen.so*:miopenFind*`.
#[derive(Clone, Debug)]
pub(crate) struct FramePattern {
    pub(crate) library: Pattern,
    pub(crate) function: Option<Pattern>,
}

/// One function of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// File name of the library.
    pub library: &'a str,
    /// The name of the function, without parameters, if it is known.
    pub function: Option<&'a str>,
}

impl FramePattern {
    pub(crate) fn matches(&self, frame: Frame<'_>) -> bool {
        let function = |pattern: &Pattern| frame.function.is_some_and(|name| pattern.matches(name));
        self.library.matches(frame.library) && self.function.as_ref().is_none_or(function)
    }
}

impl fmt::Display for FramePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => write!(f, "{}:{function}", self.library),
            None => self.library.fmt(f),
        }
    }
}

/// The names of actions in files.
pub(crate) const ACTIONS: [(&str, Action); 3] = [
    ("schedule", Action::Schedule),
    ("passthrough", Action::Passthrough),
    ("never-suspend", Action::NeverSuspend),
];

/// The name of an action in files and for people.
pub fn action_name(action: Action) -> &'static str {
    ACTIONS[action as usize - 1].0
}

impl Rule {
    /// Whether it has a condition on the kernel.
    pub fn names_kernels(&self) -> bool {
        !self.wanted.kernel.is_empty()
    }

    /// The condition on the user, by name or id.
    pub fn users(&self) -> &[Pattern] {
        &self.wanted.user
    }

    /// Whether it has a condition on the cgroup.
    pub fn asks_for_cgroup(&self) -> bool {
        !self.wanted.cgroup.is_empty()
    }

    /// The location of the rule, for people; `file` is the name of the rules file.
    pub fn location(&self, file: &str) -> String {
        match self.source {
            Source::File => format!("{file}:{}", self.line),
            Source::Settings => format!("settings:{}", self.line),
            Source::BuiltIn(profile) => format!("{}:{}", profile.name(), self.line),
        }
    }
}

/// The action and the conditions: `passthrough: library librocblas.so*, api hipMemcpy*`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(action_name(self.action))?;
        if self.mode != 0 {
            write!(f, ", preemption mode {} at most", self.mode)?;
        }
        let mut separator = ": ";
        let wanted = &self.wanted;
        let mut list = |f: &mut fmt::Formatter<'_>, key: &str, texts: Vec<String>| {
            if texts.is_empty() {
                return Ok(());
            }
            let written = write!(f, "{separator}{key} {}", texts.join(" | "));
            separator = ", ";
            written
        };
        let globs = |patterns: &[Pattern]| patterns.iter().map(Pattern::to_string).collect();
        let frames = |patterns: &[FramePattern]| patterns.iter().map(FramePattern::to_string).collect();
        list(f, "library", globs(&wanted.library))?;
        list(f, "function", globs(&wanted.function))?;
        list(f, "chain", frames(&wanted.chain))?;
        list(f, "under", frames(&wanted.under))?;
        list(f, "outermost", frames(&wanted.outermost))?;
        list(f, "api", globs(&wanted.api))?;
        list(f, "kernel", globs(&wanted.kernel))?;
        list(f, "process", globs(&wanted.process))?;
        list(f, "user", globs(&wanted.user))?;
        list(f, "cgroup", globs(&wanted.cgroup))
    }
}

const _: () = {
    // `action_name` relies on this order.
    let mut index = 0;
    while index < ACTIONS.len() {
        assert!(ACTIONS[index].1 as usize == index + 1);
        index += 1;
    }
};
