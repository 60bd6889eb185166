//! What running examples print, and when.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::command;

/// How long the longest run takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// A task of which an example says how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) is_high: bool,
    pub(super) ms: f64,
    /// When that was read.
    pub(super) ended: Instant,
}

impl Task {
    pub(super) fn began(&self) -> Instant {
        self.ended.checked_sub(Duration::from_secs_f64(self.ms / 1e3)).unwrap_or(self.ended)
    }
}

/// Running examples, which are killed at the end: they would go on for hours.
pub(super) struct Running {
    children: Vec<Child>,
    said: Receiver<(bool, Instant, String)>,
    sender: Sender<(bool, Instant, String)>,
    began: Instant,
    tasks: Vec<Task>,
}

impl Running {
    pub(super) fn new() -> Self {
        let (sender, said) = mpsc::channel();
        Self { children: Vec::new(), said, sender, began: Instant::now(), tasks: Vec::new() }
    }

    /// Starts a process. Where its lines do not say of which priority a task was, it is this.
    pub(super) fn start(&mut self, program: &mut Command, is_high: bool) -> Result<()> {
        command::announce(program);
        let mut child = program
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start `{}`", command::shown(program)))?;
        let lines = child.stdout.take().map(BufReader::new).context("its output is a pipe")?.lines();
        let sender = self.sender.clone();
        self.children.push(child);
        thread::spawn(move || {
            // At the end nothing receives any more.
            lines.map_while(Result::ok).all(|line| sender.send((is_high, Instant::now(), line)).is_ok())
        });
        Ok(())
    }

    /// Reads until there are enough tasks; returns all so far.
    pub(super) fn tasks_until(&mut self, are_enough: impl Fn(&[Task]) -> bool) -> Result<&[Task]> {
        while !are_enough(&self.tasks) {
            let left = PATIENCE.checked_sub(self.began.elapsed()).unwrap_or_default();
            let Ok((is_high, ended, line)) = self.said.recv_timeout(left.min(Duration::from_secs(1))) else {
                self.check()?;
                continue;
            };
            ensure!(!line.contains("erification failed"), "its results are wrong: {line}");
            if let Some((said, ms)) = task_of(&line) {
                self.tasks.push(Task { is_high: said.unwrap_or(is_high), ms, ended });
            }
        }
        Ok(&self.tasks)
    }

    fn check(&mut self) -> Result<()> {
        for child in &mut self.children {
            if let Some(status) = child.try_wait().context("failed to ask for its end")? {
                bail!("it ended with {status}");
            }
        }
        ensure!(self.began.elapsed() < PATIENCE, "it did {} tasks within {PATIENCE:?}", self.tasks.len());
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The priority and milliseconds of a task that a line tells of.
fn task_of(line: &str) -> Option<(Option<bool>, f64)> {
    let (what, took) = line.split_once(" completed in ")?;
    let ms = took.strip_suffix(" ms")?.parse().ok()?;
    let (of, _number) = what.rsplit_once("Task ")?;
    let is_high = match of.split_whitespace().collect::<Vec<_>>()[..] {
        [] => None,
        ["high", "prio"] | ["Prio", "2"] => Some(true),
        ["low", "prio"] | ["Prio", "1"] => Some(false),
        _ => return None,
    };
    Some((is_high, ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_examples_are_read() {
        let read = |line| task_of(line);
        assert_eq!(read("Task 25 completed in 67 ms"), Some((None, 67.0)));
        assert_eq!(read("Prio 2 Task 10 completed in 71 ms"), Some((Some(true), 71.0)));
        assert_eq!(read("Prio 1 Task 0 completed in 152 ms"), Some((Some(false), 152.0)));
        assert_eq!(read("high prio Task 12 completed in 66 ms"), Some((Some(true), 66.0)));
        assert_eq!(read("low  prio Task 14 completed in 172 ms"), Some((Some(false), 172.0)));
        assert_eq!(read("using app-managed scheduler"), None);
    }

    #[test]
    fn an_example_that_ends_or_is_wrong_is_an_error() {
        let outcome = |script: &str| {
            let mut running = Running::new();
            running.start(Command::new("sh").args(["-c", script]), false).unwrap();
            running
                .tasks_until(|tasks| tasks.len() >= 2)
                .map(<[Task]>::len)
                .map_err(|error| error.to_string())
        };
        assert_eq!(outcome("for i in 1 2; do echo Task $i completed in 5 ms; done; exec sleep 10"), Ok(2));
        assert_eq!(
            outcome("echo Task 1 completed in 5 ms; exit 3"),
            Err("it ended with exit status: 3".to_owned())
        );
        let wrong = outcome("echo high prio Task 3: Result verification failed!; exec sleep 10").unwrap_err();
        assert!(wrong.contains("its results are wrong"), "{wrong}");
    }
}
