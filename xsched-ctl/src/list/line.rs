//! What is shown of a claim, in words: `list` prints it, `top` draws it.

use xsched_control_api::{
    answer::{Claim, From, Process, State, Status},
    parameters::{Class, WEIGHT_DEFAULT},
};
use xsched_terminal::{duration, short_name};

/// A claim of a process, or a process that has none. Names are shortened, and not yet safe for a terminal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) command: String,
    pub(crate) user: String,
    pub(crate) device: Option<String>,
    /// The class with its priority, and what else the policy heeds.
    pub(crate) parameters: String,
    /// Where they come from.
    pub(crate) from: String,
    pub(crate) state: Option<&'static str>,
    pub(crate) pid: u32,
    pub(crate) slot: Option<u32>,
    pub(crate) level: Option<u64>,
    /// None if it is unknown, as of claims that are not tracked.
    pub(crate) device_share: Option<f64>,
    /// None if nothing was deferred yet.
    pub(crate) suspended_ns: Option<u64>,
}

impl Line {
    pub(crate) fn of(status: &Status, process: &Process, claim: Option<&Claim>) -> Self {
        let of_claim = claim.and_then(|claim| claim.parameters);
        let (parameters, from) = of_claim.map_or((process.parameters, process.from), |own| (own, From::Set));
        let controller = status.state;
        let policy = status.policy.parse().unwrap_or_default();
        let heeded = parameters.heeded_by(policy);
        let reservations = heeded.reservations();
        let class = format!("{} {}", Class::of(parameters.priority), parameters.priority);
        let parameters = match (parameters.share, parameters.weight) {
            (Some(share), _) => format!("{class}, {share} %"),
            (None, WEIGHT_DEFAULT) => class,
            (None, weight) => format!("{class}, x{weight}"),
        };
        let latency = claim.filter(|_| heeded.slo.is_some()).and_then(|claim| claim.latency_ns);
        let now = latency.map(|latency| format!(" (now {})", duration(Some(latency))));
        let is_followed = |claim: &&Claim| !claim.alone && controller != State::Off;
        let measured = claim.filter(|claim| is_followed(claim) || claim.device_share >= 0.005);
        Self {
            command: named(process),
            user: process.user.clone(),
            device: claim.map(|claim| claim.device.clone()),
            parameters: parameters + &reservations + &now.unwrap_or_default(),
            from: from.to_string(),
            state: claim.map(|claim| state(claim, controller)),
            pid: process.pid,
            slot: claim.map(|claim| claim.slot),
            level: claim.map(|claim| claim.level),
            device_share: measured.map(|claim| claim.device_share),
            suspended_ns: claim.map(|claim| claim.suspended_ns).filter(|&ns| ns > 0),
        }
    }
}

/// The name of a process, with its pod.
pub(crate) fn named(process: &Process) -> String {
    let command = short_name(if process.command.is_empty() { "-" } else { &process.command });
    process.pod.as_ref().map_or_else(|| command.clone(), |pod| format!("{command} ({pod})"))
}

fn state(claim: &Claim, controller: State) -> &'static str {
    match (claim.ready, claim.suspended) {
        (false, _) if claim.alone => "alone",
        // A process that was connected while the controller observed still reports work, but that has no effect while
        // it is off.
        _ if controller == State::Off => "free",
        (true, true) if controller == State::Observing => "would wait",
        (true, true) => "suspended",
        (true, false) => "ready",
        (false, _) => "idle",
    }
}
