//! The verbs that order the controller about: `set`, `policy`, `off`, `on`.

use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cli;
use crate::control::answer::Answer;
use crate::control::client::{AskError, Controller, ask};
use crate::control::request::{Request, Target};
use crate::failure::Failure;
use crate::say::print;

/// How long `off` waits for a controller that may hang. Nobody is held back any more after the 100 ms of silence that the
/// arbiter allows, whatever is answered.
const OFF_PATIENCE: Duration = Duration::from_millis(500);

/// `xsched-ctl set`.
pub(crate) async fn set(arguments: cli::Set) -> Result<u8, Failure> {
    let cli::Set { pid, cgroup, queue, standing, reset: _, json } = arguments;
    let target = pid
        .map(Target::Pid)
        .or(cgroup.map(Target::Cgroup))
        .or(queue.map(Target::Queue))
        .ok_or_else(|| Failure::Usage("say whom: --pid, --cgroup or --queue".to_owned()))?;
    let answer = ask(&Request::Set { target: target.clone(), wish: standing.wish() }).await?;
    if json {
        return printed(&as_json(&answer));
    }
    let Answer::Set { changed } = answer else { return Err(strange(&answer)) };
    if changed.is_empty() {
        return printed(&format!("noted for {target}; nobody there has joined yet\n"));
    }
    let lines = changed.iter().map(|process| {
        format!("{} ({}): {}; was {}\n", process.pid, process.command, process.new, process.old)
    });
    printed(&lines.collect::<String>())
}

/// `xsched-ctl policy`.
pub(crate) async fn policy(arguments: cli::Policy) -> Result<u8, Failure> {
    let answer = ask(&Request::Policy { name: arguments.name.map(|policy| policy.to_string()) }).await?;
    if arguments.json {
        return printed(&as_json(&answer));
    }
    let Answer::Policy { policy, was } = answer else { return Err(strange(&answer)) };
    let change = if policy == was { policy } else { format!("{policy}; was {was}") };
    printed(&format!("{change}\n"))
}

/// `xsched-ctl on`.
pub(crate) async fn on(arguments: cli::On) -> Result<u8, Failure> {
    let answer = ask(&Request::On {}).await?;
    if arguments.json {
        return printed(&as_json(&answer));
    }
    let Answer::State { state, was } = answer else { return Err(strange(&answer)) };
    printed(&format!("{state}; was {was}\n"))
}

/// `xsched-ctl off`.
pub(crate) async fn off(arguments: cli::Off) -> Result<u8, Failure> {
    let started = Instant::now();
    let mut controller = match Controller::connect().await {
        Ok(controller) => controller,
        Err(AskError::NoController) => {
            // What was wanted holds already, and a script need not know whether it was so before.
            let json = serde_json::json!({ "answer": "state", "state": "off", "controller": false });
            return printed(&if arguments.json {
                format!("{json}\n")
            } else {
                "off: no controller is running, so nobody is held back\n".to_owned()
            });
        }
        Err(error) => return Err(error.into()),
    };
    match controller.ask_within(&Request::Off {}, OFF_PATIENCE).await {
        Ok(answer) if arguments.json => printed(&as_json(&answer)),
        Ok(Answer::State { state, was }) => {
            let ms = started.elapsed().as_secs_f64() * 1e3;
            printed(&format!("{state}; was {was}; released in {ms:.1} ms\n"))
        }
        Ok(answer) => Err(strange(&answer)),
        Err(AskError::Silent { pid }) if arguments.force => {
            kill(pid)?;
            let json = serde_json::json!({ "answer": "killed", "pid": pid });
            printed(&if arguments.json {
                format!("{json}\n")
            } else {
                format!("the controller (process {pid}) did not answer and was killed: nobody is held back\n")
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Kills a controller that does not answer.
fn kill(pid: u32) -> Result<(), Failure> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Err(Failure::Usage("the controller is in another pid namespace: kill it there".to_owned()));
    };
    pidfd_open(pid, PidfdFlags::empty())
        .and_then(|controller| pidfd_send_signal(controller, Signal::KILL))
        .map_err(|error| Failure::Internal { what: "killing the controller", cause: error.into() })
}

/// Prints what a verb has to say, which ends it; returns the exit code.
fn printed(text: &str) -> Result<u8, Failure> {
    print(text).map(|_| 0)
}

/// An answer as a line of JSON.
pub(crate) fn as_json(answer: &Answer) -> String {
    serde_json::to_string(answer).expect("answers have no maps with odd keys") + "\n"
}

/// The controller has answered something else than what was asked.
pub(crate) fn strange(answer: &Answer) -> Failure {
    AskError::Strange(format!("{answer:?}")).into()
}
