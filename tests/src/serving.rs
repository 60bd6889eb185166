//! `xsched-ctl serve` in a folder of its own, for tests of verdicts on calls.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::tracer::xsched_ctl;

/// Longer than any step takes that succeeds, even on an emulated processor.
const PATIENCE: Duration = Duration::from_mins(2);

/// A controller; dropping it ends it.
#[derive(Debug)]
pub struct Serving {
    folder: TempDir,
    child: Child,
    serve: Command,
    /// What `doctor` prints about a process that knows where its verdicts come from.
    verdict_source: &'static str,
}

impl Serving {
    /// Starts a controller with these rules, and waits for its sockets.
    ///
    /// # Errors
    ///
    /// Those of the system calls; if it does not start, its log.
    pub fn start(rules: &str) -> io::Result<Self> {
        Self::start_with(rules, &[], "rules see the whole call chain")
    }

    /// Starts one without BPF: processes decide themselves, by the immediate callers.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn start_without_bpf(rules: &str) -> io::Result<Self> {
        Self::start_with(rules, &["--no-bpf"], "rules see the immediate caller only")
    }

    /// Starts one that decides and suspends no process.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn start_observing() -> io::Result<Self> {
        Self::start_with("", &["--observe"], "rules see the whole call chain")
    }

    /// Starts one that answers requests for metrics at this address.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn start_with_metrics(address: &str) -> io::Result<Self> {
        Self::start_with("", &["--metrics", address], "rules see the whole call chain")
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn start_with(rules: &str, options: &[&str], verdict_source: &'static str) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let file = folder.path().join("rules.toml");
        fs::write(&file, rules)?;
        let mut serve = xsched_ctl(["serve", "--rules"]);
        serve.arg(&file).args(options).env("XSCHED_SOCKET_DIR", folder.path()).stdout(Stdio::null());
        serve.stderr(File::create(folder.path().join("log"))?);
        let child = serve.spawn()?;
        let mut serving = Self { folder, child, serve, verdict_source };
        serving.wait_for_answer()?;
        Ok(serving)
    }

    /// Kills it, and starts another in the same folder.
    ///
    /// # Errors
    ///
    /// As for [`Self::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = self.serve.spawn()?;
        self.wait_for_answer()
    }

    fn wait_for_answer(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        // Its sockets exist before it answers, which on a busy machine is longer than commands wait.
        while !self.answers()? {
            if begin.elapsed() > PATIENCE {
                let said = self.log();
                return Err(io::Error::other(format!("the controller does not start: {said}")));
            }
            thread::sleep(Duration::from_millis(10));
            // Another controller may still be ending.
            if self.child.try_wait()?.is_some() {
                self.child = self.serve.spawn()?;
            }
        }
        Ok(())
    }

    /// Whether it answers a command.
    fn answers(&self) -> io::Result<bool> {
        let is_there = self.folder().join("shim.sock").exists();
        let list = || xsched_ctl(["list"]).env("XSCHED_SOCKET_DIR", self.folder()).output();
        Ok(is_there && list()?.status.success())
    }

    /// The folder of its sockets: `XSCHED_SOCKET_DIR` of its clients.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in its folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Waits until this number of processes have joined and have a queue each.
    ///
    /// # Errors
    ///
    /// Those of the system calls, and a timeout.
    pub fn wait_for_queues(&self, processes: usize) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            let output = xsched_ctl(["list", "--json"]).env("XSCHED_SOCKET_DIR", self.folder()).output()?;
            let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let with_queues = list["processes"].as_array().into_iter().flatten();
            let count =
                with_queues.filter(|process| process["queues"].as_array().is_some_and(|it| !it.is_empty()));
            if count.count() >= processes {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{processes} processes have not joined: {list}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a process knows where its verdicts come from: programs that see the whole call chain, or itself by the
    /// immediate callers.
    ///
    /// # Errors
    ///
    /// Those of the system calls; after a timeout, the last output of `doctor`.
    pub fn wait_for_verdict_source(&self, pid: u32) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            let mut doctor = xsched_ctl(["doctor", "--pid", &pid.to_string()]);
            let output = doctor.env("XSCHED_SOCKET_DIR", self.folder()).output()?;
            let said = String::from_utf8_lossy(&output.stdout);
            if said.contains(self.verdict_source) {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{said}{}", self.log())));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
