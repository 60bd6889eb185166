//! Accesses to file systems that may not answer. A file system on a server that is gone blocks a caller without limit, and
//! only killing the caller's thread ends that.
//!
//! An unanswered request lasts for as long as this process lives. Another access to the same folder may then wait in the
//! kernel for the same lock, uninterruptibly. So each folder has at most one request. The same path is another folder in
//! each container, and one server may have thousands of folders: neither may keep other folders from being accessed.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long a caller waits for an answer that is lost if it comes later. It does nothing else meanwhile.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// The most unanswered requests, in total and within one space. Each has a thread.
const PENDING_MAX: usize = 64;
const PENDING_PER_SPACE_MAX: usize = 16;

/// What callers with less patience than [`PATIENCE`] wait, all of them together: this much at once, and later a fifth of the time.
/// Many slow files would otherwise keep the task that records calls for a multiple of what one may.
const SHORT_WAITS_MAX: Duration = Duration::from_millis(20);
const SHORT_WAITS_SHARE: u32 = 5;

/// The time that these callers may still wait.
struct Budget {
    left: Duration,
    /// When that was so; none before the first of them.
    at: Option<Instant>,
}

static BUDGET: Mutex<Budget> = Mutex::new(Budget { left: SHORT_WAITS_MAX, at: None });

impl Budget {
    fn left(&mut self, now: Instant) -> Duration {
        let elapsed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.left = (self.left + elapsed / SHORT_WAITS_SHARE).min(SHORT_WAITS_MAX);
        self.at = Some(now);
        self.left
    }

    fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }
}

fn budget() -> std::sync::MutexGuard<'static, Budget> {
    BUDGET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A set of paths in which equal paths lead to the same folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSpace {
    /// On a device, by its numbers.
    Device(u32, u32),
    /// In a mount namespace other than this process's, by its inode.
    Mounts(u64),
    /// As this process sees it.
    Own,
}

/// A request that was not answered in time.
struct Pending {
    space: PathSpace,
    folder: PathBuf,
    /// Alive while the request lasts.
    request: Weak<()>,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

/// How a request was answered.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    /// In time.
    InTime(T),
    /// It will be sent there, if ever.
    Later(Receiver<T>),
    /// The request was not made: an earlier one for this folder is not answered yet, or too many are not.
    Unasked,
}

/// Runs `request`, which accesses a folder, on a thread of its own. None if it takes more than half a second, or if an
/// earlier request for this folder is not answered yet.
pub fn with_timeout<T: Send + 'static>(
    space: PathSpace,
    folder: &Path,
    request: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match ask(space, folder, PATIENCE, request) {
        Answer::InTime(answer) => Some(answer),
        Answer::Later(_) | Answer::Unasked => None,
    }
}

/// The same, with a patience of the caller's. It need not lose an answer that comes later. A caller with less patience than
/// [`PATIENCE`] does not wait in a space where another request is open. Nor does it wait when such callers have waited for too
/// long in total.
pub(crate) fn ask<T: Send + 'static>(
    space: PathSpace,
    folder: &Path,
    patience: Duration,
    request: impl FnOnce() -> T + Send + 'static,
) -> Answer<T> {
    let (is_silent, is_slow) = {
        let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|one| one.request.strong_count() > 0);
        let mut in_space = pending.iter().filter(|one| one.space == space);
        let in_space_count = in_space.clone().count();
        let is_silent = pending.len() >= PENDING_MAX
            || in_space_count >= PENDING_PER_SPACE_MAX
            || in_space.any(|one| one.folder == folder);
        (is_silent, in_space_count > 0)
    };
    if is_silent {
        return Answer::Unasked;
    }
    let is_short = patience < PATIENCE;
    let patience = match is_short {
        true if is_slow => Duration::ZERO,
        true => patience.min(budget().left(Instant::now())),
        false => patience,
    };
    let running = Arc::new(());
    let observed = Arc::downgrade(&running);
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        let answer = request();
        drop(running);
        // The caller may have stopped waiting.
        let _ = sender.send(answer);
    };
    if thread::Builder::new().name("xsched-lookup".to_owned()).spawn(run).is_err() {
        return Answer::Unasked;
    }
    let began = Instant::now();
    let answer = receiver.recv_timeout(patience);
    if is_short {
        budget().spend(began.elapsed());
    }
    if let Ok(answer) = answer {
        return Answer::InTime(answer);
    }
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    pending.push(Pending { space, folder: folder.to_owned(), request: observed });
    Answer::Later(receiver)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_unresponsive_folder_delays_one_caller_only() {
        let (here, there) = (Path::new("/silent"), Path::new("/other"));
        let (answer, answers) = mpsc::channel::<u32>();
        let began = Instant::now();
        assert_eq!(with_timeout(PathSpace::Own, here, move || answers.recv().ok()), None);
        assert!(began.elapsed() >= PATIENCE);
        assert_eq!(
            (with_timeout(PathSpace::Own, here, || 1), with_timeout(PathSpace::Own, there, || 2)),
            (None, Some(2))
        );
        answer.send(3).unwrap();
        while with_timeout(PathSpace::Own, here, || 4).is_none() {
            assert!(began.elapsed() < 60 * PATIENCE, "the folder has answered");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn an_unresponsive_space_does_not_block_others() {
        let (dead, alive) = (PathSpace::Device(0, 53), PathSpace::Device(0, 54));
        let folder = |number: usize| PathBuf::from(format!("/opt/rocm/lib/{number}"));
        let (answer, answers) = mpsc::channel::<()>();
        let answers = Arc::new(Mutex::new(answers));
        let asked: Vec<_> = (0..PENDING_PER_SPACE_MAX)
            .map(|number| {
                let answers = Arc::clone(&answers);
                let wait = move || answers.lock().unwrap().recv().ok();
                thread::spawn(move || with_timeout(dead, &folder(number), wait))
            })
            .collect();
        assert!(asked.into_iter().all(|asked| asked.join().unwrap().is_none()));
        assert_eq!(
            with_timeout(dead, &folder(PENDING_PER_SPACE_MAX), || 1),
            None,
            "the space has reached its limit"
        );
        assert_eq!(with_timeout(alive, &folder(0), || 2), Some(2), "the same path in another space");
        drop(answer);
    }

    #[test]
    fn many_silent_spaces_do_not_delay_a_caller_in_a_hurry_by_their_number() {
        let short = Duration::from_millis(20);
        let (answer, answers) = mpsc::channel::<()>();
        let answers = Arc::new(Mutex::new(answers));
        let began = Instant::now();
        for number in 0..30 {
            let answers = Arc::clone(&answers);
            let wait = move || answers.lock().unwrap().recv().ok();
            let asked = ask(PathSpace::Device(1, number), Path::new("/silent"), short, wait);
            assert!(matches!(asked, Answer::Later(_)), "{number}: {asked:?}");
        }
        let took = began.elapsed();
        // 30 waits of 20 ms would be 600 ms; the rest is for a busy machine.
        assert!(took < Duration::from_millis(300), "{took:?}");
        drop(answer);
    }

    #[test]
    fn a_budget_is_spent_and_comes_back() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut budget = Budget { left: SHORT_WAITS_MAX, at: None };
        assert_eq!(budget.left(now), SHORT_WAITS_MAX);
        budget.spend(second);
        assert_eq!(budget.left(now), Duration::ZERO);
        assert_eq!(budget.left(now + Duration::from_millis(50)), Duration::from_millis(10));
        assert_eq!(budget.left(now + second), SHORT_WAITS_MAX);
    }
}
