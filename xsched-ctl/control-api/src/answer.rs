//! What the controller answers. These objects are also what `--json` prints; times are nanoseconds.

use serde::{Deserialize, Serialize};

use crate::standing::Standing;

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// How the controller is.
    Status(Status),
    /// Which processes there are.
    List(List),
    /// Something stands otherwise.
    Set {
        /// Processes that were there.
        changed: Vec<Changed>,
        /// A share was set, and shares come to more than a device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overpromised: Option<Overpromised>,
    },
    /// The policy, and the one before.
    Policy {
        /// Its name.
        policy: String,
        /// The name of the one before; the same if nothing was asked for.
        was: String,
        /// The controller was off, and is in this state for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turned: Option<State>,
    },
    /// The controller is in this state, and was in that.
    State {
        /// Now.
        state: State,
        /// Before.
        was: State,
    },
    /// The token is known from now on.
    Run {
        /// A share was asked for, and if the command used this device, shares of it would come to more than there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overpromised: Option<Overpromised>,
    },
    /// Processes with the token of this connection that have joined so far, their ids.
    Joined {
        /// Those that are still there.
        processes: Vec<u32>,
        /// How many there were.
        count: u64,
    },
    /// What was decided about a process's calls.
    Explained(Explained),
    /// It is not to be had.
    Refused {
        /// Of what sort the reason is.
        reason: Reason,
        /// The reason.
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

/// Why something is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The request makes no sense.
    Malformed,
    /// The user may not.
    NotPermitted,
    /// The user may, but not so far.
    AboveCeiling,
    /// There is no such process, queue or policy.
    NotFound,
    /// There is too much of it already.
    Full,
    /// The controller lacks what it takes, as it was started.
    Unavailable,
    /// Something failed.
    Failed,
}

/// Whether queues are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Yes.
    Active,
    /// The controller decides, and nobody is held back: it was started so.
    Observing,
    /// No, since somebody has said `off`.
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

/// Who writes the arbiter's page.
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
    /// The whole chain, which programs walk.
    Chains,
    /// The immediate caller, which processes find out themselves.
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

/// How the controller is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Of xsched-ctl.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Whether queues are held back.
    pub state: State,
    /// Who goes first.
    pub policy: String,
    /// Who writes the page.
    pub keeper: PageKeeper,
    /// What the rules see of a call.
    #[serde(default)]
    pub sight: Sight,
    /// Since it started.
    pub uptime_ns: u64,
    /// What has happened since then.
    pub counts: Counts,
}

/// What has happened since the controller started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Processes that have joined.
    pub joined: u64,
    /// Those among them whose reports no program hears.
    pub by_socket: u64,
    /// Queues opened.
    pub opened: u64,
    /// Levels changed.
    pub moved: u64,
    /// Processes that died or became another program with queues open.
    pub died: u64,
    /// Queues whose lease ran out.
    pub expired: u64,
    /// Connections ended because of a packet that made no sense.
    pub malformed: u64,
    /// Processes whose shim is of another version, which run unscheduled.
    #[serde(default)]
    pub outdated: u64,
    /// Connections ended because the process did not read, or said nothing.
    pub slow: u64,
    /// Connections and queues refused for want of room.
    pub full: u64,
    /// Reports about queues that were not the sender's or not there any more.
    pub refused: u64,
    /// Changes refused for want of permission.
    pub forbidden: u64,
    /// Changes of the page that failed.
    pub failed: u64,
    /// Mask repairs given up, as the page counts them.
    pub exhausted: u64,
    /// Answers about calls that were forgotten to make room, and had to be given again.
    pub answered_again: u64,
}

/// Which processes there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// How the controller is.
    pub controller: Status,
    /// By process id.
    pub processes: Vec<Process>,
}

/// A process that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its id in the controller's pid namespace; 0 if it has none there.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// The same by name, or the number.
    pub user: String,
    /// Its name; empty if whoever asks may not know it.
    pub command: String,
    /// Its cgroup, by which the container is known that it runs in; empty as above.
    #[serde(default)]
    pub cgroup: String,
    /// How it stands.
    pub standing: Standing,
    /// The name of its priority's class.
    pub class: String,
    /// Where its priority is from; if that is nobody's, the rest of its standing.
    pub from: From,
    /// How its reports come: heard by programs, or over the socket.
    pub reports: PageKeeper,
    /// Its queues.
    pub queues: Vec<Queue>,
}

/// Where a priority is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// Nobody has said anything.
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

/// A process's claim on a device, at one stream priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Its place in the page, which `set --queue` takes.
    pub slot: u32,
    /// The device, as `0000:c1:00.0`, with the partition behind a slash unless it is 0.
    pub device: String,
    /// How it stands, if something was set for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// How much more urgent than the process its streams are.
    pub stream_priority: i32,
    /// How urgent it is now; 0 is the most urgent.
    pub level: u64,
    /// It has work.
    pub ready: bool,
    /// A more urgent queue of its device has work.
    pub held: bool,
    /// No other queue is open on its device. Its process follows none of its commands then, so it does not say whether it has
    /// work, nor what it uses.
    pub alone: bool,
    /// Part of the device's time that its work took in the last second or so.
    pub device_share: f64,
    /// Device time of its work so far, as its process reports it.
    pub device_ns: u64,
    /// The same by the library that the calls belong to, the most first; empty if whoever asks may not know it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
    /// Commands launched.
    pub launched: u64,
    /// Commands held back before they were launched.
    pub held_back: u64,
    /// For how long something was held back.
    pub suspended_ns: u64,
}

/// What a queue does for one library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The library's file name; `[unknown]`, or `[others]` for all those that the process could not tell apart any more.
    pub library: String,
    /// Part of the device's time that its work took in the last second or so.
    pub device_share: f64,
    /// Device time of its work so far.
    pub device_ns: u64,
}

/// A process that stands otherwise than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Before.
    pub old: Standing,
    /// Now.
    pub new: Standing,
}

/// More of a device is promised than there is, so that all parts of it shrink in proportion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overpromised {
    /// The device, as in [`Queue`].
    pub device: String,
    /// What the shares of all processes with queues there come to, or would come to.
    pub percent: u32,
}

/// What the rules have said of a process's calls so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// Its id.
    pub pid: u32,
    /// The set that follows the file's own rules.
    pub profile: String,
    /// The file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where calls were made.
    pub sites: Vec<Place>,
    /// More of them than are listed.
    pub left_out: u64,
    /// Calls of all processes that got the default for want of a chain, by cause.
    pub losses: Vec<(String, u64)>,
}

/// Calls of one function with one chain, and what was decided.
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
    /// The highest level of preemption; 0: no limit.
    pub level: u8,
    /// Who says so.
    pub by: By,
    /// The immediate caller has decided it, so the process need not ask again.
    pub kept_by_call_site: bool,
    /// How many chains have these names.
    pub chains: u64,
}

/// Who has decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// No rule fits.
    Nobody,
    /// A library on the chain has said what its calls are.
    Domain,
    /// A rule.
    Rule {
        /// Counted from 1 over all rules.
        number: u32,
        /// What it is called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The set that it is in; none: the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<String>,
        /// Its line there.
        line: usize,
    },
}
