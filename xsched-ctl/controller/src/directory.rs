//! Names of users that are in no file. The system's name services are asked when a process of such a user connects: one
//! question at a time, on a separate thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::mpsc as questions;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc as answers};
use tokio::time::timeout;
use xsched_terminal::Internal;

use crate::error::ServeError;
use crate::shared::Shared;

/// How long a process waits for its user's name before it is admitted by the user's number. A later answer applies from
/// then on.
const PATIENCE: Duration = Duration::from_millis(500);

/// After a name service has failed: for how long it is not asked again, and no further failure is logged.
const AGAIN: Duration = Duration::from_secs(10);

/// Questions that may wait. Further users are identified by number.
const QUESTIONS_MAX: usize = 1024;

/// A user's number and name; none: the user has no name.
type Answer = (u32, io::Result<Option<String>>);

pub(super) struct Directory {
    ask: questions::SyncSender<u32>,
    /// By user: none while the answer is on its way; otherwise when a service last failed.
    asked: RefCell<BTreeMap<u32, Option<Instant>>>,
    answered: Notify,
    complained: Cell<Option<Instant>>,
}

impl Directory {
    /// Starts the thread, which asks `name`.
    pub(super) fn start(
        name: impl Fn(u32) -> io::Result<Option<String>> + Send + 'static,
    ) -> Result<(Self, answers::UnboundedReceiver<Answer>), ServeError> {
        let (ask, asked) = questions::sync_channel(QUESTIONS_MAX);
        let (tell, told) = answers::unbounded_channel();
        thread::Builder::new()
            .name("xsched-users".to_owned())
            .spawn(move || {
                for uid in asked {
                    if tell.send((uid, name(uid))).is_err() {
                        return;
                    }
                }
            })
            .map_err(Internal::at("starting the thread that asks for users"))?;
        let (answered, complained) = (Notify::new(), Cell::new(None));
        Ok((Self { ask, asked: RefCell::default(), answered, complained }, told))
    }

    /// Asks for a user's name, unless it was asked for recently; true if an answer is expected.
    fn ask(&self, uid: u32) -> bool {
        let mut asked = self.asked.borrow_mut();
        asked.retain(|_, failed| failed.is_none_or(|at| at.elapsed() < AGAIN));
        match asked.get(&uid) {
            Some(failed) => failed.is_none(),
            None if self.ask.try_send(uid).is_ok() => asked.insert(uid, None).is_none(),
            None => false,
        }
    }

    /// Takes in an answer; returns a failure to log.
    fn settle(&self, uid: u32, failure: Option<&io::Error>) -> Option<String> {
        let mut asked = self.asked.borrow_mut();
        let Some(error) = failure else {
            asked.remove(&uid);
            return None;
        };
        asked.insert(uid, Some(Instant::now()));
        if self.complained.get().is_some_and(|at| at.elapsed() < AGAIN) {
            return None;
        }
        self.complained.set(Some(Instant::now()));
        Some(format!("cannot look up the name of user {uid}: {error}; rules match this user by number only"))
    }
}

/// Waits until a user's name is known, or until `PATIENCE` is over.
pub(super) async fn learn(shared: &Shared, uid: u32) {
    let directory = &shared.directory;
    let answered = async {
        loop {
            let next = directory.answered.notified();
            if shared.controller.borrow().knows_user(uid) || !directory.ask(uid) {
                return;
            }
            next.await;
        }
    };
    if timeout(PATIENCE, answered).await.is_err() {
        tracing::debug!("the name of user {uid} is not known yet");
    }
}

/// Takes in answers from the thread.
pub(super) async fn follow(shared: &Shared, mut answers: answers::UnboundedReceiver<Answer>) -> Infallible {
    while let Some((uid, answer)) = answers.recv().await {
        if let Some(complaint) = shared.directory.settle(uid, answer.as_ref().err()) {
            tracing::warn!("{complaint}");
        }
        if let Ok(name) = answer {
            shared.with(|controller| controller.learn_user(uid, name.as_deref()));
        }
        shared.directory.answered.notify_waiters();
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_user_is_asked_for_once_and_not_again_soon_after_a_failure() {
        let name = |uid| if uid == 7 { Ok(None) } else { Err(io::ErrorKind::TimedOut.into()) };
        let (directory, mut answers) = Directory::start(name).unwrap();
        assert!(directory.ask(7) && directory.ask(8) && directory.ask(7), "an answer is on its way");
        assert!(matches!(answers.recv().await, Some((7, Ok(None)))));
        let (uid, answer) = answers.recv().await.unwrap();
        assert_eq!(directory.settle(7, None), None);
        let complaint = directory.settle(uid, answer.as_ref().err()).unwrap();
        assert!(complaint.starts_with("cannot look up the name of user 8: timed out"), "{complaint}");
        assert_eq!(directory.settle(9, answer.as_ref().err()), None, "it has just been said");
        assert!(!directory.ask(8), "it has just failed");
        assert!(directory.ask(7));
        assert!(matches!(answers.recv().await, Some((7, Ok(None)))));
    }

    #[tokio::test]
    async fn waiting_questions_are_limited() {
        let (directory, _answers) = Directory::start(|_| {
            loop {
                thread::park();
            }
        })
        .unwrap();
        let waiting = (0..2 * QUESTIONS_MAX as u32).filter(|uid| directory.ask(*uid)).count();
        assert!((QUESTIONS_MAX..=QUESTIONS_MAX + 1).contains(&waiting), "{waiting}");
    }
}
