//! The controller, in a folder of its own, for the duration of one measurement.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use xsched_tests::{artifacts, tracer::xsched_ctl};

use crate::{client::Parameters, result::Result};

/// Time limit for its start, for clients to join, and for its end.
const TIMEOUT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// The variable by which processes find their controller.
const FOLDER_VARIABLE: &str = "XSCHED_SOCKET_DIR";

/// The controller's configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheduling {
    pub(crate) policy: &'static str,
    /// The preemption mode. 1 stops launching; 2 also gates queued commands.
    pub(crate) mode: u32,
    /// The time after which a process that is kept waiting gets a time slice; none: the default.
    pub(crate) starvation: Option<&'static str>,
}

impl Scheduling {
    fn config(self) -> String {
        let Self { policy, mode, starvation } = self;
        let starvation = starvation.map_or(String::new(), |time| format!("starvation = \"{time}\"\n"));
        format!("[scheduler]\npolicy = \"{policy}\"\npreemption = {mode}\n{starvation}")
    }
}

/// Whether a controller can run here; tries by starting one.
pub(crate) fn try_out() -> Result<()> {
    let folder = tempfile::tempdir()?;
    Controller::start(folder.path(), Scheduling { policy: "priority", mode: 1, starvation: None }).map(drop)
}

fn spawn(folder: &Path, scheduling: Scheduling) -> Result<Child> {
    let config = folder.join("config.toml");
    fs::write(&config, scheduling.config())?;
    let mut serve = xsched_ctl(["serve", "--config"]);
    Ok(serve.arg(&config).env(FOLDER_VARIABLE, folder).stdout(Stdio::null()).spawn()?)
}

/// A running controller; stopped when dropped.
pub(crate) struct Controller {
    child: Child,
    folder: PathBuf,
}

impl Controller {
    /// Starts a controller and waits until it answers.
    pub(crate) fn start(folder: &Path, scheduling: Scheduling) -> Result<Self> {
        let folder = folder.join("controller");
        fs::create_dir(&folder)?;
        let mut controller = Self { child: spawn(&folder, scheduling)?, folder };
        controller.wait_until(|clients| clients.is_some(), "come up")?;
        Ok(controller)
    }

    /// Starts another in place of one that ends or was killed.
    pub(crate) fn restart(&mut self, scheduling: Scheduling) -> Result<()> {
        self.child.wait()?;
        self.child = spawn(&self.folder, scheduling)?;
        self.wait_until(|clients| clients.is_some(), "come up again")
    }

    /// The folder of its sockets.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until this many processes have joined.
    pub(crate) fn wait_for_clients(&mut self, count: usize) -> Result<()> {
        self.wait_until(|clients| clients >= Some(count), "see its clients join")
    }

    fn wait_until(&mut self, is_reached: impl Fn(Option<usize>) -> bool, what: &str) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !is_reached(self.clients()) {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the controller ended with {status} before it could {what}").into());
            }
            if Instant::now() > deadline {
                return Err(format!("the controller did not {what} within {TIMEOUT:?}").into());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).ok_or("a controller has no pid")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Sends it an order through a command. False if the order is refused, or no controller runs.
    pub(crate) fn order(&self, words: &[&str]) -> Result<bool> {
        let mut command = xsched_ctl(words);
        command.env(FOLDER_VARIABLE, &self.folder).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status()?.success())
    }

    /// Waits until the controller distinguishes a process's calls by call chains, if it does so at all. A
    /// controller that has just started takes a moment for the first processes.
    pub(crate) fn wait_for_call_chains(&mut self, pid: u32) -> Result<()> {
        const BY_CHAINS: &str = "rules see the whole call chain";
        let knows = |list: serde_json::Value| list["controller"]["sight"] == "chains";
        if !self.list().is_some_and(knows) {
            return Ok(());
        }
        let pid = pid.to_string();
        let folder = self.folder.clone();
        let is_seen = || {
            let mut doctor = xsched_ctl(["doctor", "--pid", &pid]);
            let output = doctor.env(FOLDER_VARIABLE, &folder).stderr(Stdio::null()).output();
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(BY_CHAINS))
        };
        self.wait_until(|_| is_seen(), "see the calls of its clients")
    }

    /// Number of processes that have joined; none if it does not answer.
    pub(crate) fn clients(&self) -> Option<usize> {
        Some(self.list()?.get("processes")?.as_array()?.len())
    }

    fn list(&self) -> Option<serde_json::Value> {
        let mut list = xsched_ctl(["list", "--json"]);
        let output = list.env(FOLDER_VARIABLE, &self.folder).stderr(Stdio::null()).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// A command that runs a program with the shim.
    pub(crate) fn command(&self, parameters: Parameters, program: &Command) -> Command {
        let mut run = xsched_ctl(["run", "--require-controller", "--shim"]);
        run.arg(artifacts::shim()).args(parameters.options());
        run.arg("--").arg(program.get_program()).args(program.get_args());
        run.env(FOLDER_VARIABLE, &self.folder);
        run
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM); // it may have ended
        }
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
