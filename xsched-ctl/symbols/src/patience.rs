//! Asking file systems that may not answer: one on a server that is gone keeps whoever asks for as long as it likes, and
//! only a kill ends that.
//!
//! A question that is not answered goes on for as long as this process lives, and who asks about the same folder meanwhile may wait
//! for it where no kill reaches him, as he would behind anybody else's. So each folder is asked about once. A path means something
//! else in every container, and one server may have thousands of folders: neither is to keep others from being asked.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::Duration;

/// How long an answer is waited for. Whoever asks does nothing else meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);

/// Questions that are not answered yet, in all and within one space. Each has a thread.
const SILENT_MAX: usize = 64;
const SILENT_PER_SPACE_MAX: usize = 16;

/// Where a path means one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// On a device, by its numbers.
    Device(u32, u32),
    /// In a mount namespace other than this process's, by its inode.
    Mounts(u64),
    /// As this process sees it.
    Own,
}

/// What was asked and not answered in time.
struct Silent {
    space: Space,
    folder: PathBuf,
    /// Whether it is still asked.
    asking: Weak<()>,
}

static SILENT: Mutex<Vec<Silent>> = Mutex::new(Vec::new());

/// Asks something about what is in a folder, on a thread of its own. None if there is no answer within half a second, nor to
/// what was asked about this folder before.
pub fn patiently<T: Send + 'static>(
    space: Space,
    folder: &Path,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let is_silent = {
        let mut silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|one| one.asking.strong_count() > 0);
        let mut there = silent.iter().filter(|one| one.space == space);
        silent.len() >= SILENT_MAX
            || there.clone().count() >= SILENT_PER_SPACE_MAX
            || there.any(|one| one.folder == folder)
    };
    if is_silent {
        return None;
    }
    let asking = Arc::new(());
    let asked = Arc::downgrade(&asking);
    let (tell, told) = mpsc::channel();
    let answer = move || {
        let answer = ask();
        drop(asking);
        // Who has asked may have had enough of that.
        let _ = tell.send(answer);
    };
    thread::Builder::new().name("xsched-lookup".to_owned()).spawn(answer).ok()?;
    let answer = told.recv_timeout(PATIENCE).ok();
    if answer.is_none() {
        let mut silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
        silent.push(Silent { space, folder: folder.to_owned(), asking: asked });
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_folder_that_does_not_answer_is_waited_for_once() {
        let (here, there) = (Path::new("/silent"), Path::new("/other"));
        let (answer, answers) = mpsc::channel::<u32>();
        let began = Instant::now();
        assert_eq!(patiently(Space::Own, here, move || answers.recv().ok()), None);
        assert!(began.elapsed() >= PATIENCE);
        assert_eq!((patiently(Space::Own, here, || 1), patiently(Space::Own, there, || 2)), (None, Some(2)));
        answer.send(3).unwrap();
        while patiently(Space::Own, here, || 4).is_none() {
            assert!(began.elapsed() < 60 * PATIENCE, "it has answered");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn where_nobody_answers_does_not_keep_others_from_being_asked() {
        let (dead, alive) = (Space::Device(0, 53), Space::Device(0, 54));
        let folder = |number: usize| PathBuf::from(format!("/opt/rocm/lib/{number}"));
        let (answer, answers) = mpsc::channel::<()>();
        let answers = Arc::new(Mutex::new(answers));
        let asked: Vec<_> = (0..SILENT_PER_SPACE_MAX)
            .map(|number| {
                let answers = Arc::clone(&answers);
                let wait = move || answers.lock().unwrap().recv().ok();
                thread::spawn(move || patiently(dead, &folder(number), wait))
            })
            .collect();
        assert!(asked.into_iter().all(|asked| asked.join().unwrap().is_none()));
        assert_eq!(patiently(dead, &folder(SILENT_PER_SPACE_MAX), || 1), None, "it has had its part");
        assert_eq!(patiently(alive, &folder(0), || 2), Some(2), "the same path elsewhere");
        drop(answer);
    }
}
