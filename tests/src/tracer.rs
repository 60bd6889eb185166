//! Runs `xsched-ctl`, and the programs that it traces, as from a shell.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::Deserialize;

use crate::artifacts;
use crate::sql::{Sql, SqlError};

/// How long a test waits for any event.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until a condition holds, up to a minute on a slow machine.
///
/// # Panics
///
/// If it does not hold after a minute.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a trace's file has this number of bytes. The tracer writes a quarter of a MiB at a time, which holds more than
/// a thousand calls.
///
/// # Panics
///
/// If the file is smaller after a minute.
#[track_caller]
pub fn wait_for_bytes(trace: &Path, count: u64) {
    let is_there = || std::fs::metadata(trace).is_ok_and(|file| file.len() >= count);
    wait_until(&format!("{count} bytes in {}", trace.display()), is_there);
}

/// Number of scheduling event rings that a process has mapped: one in a recorded process; in the tracer one for each of these
/// and one for the arbiter.
#[must_use]
pub fn event_rings(pid: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.matches("/memfd:xsched-events").count()
}

/// `xsched-ctl` with these arguments.
pub fn xsched_ctl<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(artifacts::xsched_ctl());
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Exit code and output of a command.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code; 128 + N if signal N ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// The same command in a time namespace of its own, whose boot time is so many seconds ahead of the machine's.
#[must_use]
pub fn in_time_namespace(seconds: i64, command: &Command) -> Command {
    let mut outer = Command::new("unshare");
    outer
        .args(["--time", "--boottime"])
        .arg(seconds.to_string())
        .arg(command.get_program())
        .args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}

/// Runs a command to its end.
///
/// # Panics
///
/// If it cannot be started.
pub fn run(command: &mut Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Outcome {
        code: exit_code(output.status),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .expect("a process that was waited for has ended")
}

/// A command that runs beside the test. Dropping it kills it.
pub struct Running {
    child: Child,
    stdout: Stream,
    stderr: Stream,
}

/// Output stream of a command, so far.
struct Stream {
    lines: Receiver<String>,
    text: String,
}

impl Stream {
    fn read(pipe: Option<impl Read + Send + 'static>) -> Self {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let Some(pipe) = pipe else { return };
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            // Output up to a read error is kept.
            while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Self { lines, text: String::new() }
    }

    /// Waits for a line with `wanted`; `Err` when there is none before the end or the deadline.
    fn wait_for(&mut self, wanted: &str, deadline: Instant) -> Result<String, RecvTimeoutError> {
        loop {
            let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))?;
            self.text.push_str(&line);
            if line.contains(wanted) {
                return Ok(line.trim_end().to_owned());
            }
        }
    }

    /// Everything up to the end.
    fn rest(mut self, deadline: Instant) -> String {
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.text.push_str(&line);
        }
        self.text
    }
}

impl Running {
    /// Starts it and collects its output.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        Self::start_with_stdout(command, Stdio::piped())
    }

    /// Starts it with this standard output.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_with_stdout(command: &mut Command, stdout: Stdio) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (stdout, stderr) = (Stream::read(child.stdout.take()), Stream::read(child.stderr.take()));
        Self { child, stdout, stderr }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has written a line with `text` to standard error, and returns the line.
    ///
    /// # Panics
    ///
    /// If it ends, or a minute passes, before that.
    #[track_caller]
    pub fn wait_for_stderr(&mut self, text: &str) -> String {
        match self.stderr.wait_for(text, Instant::now() + PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no `{text}` on standard error ({error}) but: {}", self.stderr.text),
        }
    }

    /// As [`wait_for_stderr`](Self::wait_for_stderr), for standard output.
    ///
    /// # Panics
    ///
    /// If it ends, or a minute passes, before that.
    #[track_caller]
    pub fn wait_for_stdout(&mut self, text: &str) -> String {
        match self.stdout.wait_for(text, Instant::now() + PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no `{text}` on standard output ({error}) but: {}", self.stdout.text),
        }
    }

    /// Sends its process group a signal, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        // As in `signal`.
        let _ = rustix::process::kill_process_group(pid(self.pid()), signal);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // It fails only if the process has ended; then its outcome shows the cause.
        let _ = rustix::process::kill_process(pid(self.pid()), signal);
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it takes more than a minute.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "still running after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        };
        let take = |stream: &mut Stream| {
            std::mem::replace(stream, Stream::read(None::<std::io::Empty>)).rest(deadline)
        };
        Outcome { code: exit_code(status), stdout: take(&mut self.stdout), stderr: take(&mut self.stderr) }
    }

    /// Ctrl-C, then [`finish`](Self::finish).
    #[track_caller]
    pub fn interrupt(self) -> Outcome {
        self.signal(Signal::INT);
        self.finish()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the id of a child is a valid one")
}

/// A call as Perfetto's engine reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct TracedCall {
    /// The function.
    pub name: String,
    /// `hip.launch`, `cuda.launch`, …
    pub category: String,
    /// The calling library.
    pub library: Option<String>,
    /// The calling function.
    pub caller: Option<String>,
    /// The kernel.
    pub kernel: Option<String>,
    /// `XxYxZ` blocks.
    pub grid: Option<String>,
    /// `XxYxZ` threads.
    pub block: Option<String>,
    /// Size of a copy.
    pub bytes: Option<i64>,
    /// The return code, of functions that have one.
    pub returned: Option<i64>,
}

/// All calls of a trace, sorted, after checking that the engine finds no fault.
///
/// # Errors
///
/// If the engine does not load the trace.
pub fn calls(trace: &Path) -> Result<Vec<TracedCall>, SqlError> {
    let mut sql = Sql::open(trace)?;
    sql.assert_clean();
    let mut calls: Vec<TracedCall> = sql.query_as(
        "select name, category,
            extract_arg(arg_set_id, 'debug.library') as library,
            extract_arg(arg_set_id, 'debug.caller') as caller,
            extract_arg(arg_set_id, 'debug.kernel') as kernel,
            extract_arg(arg_set_id, 'debug.grid') as grid,
            extract_arg(arg_set_id, 'debug.block') as block,
            extract_arg(arg_set_id, 'debug.bytes') as bytes,
            iif(category = 'hip.register', null, extract_arg(arg_set_id, 'debug.return')) as returned
         from slice where category glob 'hip.*' or category glob 'cuda.*'",
    )?;
    calls.sort();
    Ok(calls)
}
