//! Rules on calls where the process decides itself: by the immediate caller, without what called that.
//!
//! The rules are those of the controller, or the default ones. The user's own precede them. Conditions that need more of the chain
//! do not match. [`CallerRules::is_sure`] says whether they could.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use xsched_protocol::verdict::{RuleId, Verdict};
use xsched_rules::{Call, Caller, Decider, Decision, Frame, Rulebook, Rules};

use crate::program;

/// The rules in force in this process, with the numbers that they have in recordings.
#[derive(Debug)]
pub struct CallerRules {
    book: Rulebook,
    /// Those of files and settings, without built-in sets.
    written: Rulebook,
    /// How many rules precede those of the controller, or the default ones.
    own_count: u32,
    /// See [`ControllerRules::first`](xsched_xqueue::ControllerRules::first).
    first: u16,
}

/// A call, as far as the process knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownCall<'a> {
    /// The file name of the library that the call returns to, or of the program.
    pub library: Option<&'a str>,
    /// The function there.
    pub function: Option<&'a str>,
    /// The function that is called.
    pub api: Option<&'a str>,
    /// The kernel that is launched.
    pub kernel: Option<&'a str>,
}

impl KnownCall<'_> {
    fn decide(self, book: &Rulebook) -> Decision {
        let Self { library, function, api, kernel } = self;
        let frame = library.map(|library| Frame { library, function });
        book.decide(Call { chain: frame.as_slice(), is_whole: false, api, kernel })
    }
}

impl CallerRules {
    /// The controller's rules, of which the first has this number, behind the user's own. `users` are names of the process's user.
    pub fn new(own: &Rules, controllers: Rules, first: u16, users: &[String]) -> Self {
        let before = controllers.rules().len();
        let all = controllers.with_settings(own);
        let own_count = (all.rules().len() - before) as u32;
        let process = this_process(users);
        let written = Rulebook::new(Arc::new(all.written()), &process);
        Self { book: Rulebook::new(Arc::new(all), &process), written, own_count, first }
    }

    /// The library that calls by this one belong to; None if it only calls for others.
    pub fn origin<'a>(&self, library: &'a str) -> Option<&'a str> {
        self.book.rules().origin([library])
    }

    /// The verdict on a call, which holds for all calls that are known by the same.
    pub fn decide(&self, known: KnownCall<'_>) -> Verdict {
        // The immediate caller is all that is ever known here.
        let decision = Decision { is_by_caller: true, ..known.decide(&self.book) };
        decision.verdict().by(self.id(decision.by))
    }

    /// Whether rules of files and settings decide the same about every call that is known by this, whatever its chain. Those of
    /// built-in sets do not count: they name libraries that call the runtime themselves.
    pub fn is_sure(&self, known: KnownCall<'_>) -> bool {
        !self.written.has_any() || known.decide(&self.written).is_by_caller
    }

    /// How recordings identify a rule.
    fn id(&self, decider: Decider) -> RuleId {
        match decider {
            Decider::Default => RuleId::NONE,
            Decider::Domain => RuleId::DOMAIN,
            Decider::Rule(number) => {
                if let Some(index) = number.checked_sub(self.own_count) {
                    return RuleId::handed_out(self.first, index);
                }
                let name = self.book.rules().rules()[number as usize].name.as_deref();
                RuleId::setting(name.unwrap_or_default())
            }
        }
    }
}

/// What rules may ask about this process.
pub fn this_process(users: &[String]) -> Caller {
    let executable = program::path().map(|path| path.to_string_lossy().into_owned());
    let cgroup = fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let cgroups = Path::new(own).ancestors();
    Caller {
        executable: executable.unwrap_or_default(),
        users: std::iter::once(rustix::process::geteuid().as_raw().to_string())
            .chain(users.iter().cloned())
            .collect(),
        cgroups: cgroups.map(|path| path.to_string_lossy().into_owned()).collect(),
    }
}
