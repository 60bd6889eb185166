//! Runtimes in slow file systems: they are probed when their file is open, however late that is, and the task that reads records
//! never waits for it. A command that is stopped in its loader waits, for a moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_abi::Opened;
use xsched_symbols::{Mapping, runtime_of};

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

/// Most files that are asked for.
const FILES_MAX: usize = 1024;

#[derive(Default)]
pub(super) struct Slow {
    files: Vec<File>,
    /// Processes that are stopped in their loader, each with the time at which it stopped.
    stopped: HashMap<u32, Instant>,
    asked: Option<Instant>,
}

struct File {
    pid: u32,
    what: What,
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
    fn add(&mut self, pid: u32, what: What) {
        if self.files.len() < FILES_MAX {
            self.files.push(File { pid, what, since: Instant::now(), is_told: false, is_counted: false });
        }
    }

    pub(super) fn opens(&mut self, opened: &Opened) {
        self.add(opened.tgid, What::Opens(Box::new(*opened)));
    }

    pub(super) fn maps(&mut self, pid: u32, mapping: &Arc<Mapping>, mapped_ns: u64) {
        self.add(pid, What::Maps(Arc::clone(mapping), mapped_ns));
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
        self.files.iter().filter(|file| file.misses_calls()).count() as u64
    }
}

impl Drop for Slow {
    /// However the recording ends.
    fn drop(&mut self) {
        self.let_all_go_on();
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
        for mut file in std::mem::take(&mut self.slow.files) {
            let is_running =
                self.processes.process(file.pid).is_some_and(|process| process.ended_ns().is_none());
            let asked = match &file.what {
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
                        self.slow.files.push(file);
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
