//! The controller's answers. `--json` prints the same objects; times are in nanoseconds.

mod settings;

use serde::{Deserialize, Serialize};

use crate::parameters::Parameters;
pub use settings::Settings;

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The controller's state.
    Status(Status),
    /// The processes.
    List(List),
    /// Scheduling parameters were changed.
    Set {
        /// Connected processes that are affected.
        changed: Vec<Changed>,
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

impl Answer {
    /// A line of JSON.
    ///
    /// # Panics
    ///
    /// Never: no answer has a map with odd keys.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("answers have no maps with odd keys") + "\n"
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The request is malformed.
    Malformed,
    /// The user may not do this.
    NotPermitted,
    /// The user may do this, but not up to this value.
    AboveCeiling,
    /// There is no such process, claim or policy.
    NotFound,
    /// A limit is reached.
    Full,
    /// The controller was started without what this needs.
    Unavailable,
    /// Something failed.
    Failed,
}

/// Whether claims are suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
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
pub enum PageKeeper {
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
pub enum Sight {
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
pub struct Status {
    /// Version of xsched-ctl.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Whether claims are suspended.
    pub state: State,
    /// How claims are ranked.
    pub policy: String,
    /// What the policy and the processes were told.
    #[serde(default)]
    pub settings: Settings,
    /// What maintains the page.
    pub keeper: PageKeeper,
    /// What the rules see of a call.
    #[serde(default)]
    pub sight: Sight,
    /// Time since its start.
    pub uptime_ns: u64,
    /// Counters since its start.
    pub counts: Counts,
}

/// Counters since the controller's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Processes that have joined.
    pub joined: u64,
    /// Those among them that report over the socket.
    pub by_socket: u64,
    /// Claims opened.
    pub opened: u64,
    /// Levels changed.
    pub moved: u64,
    /// Processes that died or became another program with claims open.
    pub died: u64,
    /// Claims whose lease ran out.
    pub expired: u64,
    /// Connections ended because of a malformed packet.
    pub malformed: u64,
    /// Processes with a shim of another version, which run unscheduled.
    #[serde(default)]
    pub outdated: u64,
    /// Connections ended because the process did not read, or sent nothing.
    pub slow: u64,
    /// Connections and claims refused because a limit was reached.
    pub full: u64,
    /// Reports about claims that did not belong to the sender or no longer existed.
    pub refused: u64,
    /// Changes refused for lack of permission.
    pub forbidden: u64,
    /// Changes of the page that failed.
    pub failed: u64,
    /// Repairs of the ready mask that were given up, as the page counts them.
    pub exhausted: u64,
    /// Verdicts on calls that were evicted from a full table, and had to be given again.
    pub answered_again: u64,
}

/// The processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// The controller's state.
    pub controller: Status,
    /// Devices with claims that have reported anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// By process id.
    pub processes: Vec<Process>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// As in [`Claim::device`].
    pub device: String,
    /// The part of the last second in which work of its claims was on it, whether or not they ran side by side: 1 at most.
    pub busy: f64,
}

/// A process that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its id in the controller's pid namespace; 0 if it has none there.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// The user's name, or its number as text.
    pub user: String,
    /// Its name; empty if the caller may not see it.
    pub command: String,
    /// Its cgroup, which shows the container that it runs in; empty as above.
    #[serde(default)]
    pub cgroup: String,
    /// The pod of Kubernetes that it belongs to, once that is known; none as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Pod>,
    /// Its scheduling parameters.
    pub parameters: Parameters,
    /// The name of its priority's class.
    pub class: String,
    /// Where its priority comes from; if it is the default, where the other parameters come from.
    pub from: From,
    /// How its reports arrive: seen by BPF programs, or over the socket.
    pub reports: PageKeeper,
    /// Its claims.
    #[serde(rename = "queues")]
    pub claims: Vec<Claim>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The container's name in the pod.
    pub container: String,
}

impl std::fmt::Display for Pod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.name, self.container)
    }
}

/// Where a priority comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// Nothing has set it.
    Default,
    /// The configuration.
    Rule,
    /// The annotations of its pod, within its ceiling.
    Pod,
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
            Self::Pod => "pod",
            Self::Hint => "hint",
            Self::Run => "run",
            Self::Set => "set",
        })
    }
}

/// How many claims [`Claim::waits_for`] names at most: a thousand that wait for a thousand would make a long answer.
pub const WAITS_FOR_MAX: usize = 8;

/// A process's claim: its use of one device at one stream priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its slot in the arbiter page, which `set --claim` takes.
    pub slot: u32,
    /// The device, as `0000:c1:00.0`, with the partition behind a slash unless it is 0.
    pub device: String,
    /// Its scheduling parameters, if some were set for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Parameters>,
    /// How much more urgent its streams are than the process.
    pub stream_priority: i32,
    /// Its level; 0 is the most urgent.
    pub level: u64,
    /// It has work.
    pub ready: bool,
    /// A more urgent claim of its device has work.
    pub suspended: bool,
    /// While it has work and is suspended: the slots of the claims that go first, at most [`WAITS_FOR_MAX`]. These have work, at
    /// the most urgent level of its device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<u32>,
    /// No other claim is open on its device. Its process then tracks none of its commands, so it reports neither
    /// whether it has work nor what it uses.
    pub alone: bool,
    /// Part of the device's time that its work took in the last one to two seconds.
    pub device_share: f64,
    /// Device time of its work so far, as its process reports it.
    pub device_ns: u64,
    /// The same by library, the largest first; empty if the caller may not see it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// Commands launched.
    pub launched: u64,
    /// Commands deferred before they were launched.
    pub deferred: u64,
    /// For how long something was deferred.
    pub suspended_ns: u64,
    /// If its process has an SLO: that percentile of the latencies of its latest requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
}

/// A claim's device time for one library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The library's file name; `[unknown]`, or `[others]` for all those beyond the limit of numbers.
    pub library: String,
    /// Part of the device's time that its work took in the last one to two seconds.
    pub device_share: f64,
    /// Device time of its work so far.
    pub device_ns: u64,
}

/// A process whose scheduling parameters were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Before.
    pub old: Parameters,
    /// Now.
    pub new: Parameters,
}

/// The shares of a device exceed 100 %, so all shrink in proportion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overpromised {
    /// The device, as in [`Claim`].
    pub device: String,
    /// The sum of the shares of all processes with claims there, now or if another joined.
    pub percent: u32,
}

/// The verdicts on a process's calls so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// Its id.
    pub pid: u32,
    /// The set that follows the file's own rules.
    pub profile: String,
    /// The file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The calls, by function and chain.
    pub sites: Vec<Place>,
    /// How many more there are than listed.
    pub left_out: u64,
    /// Calls of all processes that got the default because their chain was unknown, by cause.
    pub losses: Vec<(String, u64)>,
}

/// Calls of one function with one chain, and the verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The HIP function.
    pub api: String,
    /// The kernel, where rules ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The library to which the call belongs.
    pub origin: String,
    /// Innermost first, each `library:function`.
    pub chain: Vec<String>,
    /// The chain has all frames.
    pub whole: bool,
    /// `schedule`, `passthrough` or `never-suspend`.
    pub action: String,
    /// The highest preemption mode; 0: no limit.
    pub level: u8,
    /// What gave the verdict.
    pub by: By,
    /// It depends on the immediate caller only, so the process keeps it for the call site.
    pub kept_by_call_site: bool,
    /// How many chains have these names.
    pub chains: u64,
}

/// What gave a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
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
