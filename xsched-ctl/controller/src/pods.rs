//! Asks the container runtime to which pods processes belong (crate `xsched_pods`).
//!
//! It is asked on a thread of its own, only if there are processes in containers that it has not named, and then at most once a
//! second. A container may be named later than its first process joins. A runtime that is away, hangs or does not know a container
//! is asked again after longer and longer pauses, at once when a new container appears.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc as questions;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc as answers;
use tokio::time::MissedTickBehavior;
use xsched_pods::{CallError, ContainerId, Pods};
use xsched_terminal::{Internal, with_causes};

use crate::error::ServeError;
use crate::shared::Shared;

/// How often it is considered to ask.
const LOOK: Duration = Duration::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a socket answered.
type Answer = Result<Pods, (PathBuf, CallError)>;

/// Keeps the controller's knowledge of pods up to date.
pub(super) async fn follow(shared: &Shared) -> Result<Infallible, ServeError> {
    let (ask, asked) = questions::channel::<Vec<PathBuf>>();
    let (tell, mut told) = answers::unbounded_channel();
    let internal = Internal::at("starting the thread that asks for pods");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let started = runtime.and_then(|runtime| {
        thread::Builder::new().name("xsched-pods".to_owned()).spawn(move || {
            for sockets in asked {
                if tell.send(runtime.block_on(list(&sockets))).is_err() {
                    return;
                }
            }
        })
    });
    started.map_err(internal)?;
    let (mut pauses, mut is_away) = (Pauses::default(), false);
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let (sockets, unnamed) = {
            let controller = shared.controller.borrow();
            (controller.runtime_sockets(), controller.unnamed())
        };
        let Some(sockets) = sockets.filter(|_| pauses.is_over(Instant::now(), &unnamed)) else { continue };
        // If the thread has ended, the receive below fails.
        let _ = ask.send(sockets);
        let Some(answer) = told.recv().await else {
            tracing::error!(
                "a fault in xsched-ctl: no more pods are named until the controller's next start"
            );
            return std::future::pending().await;
        };
        match answer {
            Ok(pods) => {
                if is_away {
                    tracing::info!("the container runtime answers again");
                }
                is_away = false;
                shared.with(|controller| controller.learn_pods(pods));
            }
            Err((socket, error)) => {
                if !is_away {
                    tracing::warn!(
                        "pods have no names and their annotations no effect for now: {}: {}",
                        socket.display(),
                        with_causes(&error)
                    );
                }
                is_away = true;
            }
        }
        let unnamed = shared.controller.borrow().unnamed();
        pauses.asked(Instant::now(), unnamed);
    }
}

/// Asks the first socket that exists, or the first one.
async fn list(sockets: &[PathBuf]) -> Answer {
    let socket = sockets.iter().find(|socket| socket.exists()).or_else(|| sockets.first());
    let socket = socket.map_or(Path::new(""), PathBuf::as_path);
    xsched_pods::list(socket).await.map_err(|error| (socket.to_owned(), error))
}

/// When to ask again.
#[derive(Debug, Default)]
struct Pauses {
    /// Containers that the last answer did not name.
    missing: BTreeSet<ContainerId>,
    pause: Duration,
    until: Option<Instant>,
}

impl Pauses {
    fn is_over(&self, now: Instant, unnamed: &BTreeSet<ContainerId>) -> bool {
        let is_new = !unnamed.is_subset(&self.missing);
        !unnamed.is_empty() && (is_new || self.until.is_none_or(|until| until <= now))
    }

    fn asked(&mut self, now: Instant, unnamed: BTreeSet<ContainerId>) {
        let is_new = !unnamed.is_subset(&self.missing);
        self.pause = if is_new { LOOK } else { (self.pause * 2).clamp(LOOK, PAUSE_MAX) };
        self.until = Some(now + self.pause);
        self.missing = unnamed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn containers(digits: &str) -> BTreeSet<ContainerId> {
        let uid = "0".repeat(32);
        let path = |digit: char| format!("0::/kubepods/pod{uid}/{}", digit.to_string().repeat(64));
        digits.chars().filter_map(|digit| ContainerId::of_process(&path(digit))).collect()
    }

    #[test]
    fn pauses_grow_and_a_new_container_ends_them() {
        let (mut pauses, mut now) = (Pauses::default(), Instant::now());
        assert!(!pauses.is_over(now, &containers("")), "every container is named");
        let mut waited = Vec::new();
        for _ in 0..8 {
            let began = now;
            while !pauses.is_over(now, &containers("a")) {
                now += LOOK;
            }
            waited.push((now - began).as_secs());
            pauses.asked(now, containers("a"));
        }
        assert_eq!(waited, [0, 1, 2, 4, 8, 16, 30, 30]);
        assert!(pauses.is_over(now, &containers("ab")));
        assert!(!pauses.is_over(now, &containers("")), "its process has ended");
    }
}
