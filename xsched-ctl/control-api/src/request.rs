//! What a command asks of the controller.

use serde::{Deserialize, Serialize};

use crate::standing::Wish;

/// Longest line that the controller takes: the path of a cgroup of 4096 bytes, each written as JSON may write it, and some more.
pub const REQUEST_LEN_MAX: usize = 32 << 10;

/// Longest line that a command takes.
pub const ANSWER_LEN_MAX: usize = 64 << 20;

/// What is asked. Who asks is known by the credentials of the connection.
///
/// None of them is without braces: of those without, serde takes fields that there are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How the controller is.
    Status {},
    /// Which processes there are, and how they stand.
    List {},
    /// Something is to stand otherwise.
    Set {
        /// What.
        target: Target,
        /// How. Nothing: as rules and hints have it.
        wish: Wish,
    },
    /// Another policy, by name; none: which one it is.
    Policy {
        /// Its name.
        #[serde(default)]
        name: Option<String>,
    },
    /// Nobody is to be held back.
    Off {},
    /// The opposite.
    On {},
    /// A command is to be run, and it and its children are to stand so, for as long as this connection lasts.
    Run {
        /// How.
        wish: Wish,
        /// What the command carries in its environment: 32 hexadecimal digits that nobody else can guess.
        token: String,
    },
    /// What was decided about a process's calls, and why.
    Explain {
        /// The process, in the controller's pid namespace.
        pid: u32,
    },
    /// Whether processes with the token of this connection have joined.
    Joined {},
}

impl Request {
    /// Whether something may be otherwise afterwards, so that the account has it also when it is allowed.
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

/// What is to stand otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A process, in the controller's pid namespace.
    Pid(u32),
    /// All processes of a cgroup and of those below it, now and later.
    Cgroup(String),
    /// One queue, as `list` names it: the streams of one priority of one process on one device.
    Queue(u32),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Cgroup(cgroup) => write!(f, "cgroup {cgroup}"),
            Self::Queue(slot) => write!(f, "queue {slot}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
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
    fn what_is_not_known_is_refused() {
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
