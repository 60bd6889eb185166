//! The verbs that change the controller's state: `set`, `policy`, `off`, `on`.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use xsched_control_api::{
    answer::{Answer, Overpromised, Reason, State},
    client::{AskError, Controller, ask},
    parameters::Wish,
    peer::Peer,
    request::{Request, Target},
};
use xsched_sched::PolicyKind;
use xsched_terminal::{Internal, print, say};

use crate::cgroup;
use crate::cli;
use crate::failure::Failure;

/// How long `off` waits for a controller that may hang. After 100 ms without a heartbeat no process is deferred,
/// whatever the answer is.
const OFF_PATIENCE: Duration = Duration::from_millis(500);

/// How long a killed controller may take to end.
const DEATH: Duration = Duration::from_secs(2);

pub(crate) async fn set(arguments: cli::Set) -> Result<u8, Failure> {
    let cli::Set { pid, cgroup, claim, parameters, reset: _, json } = arguments;
    let target = pid
        .map(Target::Pid)
        .or(cgroup.map(Target::Cgroup))
        .or(claim.map(Target::Claim))
        .ok_or_else(|| Failure::Usage("give --pid, --cgroup or --claim".to_owned()))?;
    let wish = parameters.wish();
    let mut controller = Controller::connect().await?;
    let answer = controller.ask(&Request::Set { target: target.clone(), wish }).await?;
    if json {
        return printed(&answer.to_line());
    }
    let Answer::Set { changed } = answer else { return Err(strange(&answer)) };
    tell_worth(&mut controller, wish, None).await;
    if let Target::Cgroup(name) = &target
        && !wish.is_empty()
        && cgroup::is_missing(name)
    {
        say!("note: there is no cgroup {name} on this machine: the setting applies once it exists");
    }
    if changed.is_empty() {
        return printed(&format!("noted for {target}; no process there has joined yet\n"));
    }
    let lines = changed.iter().map(|process| {
        format!("{} ({}): {}; was {}\n", process.pid, process.command, process.new, process.old)
    });
    printed(&lines.collect::<String>())
}

/// Tells the user the effect of a wish under the current policy. `overpromised`: with this command's, the shares of that
/// device would come to more than 100 %.
pub(crate) async fn tell_worth(controller: &mut Controller, wish: Wish, overpromised: Option<&Overpromised>) {
    if wish.is_empty() {
        return;
    }
    // The request has succeeded: if the controller does not answer now, that is not reported.
    if let Ok(Answer::Policy { policy, .. }) = controller.ask(&Request::Policy { name: None }).await
        && let Ok(policy) = policy.parse::<PolicyKind>()
    {
        for line in worth(wish, policy, overpromised) {
            say!("{line}");
        }
    }
}

/// Which parts of a wish have no effect under a policy, and the effective part of a share where it has one.
pub(crate) fn worth(wish: Wish, policy: PolicyKind, overpromised: Option<&Overpromised>) -> Vec<String> {
    let unheeded = wish.unheeded(policy).map(|note| format!("note: {note}"));
    let diluted = match (wish.share, overpromised) {
        (Some(share), Some(overpromised)) if policy == PolicyKind::Partition => {
            Some(excess_share_warning(share, overpromised))
        }
        _ => None,
    };
    unheeded.chain(diluted).collect()
}

/// The effective part of a share if the shares of a device exceed 100 %.
fn excess_share_warning(share: u8, Overpromised { device, percent }: &Overpromised) -> String {
    format!(
        "warning: shares of {device} with this command's would come to {percent} %, so all shrink in proportion: {share} % is {:.0} % while all have work",
        f64::from(share) * 100.0 / f64::from(*percent)
    )
}

pub(crate) async fn policy(arguments: cli::Policy) -> Result<u8, Failure> {
    let answer = ask(&Request::Policy { name: arguments.name.map(|policy| policy.to_string()) }).await?;
    if arguments.json {
        return printed(&answer.to_line());
    }
    let Answer::Policy { policy, was, turned } = answer else { return Err(strange(&answer)) };
    printed(&format!("{}\n", chosen(&policy, &was, turned)))
}

/// A choice of policy, in words.
pub(crate) fn chosen(policy: &str, was: &str, turned: Option<State>) -> String {
    let change = if policy == was { policy.to_owned() } else { format!("{policy}; was {was}") };
    match turned {
        Some(state) => format!("{change}; {state} again, was off"),
        None => change,
    }
}

pub(crate) async fn on(arguments: cli::On) -> Result<u8, Failure> {
    let answer = ask(&Request::On {}).await?;
    if arguments.json {
        return printed(&answer.to_line());
    }
    let Answer::State { state, was } = answer else { return Err(strange(&answer)) };
    printed(&format!("{state}; was {was}\n"))
}

pub(crate) async fn off(arguments: cli::Off) -> Result<u8, Failure> {
    let started = Instant::now();
    let mut controller = match Controller::connect().await {
        Ok(controller) => controller,
        Err(AskError::NoController) => {
            // Scheduling is off already; a script need not distinguish the cases.
            let json = serde_json::json!({ "answer": "state", "state": "off", "controller": false });
            return printed(&if arguments.json {
                format!("{json}\n")
            } else {
                "off: no controller is running, so nothing is suspended\n".to_owned()
            });
        }
        Err(AskError::Crowded { folder }) if arguments.force => {
            let holder = Peer::of_lock(&folder.lock());
            let holder = holder.ok_or(AskError::Crowded { folder })?;
            return killed(&holder, arguments.json);
        }
        Err(error) => return Err(error.into()),
    };
    match controller.ask_within(&Request::Off {}, OFF_PATIENCE).await {
        Ok(answer) if arguments.json => printed(&answer.to_line()),
        Ok(Answer::State { state, was }) => {
            let ms = started.elapsed().as_secs_f64() * 1e3;
            printed(&format!("{state}; was {was}; released in {ms:.1} ms\n"))
        }
        Ok(answer) => Err(strange(&answer)),
        Err(AskError::Silent { .. }) if arguments.force => killed(&controller.peer, arguments.json),
        Err(error) => Err(error.into()),
    }
}

/// Kills a controller that does not answer, and prints that.
fn killed(controller: &Peer, is_json: bool) -> Result<u8, Failure> {
    kill(controller)?;
    let pid = controller.pid;
    let json = serde_json::json!({ "answer": "killed", "pid": pid });
    printed(&if is_json {
        format!("{json}\n")
    } else {
        format!(
            "the controller (process {pid}) did not answer and was killed: nothing is suspended, unless a service manager starts \
             another\n"
        )
    })
}

/// Kills a controller that does not answer.
fn kill(controller: &Peer) -> Result<(), Failure> {
    let pid = i32::try_from(controller.pid).ok().and_then(Pid::from_raw);
    // Not by its id, which may have been reused.
    let (Some(pid), Some(process)) = (pid, controller.pidfd()) else {
        return Err(AskError::Silent { pid: 0 }.into());
    };
    let killed = pidfd_send_signal(process, Signal::KILL).and_then(|()| {
        // Only after its end the claimed folder is free for the next one.
        let end = Timespec { tv_sec: DEATH.as_secs() as i64, tv_nsec: 0 };
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&end))
    });
    match killed {
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(not_killed(pid, error)),
    }
}

fn not_killed(pid: Pid, error: Errno) -> Failure {
    if error != Errno::PERM {
        return Internal::at("killing the controller")(error.into()).into();
    }
    let pid = pid.as_raw_nonzero();
    let message = format!("the controller (process {pid}) does not answer, and belongs to another user");
    AskError::Refused { reason: Reason::NotPermitted, message }.into()
}

/// Prints the output of a verb, which ends it; returns the exit code.
fn printed(text: &str) -> Result<u8, Failure> {
    Ok(print(text).map(|_| 0)?)
}

/// The controller has given an unexpected answer.
pub(crate) fn strange(answer: &Answer) -> Failure {
    AskError::Strange(format!("{answer:?}")).into()
}

#[cfg(test)]
mod tests {
    use xsched_terminal::{Advice as _, ExitCode};

    use super::*;

    #[test]
    fn a_policy_that_turns_scheduling_on_is_reported() {
        assert_eq!(chosen("fair", "fair", None), "fair");
        assert_eq!(chosen("fair", "priority", None), "fair; was priority");
        assert_eq!(chosen("fair", "fair", Some(State::Active)), "fair; active again, was off");
    }

    #[test]
    fn an_excess_share_is_reported_under_partition_only() {
        let overpromised = Overpromised { device: "0000:01:00.0".to_owned(), percent: 150 };
        let wish = Wish { share: Some(75), ..Wish::default() };
        let told = |policy| worth(wish, policy, Some(&overpromised));
        assert_eq!(
            told(PolicyKind::Partition),
            [
                "warning: shares of 0000:01:00.0 with this command's would come to 150 %, so all shrink in proportion: 75 % is 50 % while all have work"
            ]
        );
        let unheeded = "note: policy `fair` ignores shares; `xsched-ctl policy partition` uses them";
        assert_eq!(told(PolicyKind::Fair), [unheeded], "it is not repeated");
        assert_eq!(worth(wish, PolicyKind::Partition, None), [""; 0]);
    }

    #[test]
    fn a_killed_controller_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        kill(&Peer::by_pid(child.id(), 0).unwrap()).unwrap();
        assert!(child.try_wait().unwrap().is_some());
    }

    #[test]
    fn a_controller_in_another_pid_namespace_must_be_ended_there() {
        let failure = kill(&Peer::unknown(0, 0)).unwrap_err();
        assert_eq!(failure.to_string(), "the controller (in another pid namespace) does not answer");
        let hint = failure.hint().unwrap();
        assert!(hint.contains("`xsched-ctl off --force` ends it where it runs"), "{hint}");
        assert_eq!(failure.exit_code(), ExitCode::Unavailable);
    }

    #[test]
    fn another_users_controller_is_not_an_internal_error() {
        let failure = not_killed(Pid::INIT, Errno::PERM);
        assert_eq!(failure.exit_code(), ExitCode::NotPermitted);
        assert!(failure.hint().is_some());
        assert_eq!(not_killed(Pid::INIT, Errno::NOSYS).exit_code(), ExitCode::Software);
    }
}
