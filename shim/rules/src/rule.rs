//! One rule: what it asks of a call, and what becomes of calls that fit.

use std::fmt;

use xsched_protocol::verdict::Action;

use crate::builtin::Profile;
use crate::patterns::Pattern;

/// Where a rule is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the file.
    File,
    /// In the settings of the process's user.
    Settings,
    /// In a set that comes with this crate.
    BuiltIn(Profile),
}

/// A rule. It fits if everything fits that it asks for; what it does not ask for may be anything.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it is called.
    pub name: Option<String>,
    /// Where it is written.
    pub source: Source,
    /// The line of its head there, counted from 1.
    pub line: usize,
    /// What becomes of a call.
    pub action: Action,
    /// The highest level of preemption, 1 to 3; 0: no limit.
    pub level: u8,
    pub(crate) wanted: Wanted,
}

/// What a rule asks for. An empty list asks for nothing; in another, one that fits is enough.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The library to which the call belongs.
    pub(crate) library: Vec<Pattern>,
    /// Its function.
    pub(crate) function: Vec<Pattern>,
    /// Any frame.
    pub(crate) chain: Vec<FramePattern>,
    /// The library that has called the one to which the call belongs.
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
    /// Its function, without parameters, if that has a name.
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

/// As files name them.
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
    /// Whether it asks which kernel is launched.
    pub fn names_kernels(&self) -> bool {
        !self.wanted.kernel.is_empty()
    }

    /// Of whose processes it asks, by name or number.
    pub fn users(&self) -> &[Pattern] {
        &self.wanted.user
    }

    /// Whether it asks for the process's cgroup.
    pub fn asks_for_cgroup(&self) -> bool {
        !self.wanted.cgroup.is_empty()
    }

    /// Where it is written, for people; `file` is the name of the file.
    pub fn place(&self, file: &str) -> String {
        match self.source {
            Source::File => format!("{file}:{}", self.line),
            Source::Settings => format!("settings:{}", self.line),
            Source::BuiltIn(profile) => format!("{}:{}", profile.name(), self.line),
        }
    }
}

/// What it does, and to which calls: `passthrough: library librocblas.so*, api hipMemcpy*`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(action_name(self.action))?;
        if self.level != 0 {
            write!(f, ", level {} at most", self.level)?;
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
    // `action_name` relies on it.
    let mut index = 0;
    while index < ACTIONS.len() {
        assert!(ACTIONS[index].1 as usize == index + 1);
        index += 1;
    }
};
