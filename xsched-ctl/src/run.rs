//! `xsched-ctl run`: runs a command with the shim, under the controller.

mod environment;
mod watch;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Child;
use xsched_control_api::{
    answer::{Answer, Overpromised},
    client::{AskError, Controller, ask},
    parameters::Wish,
    request::Request,
};
use xsched_terminal::{Advice, Descriptors, ExitCode, Internal, Request as SignalRequest, Signals, say};

use crate::cli;
use crate::command;
use crate::failure::Failure;
use crate::order::tell_worth;
use environment::Token;

/// How long to wait before a controller that has gone is looked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long to wait at most after a controller has refused. Each refusal is a line in its log.
const AGAIN_MOST: Duration = Duration::from_mins(1);

/// Why a command is not run under the controller.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("no shim at {0}")]
    NoShim(PathBuf),
    #[error("{0} is no shared library, so it is not the shim")]
    NotAShim(PathBuf),
    #[error("the path of the shim has a space or a colon in it, at which the loader splits LD_PRELOAD: {0}")]
    ShimPath(PathBuf),
    #[error("cannot draw random numbers: {0}")]
    Random(#[source] io::Error),
}

impl Advice for RunError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoShim(_) => {
                "`cargo build --release` builds it next to xsched-ctl; `--shim FILE` gives another path"
                    .to_owned()
            }
            Self::NotAShim(_) => "give the path of libxsched_shim.so itself with `--shim FILE`".to_owned(),
            Self::ShimPath(_) => "copy it elsewhere, and give that path with `--shim FILE`".to_owned(),
            Self::Random(_) => return None,
        })
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoShim(_) | Self::NotAShim(_) | Self::ShimPath(_) => ExitCode::NoTarget,
            Self::Random(_) => ExitCode::Software,
        }
    }
}

pub(crate) async fn run(arguments: cli::Run, mut descriptors: Descriptors) -> Result<u8, Failure> {
    let shim = environment::find_shim(arguments.shim.as_deref())?;
    let token = Token::draw().map_err(RunError::Random)?;
    let wish = arguments.parameters.wish();
    if let Some(policy) = arguments.policy {
        ask(&Request::Policy { name: Some(policy.to_string()) }).await?;
    }
    let controller = match register(wish, &token).await {
        Ok((mut controller, overpromised)) => {
            tell_worth(&mut controller, wish, overpromised.as_ref()).await;
            Some(controller)
        }
        // An unscheduled command is not what was requested with a priority that is refused.
        Err(error @ AskError::Refused { .. }) => return Err(error.into()),
        Err(error) if arguments.require_controller => return Err(error.into()),
        Err(error) => {
            say!("xsched-ctl: {error}: the command runs unscheduled until there is one");
            None
        }
    };
    let had_controller = controller.is_some();
    let mut signals = Signals::catch()?;
    let mut prepared = command::prepare(&arguments.command);
    prepared
        .env("LD_PRELOAD", environment::preload(&shim))
        .env(environment::SANITIZER_VARIABLE, environment::sanitizer_options())
        .env(environment::TOKEN_VARIABLE, token.to_string());
    environment::warn_if_not_preloadable(&arguments.command[0]);
    let mut child = command::start(&mut prepared, &signals, &mut descriptors)?;
    let mut attendance = Attendance { wish, token, controller };
    let pid = child.id().unwrap_or(0);
    let code = tokio::select! {
        code = wait(&mut child, &mut signals) => code?,
        never = attendance.keep() => match never {},
        never = watch::warn_without_shim(pid, environment::why_without_cuda(&shim)) => match never {},
    };
    if arguments.json {
        let joined = attendance.count_joined().await;
        say!("{}", serde_json::json!({ "code": code, "controller": had_controller, "joined": joined }));
    }
    Ok(code)
}

/// Registers a token; also returns the device whose shares would exceed 100 %.
async fn register(wish: Wish, token: &Token) -> Result<(Controller, Option<Overpromised>), AskError> {
    let mut controller = Controller::connect().await?;
    match controller.ask(&Request::Run { wish, token: token.to_string() }).await? {
        Answer::Run { overpromised } => Ok((controller, overpromised)),
        answer => Err(AskError::Strange(format!("{answer:?}"))),
    }
}

/// Keeps the token registered while the command runs.
struct Attendance {
    wish: Wish,
    token: Token,
    controller: Option<Controller>,
}

impl Attendance {
    /// Registers again with each new controller.
    async fn keep(&mut self) -> std::convert::Infallible {
        let mut retry = Retry::default();
        loop {
            if let Some(controller) = &mut self.controller {
                controller.ended().await;
                (self.controller, retry) = (None, Retry::default());
            }
            tokio::time::sleep(retry.wait).await;
            match register(self.wish, &self.token).await {
                Ok((controller, _)) => self.controller = Some(controller),
                Err(error) if retry.note(&error) => {
                    say!(
                        "xsched-ctl: {error}: the controller has restarted, and the command goes on without what it was to have"
                    );
                }
                // That there is none was reported at the beginning, or is seen by its end.
                Err(_) => {}
            }
        }
    }

    /// How many of the command's processes have joined; none if there is no controller.
    async fn count_joined(&mut self) -> Option<u64> {
        match self.controller.as_mut()?.ask(&Request::Joined {}).await {
            Ok(Answer::Joined { count, .. }) => Some(count),
            _ => None,
        }
    }
}

/// When to register again.
#[derive(Debug)]
struct Retry {
    wait: Duration,
    is_refused: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Self { wait: AGAIN, is_refused: false }
    }
}

impl Retry {
    /// Takes note of a failure. True if it is the first refusal, which is to be reported.
    fn note(&mut self, error: &AskError) -> bool {
        if !matches!(error, AskError::Refused { .. }) {
            // The next controller may be another one.
            self.wait = AGAIN;
            return false;
        }
        self.wait = (self.wait * 2).min(AGAIN_MOST);
        !std::mem::replace(&mut self.is_refused, true)
    }
}

/// Waits for the command; returns the exit code.
async fn wait(child: &mut Child, signals: &mut Signals) -> Result<u8, Failure> {
    loop {
        tokio::select! {
            status = child.wait() => {
                let status = status.map_err(Internal::at("waiting for the command"))?;
                return Ok(command::exit_code(status));
            }
            request = signals.next() => match request {
                // The terminal has also sent it to the command, which decides what to do. Limits hold for each process.
                SignalRequest::Interrupt | SignalRequest::OutOfTime => {}
                request => command::pass_on(request, child),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use xsched_control_api::answer::Reason;

    use super::*;

    #[test]
    fn a_refusal_is_reported_once_and_tried_again_ever_more_rarely() {
        let refused = || AskError::Refused { reason: Reason::AboveCeiling, message: "no".to_owned() };
        let mut retry = Retry::default();
        let mut note = |error| (retry.note(&error), retry.wait.as_secs());
        let refusals: Vec<_> = (0..7).map(|_| note(refused())).collect();
        let expected = [2, 4, 8, 16, 32, 60, 60].map(|wait| (wait == 2, wait));
        assert_eq!(refusals, expected);
        assert_eq!(note(AskError::NoController), (false, 1), "a new controller is found soon");
        assert_eq!(note(refused()), (false, 2), "it was reported before");
    }

    #[tokio::test]
    async fn without_a_controller_the_number_of_joined_processes_is_unknown() {
        let token = Token::draw().unwrap();
        let mut attendance = Attendance { wish: Wish::default(), token, controller: None };
        assert_eq!(attendance.count_joined().await, None);
    }
}
