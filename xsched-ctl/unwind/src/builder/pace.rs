//! The priority of the building threads: low in the background, normal while a caller waits for results.

use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, getpriority_process, setpriority_process};
use tracing::debug;

/// The nice value that a build in the background adds, 0 to 19.
pub(super) const NICE: i32 = 10;

/// The threads and their priority. On Linux each thread has its own nice value
/// (<https://man7.org/linux/man-pages/man2/setpriority.2.html>).
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The threads, each with its original priority.
    threads: Vec<(Pid, i32)>,
    is_urgent: bool,
}

impl Pace {
    pub(super) fn join(&self) {
        let original = getpriority_process(None).unwrap_or(0);
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.threads.push((rustix::thread::gettid(), original));
        state.apply();
    }

    /// Removes the calling thread, which is about to end: its id may be reused.
    pub(super) fn leave(&self) {
        let own = rustix::thread::gettid();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.threads.retain(|(thread, _)| *thread != own);
    }

    /// See [`Builder::set_urgent`](super::Builder::set_urgent).
    pub(super) fn set_urgent(&self, is_urgent: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut state.is_urgent, is_urgent) != is_urgent {
            state.apply();
        }
    }
}

impl State {
    /// Sets the priority of all threads. Without CAP_SYS_NICE a process can only lower it; the work is then done at low
    /// priority.
    fn apply(&self) {
        for &(thread, original) in &self.threads {
            let nice = if self.is_urgent { original } else { (original + NICE).min(19) };
            if let Err(error) = setpriority_process(Some(thread), nice) {
                debug!(%error, nice, "a thread that builds tables keeps its priority");
            }
        }
    }
}
