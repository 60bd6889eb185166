//! Whether a controller is running, and its state.

use xsched_control_api::answer::{Answer, List, PageKeeper, Sight, State, Status};
use xsched_control_api::client::{AskError, ask};
use xsched_control_api::request::Request;
use xsched_protocol::shim_status::{CudaStatus, ShimScheduling, ShimState, ShimStatus};
use xsched_terminal::counted;
use xsched_tracer::why_not_joined;

use super::{Finding, Verdict};

/// Asks the controller for its state.
pub(super) async fn finding() -> Finding {
    describe(ask(&Request::Status {}).await)
}

fn describe(answer: Result<Answer, AskError>) -> Finding {
    let name = "controller";
    match answer {
        Ok(Answer::Status(status)) => {
            let (verdict, advice) = match (status.state, status.keeper) {
                (State::Off, _) => (Verdict::Reduced, "nothing is suspended; `xsched-ctl on` changes that"),
                (State::Observing, _) => {
                    (Verdict::Reduced, "nothing is suspended: it was started with --observe")
                }
                (State::Active, PageKeeper::Programs) if status.sight == Sight::Chains => {
                    (Verdict::Found, "")
                }
                (State::Active, PageKeeper::Programs) => {
                    (Verdict::Reduced, "rules see immediate callers only: its log says what is missing")
                }
                (State::Active, PageKeeper::Controller) => (
                    Verdict::Reduced,
                    "reports are slower, and depend on the controller: run it as root, without `--no-bpf`",
                ),
            };
            Finding { name, verdict, value: describe_status(&status), advice }
        }
        Err(AskError::NoController) => Finding {
            name,
            verdict: Verdict::Unknown,
            value: "none is running; tracing does not need one".to_owned(),
            advice: "`sudo xsched-ctl serve` starts one, for scheduling",
        },
        Ok(_) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: "it is of another version".to_owned(),
            advice: "restart it",
        },
        Err(error) => Finding {
            name,
            verdict: Verdict::Reduced,
            value: error.to_string(),
            advice: "`xsched-ctl off --force` ends one that hangs; then start it again",
        },
    }
}

fn describe_status(status: &Status) -> String {
    let Status { pid, state, policy, keeper, sight, counts, .. } = status;
    let outdated = match counts.outdated {
        0 => String::new(),
        count => format!(", {count} refused because their shim is of another version"),
    };
    let again = match counts.answered_again {
        0 => String::new(),
        count => format!(", {count} verdicts given again after eviction"),
    };
    format!(
        "process {pid}, {state}, policy {policy}, page kept by {keeper}, rules see {sight}, {} joined so far{outdated}{again}",
        counted(counts.joined, "process", "processes")
    )
}

/// What a shim says of itself, whichever runtime it is for: a [`ShimState`] and a [`ShimScheduling`].
#[derive(Clone, Copy)]
pub(super) struct Account {
    state: u32,
    scheduling: u32,
}

impl From<&ShimStatus> for Account {
    fn from(&ShimStatus { state, scheduling, .. }: &ShimStatus) -> Self {
        Self { state, scheduling }
    }
}

impl From<&CudaStatus> for Account {
    fn from(&CudaStatus { state, scheduling, .. }: &CudaStatus) -> Self {
        Self { state, scheduling }
    }
}

/// A line about whether a process has joined: the word, and the details.
pub(super) async fn joined(pid: u32, status: Account) -> (&'static str, String) {
    match ask(&Request::List {}).await {
        Ok(Answer::List(list)) => describe_joined(&list, pid, |pid| {
            own_reason(status)
                .map(str::to_owned)
                .or_else(|| why_not_joined(pid))
                .unwrap_or_else(|| other_reason(status).to_owned())
        }),
        Ok(_) => ("unknown", "the controller is of another version".to_owned()),
        Err(error) => ("unknown", error.to_string()),
    }
}

/// Why a process does not join, by its own account.
fn own_reason(status: Account) -> Option<&'static str> {
    let is = |what: ShimScheduling| status.scheduling == what as u32;
    if status.state == ShimState::Disabled as u32 {
        Some("XSCHED_DISABLE is set for it")
    } else if is(ShimScheduling::Version) {
        Some(
            "its shim is of another version than the controller: install both from one build, and start it again",
        )
    } else if is(ShimScheduling::Full) {
        Some(
            "the controller has no room for it: its user or container has reached a limit, which the controller's log names",
        )
    } else if is(ShimScheduling::Refused) {
        Some("the controller has refused it, for a packet that it did not understand")
    } else if is(ShimScheduling::Itself) {
        Some("it schedules its own streams (XSCHED_SCHEDULER=LCL)")
    } else if is(ShimScheduling::Nothing) {
        Some("nothing is to schedule it (XSCHED_SCHEDULER=APP)")
    } else {
        None
    }
}

/// The same where nothing else is known.
fn other_reason(status: Account) -> &'static str {
    if status.scheduling == ShimScheduling::NoController as u32 {
        "it finds no controller that it trusts, and looks again every second"
    } else if status.scheduling == ShimScheduling::Controller as u32 {
        "it has joined another controller"
    } else {
        "it joins when it first uses a device"
    }
}

fn describe_joined(list: &List, pid: u32, why_not: impl Fn(u32) -> String) -> (&'static str, String) {
    match list.processes.iter().find(|process| process.pid == pid) {
        None => ("absent", format!("the process has not joined: {}", why_not(pid))),
        Some(process) => {
            let heard = match process.reports {
                PageKeeper::Programs => "by BPF programs",
                PageKeeper::Controller => "over the socket",
            };
            (
                "joined",
                format!(
                    "{}, {}, reports {heard}",
                    process.parameters,
                    counted(process.claims.len() as u64, "claim", "claims")
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use xsched_control_api::answer::{Counts, From, Process};
    use xsched_control_api::parameters::Parameters;

    use super::*;

    fn status(state: State, keeper: PageKeeper) -> Status {
        Status {
            version: String::new(),
            pid: 7,
            uid: 0,
            state,
            policy: "fair".to_owned(),
            settings: xsched_control_api::answer::Settings::default(),
            keeper,
            sight: Sight::Chains,
            uptime_ns: 0,
            counts: Counts { joined: 3, ..Counts::default() },
        }
    }

    #[test]
    fn an_active_controller_is_fine_and_others_have_advice() {
        let of = |state, keeper| describe(Ok(Answer::Status(status(state, keeper))));
        let fine = of(State::Active, PageKeeper::Programs);
        assert!(fine.verdict == Verdict::Found);
        assert_eq!(
            fine.value,
            "process 7, active, policy fair, page kept by BPF programs, rules see whole call chains, 3 processes joined so far"
        );
        let mut outdated = status(State::Active, PageKeeper::Programs);
        outdated.counts.outdated = 2;
        let outdated = describe(Ok(Answer::Status(outdated)));
        assert!(
            outdated
                .value
                .ends_with("3 processes joined so far, 2 refused because their shim is of another version")
        );
        for reduced in [
            of(State::Off, PageKeeper::Programs),
            of(State::Active, PageKeeper::Controller),
            describe(Ok(Answer::Status(Status {
                sight: Sight::Callers,
                ..status(State::Active, PageKeeper::Programs)
            }))),
            describe(Err(AskError::Silent { pid: 7 })),
            describe(Err(AskError::NoController)),
        ] {
            assert!(reduced.verdict != Verdict::Found && !reduced.advice.is_empty(), "{}", reduced.value);
        }
    }

    #[test]
    fn a_process_has_joined_or_not() {
        let process = Process {
            pid: 11,
            uid: 0,
            user: String::new(),
            command: String::new(),
            cgroup: String::new(),
            pod: None,
            parameters: Parameters::default(),
            class: String::new(),
            from: From::Default,
            reports: PageKeeper::Controller,
            claims: Vec::new(),
        };
        let controller = status(State::Active, PageKeeper::Programs);
        let list = List { controller, devices: Vec::new(), processes: vec![process] };
        let expected = "priority 0 (normal), weight 100, 0 claims, reports over the socket";
        assert_eq!(describe_joined(&list, 11, |_| unreachable!()), ("joined", expected.to_owned()));
        let why = "the process has not joined: no controller is in /x of its container";
        let because = |_| String::from("no controller is in /x of its container");
        assert_eq!(describe_joined(&list, 12, because), ("absent", why.to_owned()));
    }
}
