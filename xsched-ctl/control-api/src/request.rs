//! The requests that commands send to the controller.

use serde::{Deserialize, Serialize};

use crate::parameters::Wish;

/// Longest line that the controller accepts: the path of a cgroup of 4096 bytes, with each byte escaped as JSON allows,
/// and some more.
pub const REQUEST_LEN_MAX: usize = 32 << 10;

/// Longest line that a command accepts.
pub const ANSWER_LEN_MAX: usize = 64 << 20;

/// A request. The caller is identified by the credentials of the connection.
///
/// Every variant has braces: serde accepts unknown fields for variants without any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The controller's state.
    Status {},
    /// The processes, and their scheduling parameters.
    List {},
    /// Changes scheduling parameters.
    Set {
        /// Of what.
        target: Target,
        /// The new values. None: as rules and hints say.
        wish: Wish,
    },
    /// Sets the policy by name; none: asks for the current one.
    Policy {
        /// Its name.
        #[serde(default)]
        name: Option<String>,
    },
    /// Nothing is to be deferred any more.
    Off {},
    /// The opposite.
    On {},
    /// A command is about to run. It and its children get these parameters while this connection lasts.
    Run {
        /// The parameters.
        wish: Wish,
        /// The token in the command's environment: 32 hexadecimal digits that cannot be guessed.
        token: String,
    },
    /// The verdicts on a process's calls, and the reasons.
    Explain {
        /// The process, in the controller's pid namespace.
        pid: u32,
    },
    /// Whether processes with the token of this connection have joined.
    Joined {},
}

impl Request {
    /// Whether it may change something, so that the audit log has it even if it is allowed.
    pub fn is_change(&self) -> bool {
        match self {
            Self::Status {}
            | Self::List {}
            | Self::Policy { name: None }
            | Self::Explain { .. }
            | Self::Joined {} => false,
            Self::Set { .. }
            | Self::Policy { name: Some(_) }
            | Self::Off {}
            | Self::On {}
            | Self::Run { .. } => true,
        }
    }
}

/// What a change of parameters applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A process, in the controller's pid namespace.
    Pid(u32),
    /// All processes of a cgroup and of those below it, now and later.
    Cgroup(String),
    /// One claim, as `list` numbers it: the streams of one priority of one process on one device.
    #[serde(rename = "queue")]
    Claim(u32),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Cgroup(cgroup) => write!(f, "cgroup {cgroup}"),
            Self::Claim(slot) => write!(f, "claim {slot}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_serialization() {
        let wish = Wish { priority: Some(-3), ..Wish::default() };
        for request in [
            Request::Status {},
            Request::Set { target: Target::Pid(7), wish },
            Request::Set { target: Target::Cgroup("/a".into()), wish: Wish::default() },
            Request::Policy { name: None },
            Request::Run { wish, token: "00".into() },
        ] {
            let line = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request, "{line}");
        }
    }

    #[test]
    fn unknown_fields_and_verbs_are_refused() {
        for line in [
            r#"{"verb":"Status"}"#,
            r#"{"verb":"status","force":true}"#,
            r#"{"verb":"set","target":{"pid":1},"wish":{"prio":3}}"#,
            r#"{"verb":"set","target":{"pid":-1},"wish":{}}"#,
            r#"{"verb":"set","target":{"pid":1},"wish":{"priority":99999}}"#,
            "7",
        ] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
    }
}
