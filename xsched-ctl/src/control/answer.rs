//! The controller's answers. `--json` prints the same objects; times are in nanoseconds.

use serde::{Deserialize, Serialize};

use crate::standing::Standing;

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The controller's state.
    Status(Status),
    /// The processes.
    List(List),
    /// Scheduling parameters were changed.
    Set {
        /// Connected processes that are affected.
        changed: Vec<Changed>,
        /// A share was set, and the shares of a device now exceed 100 %.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overpromised: Option<Overpromised>,
    },
    /// The policy, and the previous one.
    Policy {
        /// Its name.
        policy: String,
        /// The previous one's name; the same if this was only a question.
        was: String,
        /// The controller was off, and this request has put it into this state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turned: Option<State>,
    },
    /// The state now and before.
    State {
        /// Now.
        state: State,
        /// Before.
        was: State,
    },
    /// The token is registered.
    Run {
        /// A share was requested, and the shares of this device would exceed 100 % if the command used it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overpromised: Option<Overpromised>,
    },
    /// Ids of the processes that have joined with the token of this connection.
    Joined {
        /// Those that are still connected.
        processes: Vec<u32>,
        /// How many there have been.
        count: u64,
    },
    /// The verdicts on a process's calls.
    Explained(Explained),
    /// The request is refused.
    Refused {
        /// The kind of reason.
        reason: Reason,
        /// The reason as a message.
        message: String,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    /// The request is malformed.
    Malformed,
    /// The user may not do this.
    NotPermitted,
    /// The user may do this, but not up to this value.
    AboveCeiling,
    /// There is no such process, queue or policy.
    NotFound,
    /// A limit is reached.
    Full,
    /// The controller was started without what this needs.
    Unavailable,
    /// Something failed.
    Failed,
}

/// Whether queues are suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// They are.
    Active,
    /// The controller decides, but suspends nothing: it was started so.
    Observing,
    /// They are not, since a command said `off`.
    Off,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Active => "active",
            Self::Observing => "observing",
            Self::Off => "off",
        })
    }
}

/// What maintains the arbiter page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PageKeeper {
    /// BPF programs.
    Programs,
    /// The controller.
    Controller,
}

impl std::fmt::Display for PageKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Programs => "BPF programs",
            Self::Controller => "the controller itself",
        })
    }
}

/// What the rules see of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sight {
    /// The whole chain, which BPF programs walk.
    Chains,
    /// The immediate caller, which each process determines itself.
    #[default]
    Callers,
}

impl std::fmt::Display for Sight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Chains => "whole call chains",
            Self::Callers => "immediate callers only",
        })
    }
}

/// The controller's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Version of xsched-ctl.
    pub(crate) version: String,
    /// Its process.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
    /// Whether queues are suspended.
    pub(crate) state: State,
    /// How claims are ranked.
    pub(crate) policy: String,
    /// What maintains the page.
    pub(crate) keeper: PageKeeper,
    /// What the rules see of a call.
    #[serde(default)]
    pub(crate) sight: Sight,
    /// Time since its start.
    pub(crate) uptime_ns: u64,
    /// Counters since its start.
    pub(crate) counts: Counts,
}

/// Counters since the controller's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Processes that have joined.
    pub(crate) joined: u64,
    /// Those among them that report over the socket.
    pub(crate) by_socket: u64,
    /// Queues opened.
    pub(crate) opened: u64,
    /// Levels changed.
    pub(crate) moved: u64,
    /// Processes that died or became another program with queues open.
    pub(crate) died: u64,
    /// Queues whose lease ran out.
    pub(crate) expired: u64,
    /// Connections ended because of a malformed packet.
    pub(crate) malformed: u64,
    /// Processes with a shim of another version, which run unscheduled.
    #[serde(default)]
    pub(crate) outdated: u64,
    /// Connections ended because the process did not read, or sent nothing.
    pub(crate) slow: u64,
    /// Connections and queues refused because a limit was reached.
    pub(crate) full: u64,
    /// Reports about queues that did not belong to the sender or no longer existed.
    pub(crate) refused: u64,
    /// Changes refused for lack of permission.
    pub(crate) forbidden: u64,
    /// Changes of the page that failed.
    pub(crate) failed: u64,
    /// Repairs of the ready mask that were given up, as the page counts them.
    pub(crate) exhausted: u64,
    /// Verdicts on calls that were evicted from a full table, and had to be given again.
    pub(crate) answered_again: u64,
}

/// The processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct List {
    /// The controller's state.
    pub(crate) controller: Status,
    /// By process id.
    pub(crate) processes: Vec<Process>,
}

/// A process that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Its id in the controller's pid namespace; 0 if it has none there.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
    /// The user's name, or its number as text.
    pub(crate) user: String,
    /// Its name; empty if the caller may not see it.
    pub(crate) command: String,
    /// Its cgroup, which shows the container that it runs in; empty as above.
    #[serde(default)]
    pub(crate) cgroup: String,
    /// Its scheduling parameters.
    pub(crate) standing: Standing,
    /// The name of its priority's class.
    pub(crate) class: String,
    /// Where its priority comes from; if it is the default, where the other parameters come from.
    pub(crate) from: From,
    /// How its reports arrive: seen by BPF programs, or over the socket.
    pub(crate) reports: PageKeeper,
    /// Its queues.
    pub(crate) queues: Vec<Queue>,
}

/// Where a priority comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum From {
    /// Nothing has set it.
    Default,
    /// The configuration.
    Rule,
    /// The process, within its ceiling.
    Hint,
    /// `run`.
    Run,
    /// `set`.
    Set,
}

impl std::fmt::Display for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Default => "default",
            Self::Rule => "rule",
            Self::Hint => "hint",
            Self::Run => "run",
            Self::Set => "set",
        })
    }
}

/// A process's claim: its use of one device at one stream priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Queue {
    /// Its slot in the page, which `set --queue` takes.
    pub(crate) slot: u32,
    /// The device, as `0000:c1:00.0`, with the partition behind a slash unless it is 0.
    pub(crate) device: String,
    /// Its scheduling parameters, if some were set for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) standing: Option<Standing>,
    /// How much more urgent its streams are than the process.
    pub(crate) stream_priority: i32,
    /// Its level; 0 is the most urgent.
    pub(crate) level: u64,
    /// It has work.
    pub(crate) ready: bool,
    /// A more urgent queue of its device has work.
    pub(crate) held: bool,
    /// No other queue is open on its device. Its process then tracks none of its commands, so it reports neither
    /// whether it has work nor what it uses.
    pub(crate) alone: bool,
    /// Part of the device's time that its work took in the last one to two seconds.
    pub(crate) device_share: f64,
    /// Device time of its work so far, as its process reports it.
    pub(crate) device_ns: u64,
    /// The same by library, the largest first; empty if the caller may not see it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) origins: Vec<Origin>,
    /// Commands launched.
    pub(crate) launched: u64,
    /// Commands deferred before they were launched.
    pub(crate) held_back: u64,
    /// For how long something was deferred.
    pub(crate) suspended_ns: u64,
}

/// A queue's device time for one library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The library's file name; `[unknown]`, or `[others]` for all those beyond the limit of numbers.
    pub(crate) library: String,
    /// Part of the device's time that its work took in the last one to two seconds.
    pub(crate) device_share: f64,
    /// Device time of its work so far.
    pub(crate) device_ns: u64,
}

/// A process whose scheduling parameters were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changed {
    /// Its id.
    pub(crate) pid: u32,
    /// Its name.
    pub(crate) command: String,
    /// Before.
    pub(crate) old: Standing,
    /// Now.
    pub(crate) new: Standing,
}

/// The shares of a device exceed 100 %, so all shrink in proportion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overpromised {
    /// The device, as in [`Queue`].
    pub(crate) device: String,
    /// The sum of the shares of all processes with queues there, now or if another joined.
    pub(crate) percent: u32,
}

/// The verdicts on a process's calls so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Explained {
    /// Its id.
    pub(crate) pid: u32,
    /// The set that follows the file's own rules.
    pub(crate) profile: String,
    /// The file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// The calls, by function and chain.
    pub(crate) sites: Vec<Place>,
    /// How many more there are than listed.
    pub(crate) left_out: u64,
    /// Calls of all processes that got the default because their chain was unknown, by cause.
    pub(crate) losses: Vec<(String, u64)>,
}

/// Calls of one function with one chain, and the verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The HIP function.
    pub(crate) api: String,
    /// The kernel, where rules ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<String>,
    /// The library to which the call belongs.
    pub(crate) origin: String,
    /// Innermost first, each `library:function`.
    pub(crate) chain: Vec<String>,
    /// The chain has all frames.
    pub(crate) whole: bool,
    /// `schedule`, `passthrough` or `never-suspend`.
    pub(crate) action: String,
    /// The highest preemption mode; 0: no limit.
    pub(crate) level: u8,
    /// What gave the verdict.
    pub(crate) by: By,
    /// It depends on the immediate caller only, so the process keeps it for the call site.
    pub(crate) kept_by_call_site: bool,
    /// How many chains have these names.
    pub(crate) chains: u64,
}

/// What gave a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// No rule matches.
    Nobody,
    /// A library on the chain has declared what its calls are.
    Domain,
    /// A rule.
    Rule {
        /// Counted from 1 over all rules.
        number: u32,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The set that it is in; none: the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<String>,
        /// Its line there.
        line: usize,
    },
}
