//! Files of slow file systems: what takes longer to open than a caller can wait is kept until the caller asks again.
//!
//! A file of a network file system, or of any other on a busy machine, may take a second to open. The task that records calls
//! must neither wait for it nor lose it. It asks again at its next turn, and finds the request under way or the file open.
//!
//! ```text
//! asked ──► opened in time ─────────────────────► the file
//!     └───► not yet: Opening ── asked again ────► no answer yet
//!                     └──────── answered ───────► Open: the file, for each caller that asks within half a minute
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use crate::timeout::Answer;

/// How long an opened file is kept after it was last asked for. It keeps its file system mounted.
const KEPT: Duration = Duration::from_secs(30);

/// Most files that are kept, or awaited: each answer is a descriptor.
const FILES_MAX: usize = 256;

/// Files that are opened late, by what identifies them. `E` says why a file could not be opened.
pub(crate) struct LateFiles<K, E> {
    files: Mutex<Option<HashMap<K, Late<E>>>>,
    uses: Uses,
}

/// A process: its id and when it started, since ids are reused.
pub(crate) type Life = (u32, u64);

/// How often a file that was opened late is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uses {
    /// Once: its key may lead to another file afterwards.
    One,
    /// To each caller that asks: its key means this very file.
    Any,
}

struct Late<E> {
    state: State<E>,
    /// The process for which it is opened.
    of: Life,
    began: Instant,
    asked: Instant,
}

enum State<E> {
    Opening(Receiver<Result<File, E>>),
    Open(File),
}

impl<K: Clone + Eq + Hash, E> LateFiles<K, E> {
    pub(crate) const fn new(uses: Uses) -> Self {
        Self { files: Mutex::new(None), uses }
    }

    /// The file, or why it cannot be opened for a process; none if that is not known yet. `open` is called unless the file is being
    /// opened or was opened late.
    pub(crate) fn get(
        &self,
        key: K,
        of: impl Fn() -> Life,
        open: impl FnOnce() -> Answer<Result<File, E>>,
    ) -> Option<Result<File, E>> {
        if let Some(known) = self.known(&key, &of) {
            return known;
        }
        // Not under the lock: it may take a while.
        match open() {
            Answer::InTime(opened) => Some(opened),
            Answer::Later(answer) => {
                let now = Instant::now();
                let late = Late { state: State::Opening(answer), of: of(), began: now, asked: now };
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                insert(files.get_or_insert_default(), key, late);
                None
            }
            Answer::Unasked => None,
        }
    }

    /// What is known of a file that is late; none for others. The inner one is that of [`Self::get`].
    #[expect(clippy::option_option, reason = "one says whether the file is late, one whether it was opened")]
    fn known(&self, key: &K, of: impl Fn() -> Life) -> Option<Option<Result<File, E>>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files.get_or_insert_default();
        let late = files.get_mut(key)?;
        late.asked = Instant::now();
        if let State::Opening(answer) = &late.state {
            match answer.try_recv() {
                Ok(Ok(file)) if self.uses == Uses::Any => late.state = State::Open(file),
                Ok(opened) => {
                    // Another process may reach what was gone for this one.
                    let is_of_other = opened.is_err() && late.of != of();
                    files.remove(key);
                    return (!is_of_other).then_some(Some(opened));
                }
                Err(TryRecvError::Empty) => return Some(None),
                // Its thread has panicked.
                Err(TryRecvError::Disconnected) => {
                    files.remove(key);
                    return None;
                }
            }
        }
        match &late.state {
            // Without another descriptor now, there may be one later.
            State::Open(file) => Some(file.try_clone().ok().map(Ok)),
            State::Opening(_) => Some(None),
        }
    }

    /// Whether any file has been waited for, but not for longer than this.
    pub(crate) fn are_opening(&self, patience: Duration) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut late = files.get_or_insert_default().values();
        late.any(|late| late.is_opening() && late.began.elapsed() < patience)
    }

    /// Closes files that no caller has asked for in a while. A request that is not answered stays: its thread waits.
    pub(crate) fn let_go(&self) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get_or_insert_default().retain(|_, late| {
            let waits = |answer: &Receiver<_>| matches!(answer.try_recv(), Err(TryRecvError::Empty));
            late.asked.elapsed() < KEPT || matches!(&late.state, State::Opening(answer) if waits(answer))
        });
    }
}

/// Adds a file; above the bound, the one that was not asked for for longest goes. If it is asked for again, it is opened again.
fn insert<K: Clone + Eq + Hash, E>(files: &mut HashMap<K, Late<E>>, key: K, late: Late<E>) {
    if files.len() >= FILES_MAX
        && let Some(oldest) = files.iter().min_by_key(|(_, late)| late.asked).map(|(key, _)| key.clone())
    {
        files.remove(&oldest);
    }
    files.insert(key, late);
}

impl<E> Late<E> {
    /// Whether its answer has not been looked at.
    fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening(_))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;
    use crate::timeout::{PathSpace, ask};

    /// Opens a file when it is told to, and counts the attempts.
    struct Slow {
        folder: &'static str,
        attempts: u32,
        files: LateFiles<u32, &'static str>,
    }

    impl Slow {
        fn open(
            &mut self,
            answers: Receiver<Result<File, &'static str>>,
        ) -> Option<Result<File, &'static str>> {
            self.files.get(
                7,
                || (1, 1),
                || {
                    self.attempts += 1;
                    let folder = Path::new(self.folder);
                    ask(PathSpace::Device(0, 71), folder, Duration::ZERO, move || answers.recv().unwrap())
                },
            )
        }

        /// Asks again until there is an answer; no further attempt has one.
        fn answer(&mut self) -> Result<File, &'static str> {
            let began = Instant::now();
            loop {
                if let Some(answer) = self.open(mpsc::channel().1) {
                    return answer;
                }
                assert!(began.elapsed() < Duration::from_mins(1), "the answer never comes");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn a_late_answer_is_kept_and_the_file_is_opened_once() {
        let mut slow = Slow { folder: "/late", attempts: 0, files: LateFiles::new(Uses::Any) };
        let (answer, answers) = mpsc::channel();
        assert!(slow.open(answers).is_none());
        assert!(slow.open(mpsc::channel().1).is_none(), "it is being opened");
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, "text").unwrap();
        answer.send(File::open(&path).map_err(|_| "absent")).unwrap();
        let mut text = String::new();
        slow.answer().unwrap().read_to_string(&mut text).unwrap();
        assert!(slow.answer().is_ok(), "the next caller gets it, too");
        assert_eq!((&*text, slow.attempts), ("text", 1));
        slow.files.let_go();
        assert!(slow.answer().is_ok() && slow.attempts == 1, "it is kept for a while");
    }

    #[test]
    fn files_that_are_not_asked_for_again_do_not_fill_the_memory() {
        let files: LateFiles<usize, &'static str> = LateFiles::new(Uses::Any);
        let answers: Vec<_> = (0..FILES_MAX + 10)
            .map(|number| {
                let (answer, late) = mpsc::channel();
                assert!(files.get(number, || (1, 1), || Answer::Later(late)).is_none());
                answer
            })
            .collect();
        let opened = || File::open("/dev/null").map_err(|_| "absent");
        let kept = answers.iter().filter(|answer| answer.send(opened()).is_ok()).count();
        assert_eq!(kept, FILES_MAX);
        assert!(files.get(FILES_MAX, || (1, 1), || Answer::Unasked).is_some_and(|file| file.is_ok()));
        assert!(
            files.get(0, || (1, 1), || Answer::Unasked).is_none(),
            "it has gone, and may be asked for again"
        );
    }

    #[test]
    fn a_late_refusal_of_one_process_is_not_anothers() {
        let mut slow = Slow { folder: "/others", attempts: 0, files: LateFiles::new(Uses::Any) };
        let (answer, answers) = mpsc::channel();
        assert!(slow.open(answers).is_none());
        answer.send(Err("gone")).unwrap();
        let began = Instant::now();
        // It has the id of the first, which has ended.
        let other = || (1, 2);
        let of_other = loop {
            let open = || Answer::InTime(File::open("/dev/null").map_err(|_| "absent"));
            if let Some(answer) = slow.files.get(7, other, open) {
                break answer;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "the answer never comes");
        };
        assert!(of_other.is_ok());
    }

    #[test]
    fn a_late_refusal_is_said_once_and_the_next_caller_tries_again() {
        let mut slow = Slow { folder: "/refused", attempts: 0, files: LateFiles::new(Uses::One) };
        let (answer, answers) = mpsc::channel();
        assert!(slow.open(answers).is_none());
        answer.send(Err("gone")).unwrap();
        assert_eq!(slow.answer().map(drop), Err("gone"));
        let (answer, answers) = mpsc::channel();
        answer.send(Err("gone again")).unwrap();
        let again = slow.open(answers).unwrap_or_else(|| slow.answer());
        assert_eq!((again.map(drop), slow.attempts), (Err("gone again"), 2));
    }
}
