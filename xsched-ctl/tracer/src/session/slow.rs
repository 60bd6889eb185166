//! Runtimes in slow file systems: they are probed when their file is open, however late that is, and the task that reads records
//! never waits for it. A command that is stopped in its loader waits, for a moment.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_abi::Opened;
use xsched_symbols::{Mapping, now_ns, runtime_of};

use super::Session;
use super::guardian::go_on;
use crate::error::RuntimeError;

/// How often slow file systems are asked again.
const ASK: Duration = Duration::from_millis(20);

/// How long a command stays stopped for its runtime, and after what time the user is told.
const STOPPED_MAX: Duration = Duration::from_millis(500);

/// How long the start of a recording of one process waits for its runtime.
const START_MAX: Duration = Duration::from_secs(5);

/// How long an opened file is asked for. If it is a runtime, it is mapped later, and asked for by then.
const OPENING_MAX: Duration = Duration::from_secs(30);

/// How many files are asked for at most, and how many of them in one turn of the loop. Each file costs a few system calls, even
/// if its file system is not asked because earlier requests to it are open.
const FILES_MAX: usize = 1024;
const ASKED_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Slow {
    /// The next to be asked for comes first.
    files: VecDeque<File>,
    /// Files that were too many, and among them mappings of runtimes.
    refused: u64,
    refused_runtimes: u64,
    /// Processes that are stopped in their loader, each with the time at which it stopped.
    stopped: HashMap<u32, Instant>,
    asked: Option<Instant>,
}

struct File {
    pid: u32,
    what: What,
    /// When the process did that: another one may have its id later.
    time_ns: u64,
    since: Instant,
    is_told: bool,
    /// The process counts as late already.
    is_counted: bool,
}

/// What a process does with a file.
enum What {
    Opens(Box<Opened>),
    /// Since this time.
    Maps(Arc<Mapping>, u64),
}

impl Slow {
    /// A process opens a file, or has mapped it, whose file system has not answered yet.
    fn add(&mut self, pid: u32, what: What, time_ns: u64) {
        if self.files.iter().any(|file| file.pid == pid && file.what.is_same(&what)) {
            return;
        }
        let file = File { pid, what, time_ns, since: Instant::now(), is_told: false, is_counted: false };
        if self.files.len() < FILES_MAX {
            return self.files.push_back(file);
        }
        if self.refused == 0 {
            tracing::warn!("more than {FILES_MAX} files of slow file systems: further ones are not probed");
        }
        self.refused += 1;
        self.refused_runtimes += u64::from(file.misses_calls());
    }

    pub(super) fn opens(&mut self, opened: &Opened) {
        self.add(opened.tgid, What::Opens(Box::new(*opened)), opened.time_ns);
    }

    pub(super) fn maps(&mut self, pid: u32, mapping: &Arc<Mapping>, mapped_ns: u64) {
        // Zero: some time before.
        let time_ns = if mapped_ns == 0 { now_ns() } else { mapped_ns };
        self.add(pid, What::Maps(Arc::clone(mapping), mapped_ns), time_ns);
    }

    /// Takes the files for which it is time.
    fn take_due(&mut self) -> Vec<File> {
        self.files.drain(..self.files.len().min(ASKED_MAX)).collect()
    }

    /// Whether a process that is stopped in its loader has to wait for a file that it has mapped.
    pub(super) fn keeps_stopped(&mut self, pid: u32) -> bool {
        let is_awaited = self.files.iter().any(|file| file.pid == pid && matches!(file.what, What::Maps(..)));
        if is_awaited {
            self.stopped.entry(pid).or_insert_with(Instant::now);
        }
        is_awaited
    }

    /// All processes that are stopped for this go on.
    pub(super) fn let_all_go_on(&mut self) {
        self.stopped.drain().for_each(|(pid, _)| go_on(pid));
    }

    /// Processes whose runtime was never open, and that do not count as late yet.
    pub(super) fn uncounted(&self) -> u64 {
        self.refused_runtimes + self.files.iter().filter(|file| file.misses_calls()).count() as u64
    }

    /// Takes the number of runtimes that were mapped and not asked for, because there were too many files.
    fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused_runtimes)
    }

    /// Says how many files were too many.
    pub(super) fn tell_refused(&self) {
        if self.refused > 0 {
            tracing::warn!("{} files of slow file systems were too many, and not probed", self.refused);
        }
    }
}

impl Drop for Slow {
    /// However the recording ends.
    fn drop(&mut self) {
        self.let_all_go_on();
    }
}

impl What {
    /// Whether the same process asking for both asks twice.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            // The path as it was passed; a relative one leads elsewhere from another working folder.
            (Self::Opens(one), Self::Opens(two)) => {
                one.hash == two.hash && one.path == two.path && one.path.first() == Some(&b'/')
            }
            (Self::Maps(one, _), Self::Maps(two, _)) => {
                (one.start, one.end, one.file) == (two.start, two.end, two.file)
            }
            _ => false,
        }
    }
}

impl File {
    /// Whether its process makes calls that are not recorded, and does not count for that yet.
    fn misses_calls(&self) -> bool {
        let is_runtime = matches!(&self.what, What::Maps(mapping, _) if runtime_of(&mapping.path).is_some());
        is_runtime && !self.is_counted
    }
}

impl Session {
    /// Asks again for slow files. Returns the stopped processes that need not wait any more.
    pub(super) fn ask_slow(&mut self) -> Vec<u32> {
        let is_due = self.slow.asked.is_none_or(|asked| asked.elapsed() >= ASK);
        if self.slow.files.is_empty() && self.slow.stopped.is_empty() || !is_due {
            return Vec::new();
        }
        self.slow.asked = Some(Instant::now());
        let refused = self.slow.take_refused();
        self.late.add(refused);
        for mut file in self.slow.take_due() {
            let process = self.processes.find(file.pid, file.time_ns);
            let is_running = process.is_some_and(|process| process.ended_ns().is_none());
            let asked = match &file.what {
                // Its path would be looked for in the folders of another process.
                What::Opens(_) if !is_running => continue,
                What::Opens(opened) => self.open_early(opened),
                What::Maps(mapping, mapped_ns) => self.runtimes.mapped(file.pid, mapping, *mapped_ns),
            };
            match (asked, &file.what) {
                (Err(error), what) if error.is_silent() => {
                    if file.since.elapsed() >= STOPPED_MAX && !std::mem::replace(&mut file.is_told, true) {
                        tell_silent(file.pid, what, &error);
                    }
                    let is_opening = matches!(file.what, What::Opens(_));
                    if is_running && !(is_opening && file.since.elapsed() > OPENING_MAX) {
                        self.slow.files.push_back(file);
                    } else {
                        self.late.add(u64::from(file.misses_calls()));
                    }
                }
                (Ok(true), What::Maps(_, mapped_ns)) if !file.is_counted => {
                    let is_to_stop = self.is_to_stop(file.pid, *mapped_ns);
                    self.late.mapped(file.pid, *mapped_ns, is_to_stop);
                }
                (Err(error), What::Maps(..)) => {
                    tracing::warn!("process {} is not recorded: {error}", file.pid);
                    let is_unopened = matches!(error, RuntimeError::Open { .. });
                    self.late.add(u64::from(is_unopened && file.misses_calls()));
                }
                (Ok(_), _) | (Err(_), What::Opens(_)) => {}
            }
        }
        let Slow { files, stopped, .. } = &mut self.slow;
        let late = &mut self.late;
        let goes_on = |pid: &u32, since: &mut Instant| {
            let mut awaited = files.iter_mut().filter(|file| file.pid == *pid).peekable();
            if awaited.peek().is_some() && since.elapsed() < STOPPED_MAX {
                return false;
            }
            for file in awaited {
                late.add(u64::from(file.misses_calls()));
                file.is_counted = true;
            }
            true
        };
        stopped.extract_if(goes_on).map(|(pid, _)| pid).collect()
    }

    /// Waits for the runtime of the only process that is recorded, before there is anything else to do.
    pub(super) fn await_slow(&mut self) {
        let began = Instant::now();
        while !self.slow.files.is_empty() && began.elapsed() < START_MAX {
            std::thread::sleep(ASK);
            self.ask_slow();
        }
    }
}

fn tell_silent(pid: u32, what: &What, error: &RuntimeError) {
    match what {
        What::Opens(_) => tracing::warn!("process {pid} opens what may be a runtime: {error}"),
        What::Maps(..) => tracing::warn!("process {pid} is not recorded yet: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    /// A process opens the file with this number.
    fn opens(slow: &mut Slow, pid: u32, number: u64) {
        let mut opened = Opened { tgid: pid, hash: number, ..Opened::new_zeroed() };
        let path = format!("/opt/{number}/libamdhip64.so");
        opened.path[..path.len()].copy_from_slice(path.as_bytes());
        slow.opens(&opened);
    }

    #[test]
    fn a_file_is_asked_for_once_however_often_it_is_opened() {
        let mut slow = Slow::default();
        for (pid, number) in [(1, 1), (1, 1), (2, 1), (1, 2), (1, 1)] {
            opens(&mut slow, pid, number);
        }
        assert_eq!(slow.files.len(), 3);
    }

    #[test]
    fn many_files_take_turns_and_those_that_are_too_many_are_counted() {
        let mut slow = Slow::default();
        let count = FILES_MAX + 7;
        (0..count).for_each(|number| opens(&mut slow, 1, number as u64));
        assert_eq!((slow.files.len(), slow.refused), (FILES_MAX, 7));
        let mut asked = std::collections::HashSet::new();
        for _ in 0..FILES_MAX.div_ceil(ASKED_MAX) {
            let due = slow.take_due();
            assert_eq!(due.len(), ASKED_MAX);
            for file in due {
                let What::Opens(opened) = &file.what else { panic!("it was opened") };
                asked.insert(opened.hash);
                slow.files.push_back(file);
            }
        }
        assert_eq!(asked.len(), FILES_MAX, "each has had its turn");
    }
}
