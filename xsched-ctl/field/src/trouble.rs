//! Why a measurement has no result. The report says it; the kit goes on with the next step.

use std::io;

/// What became of a measurement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("cannot start {name}: {cause}")]
    NotStarted {
        name: String,
        #[source]
        cause: io::Error,
    },
    /// What it needs is not on this node: the step is skipped.
    #[error("{0}")]
    Absent(String),
    #[error("{name}: {error}")]
    Failed { name: String, error: String },
    #[error("{name} {status}{}{}", in_call(.trying.as_ref()), quoted(.said))]
    Ended { name: String, status: String, trying: Option<String>, said: String },
    #[error("{name} has taken too long{}{}", in_call(.trying.as_ref()), quoted(.said))]
    Silent { name: String, trying: Option<String>, said: String },
    #[error("the controller ended meanwhile{}", quoted(.0))]
    ControllerEnded(String),
    #[error("{name} did not join the controller, so it was not scheduled")]
    NotJoined { name: String },
    #[error("no controller: {0}")]
    NoController(String),
    #[error("{what}: {cause}")]
    Io {
        what: &'static str,
        #[source]
        cause: io::Error,
    },
}

impl Trouble {
    /// For `map_err`: names the operation.
    pub(crate) fn at(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { what, cause }
    }
}

fn in_call(trying: Option<&String>) -> String {
    trying.map(|call| format!(" in `{call}`")).unwrap_or_default()
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}
