//! How urgent building is: in the background at first, like other work while somebody waits for it.

use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, getpriority_process, setpriority_process};
use tracing::debug;

/// How much less urgent than other work of this user a build in the background is, 0 to 19.
pub(super) const NICE: i32 = 10;

/// The threads, and how they stand. On Linux a priority belongs to a thread.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// With the priority that each began with.
    threads: Vec<(Pid, i32)>,
    is_hurried: bool,
}

impl Pace {
    /// The calling thread is one that builds, from now on.
    pub(super) fn join(&self) {
        let began = getpriority_process(None).unwrap_or(0);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.threads.push((rustix::thread::gettid(), began));
        state.apply();
    }

    /// The calling thread ends: its id may be another's soon.
    pub(super) fn leave(&self) {
        let own = rustix::thread::gettid();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.threads.retain(|(thread, _)| *thread != own);
    }

    /// See [`Builder::hurry`](super::Builder::hurry).
    pub(super) fn hurry(&self, is_hurried: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut state.is_hurried, is_hurried) != is_hurried {
            state.apply();
        }
    }
}

impl State {
    /// Gives all threads their priority. Without it the work is done all the same: who is not root may lower one only.
    fn apply(&self) {
        for &(thread, began) in &self.threads {
            let nice = if self.is_hurried { began } else { (began + NICE).min(19) };
            if let Err(error) = setpriority_process(Some(thread), nice) {
                debug!(%error, nice, "a thread that builds tables keeps its priority");
            }
        }
    }
}
