//! A controller in a folder of its own, and processes that talk to it.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use xsched_protocol::arbiter_page::PAGE_VERSION;
use xsched_protocol::wire::WIRE_VERSION;
use xsched_tests::artifacts::xsched_ctl as binary;
use xsched_tests::tracer::{Outcome, Running, run, xsched_ctl};

const PROCESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/serve/process.py");

/// A folder for a controller's sockets, and the controller.
pub(crate) struct Controller {
    folder: TempDir,
    running: Option<Running>,
    has_programs: bool,
    /// A script that runs its arguments, for the controller.
    wrapper: Option<PathBuf>,
}

impl Controller {
    /// Starts one with this configuration, without BPF programs. Levels change only by the test's own actions, unless the
    /// configuration says otherwise.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, false, None)
    }

    /// Starts one with BPF programs.
    pub(crate) fn start_with_programs(config: &str) -> Self {
        Self::start_with(config, true, None)
    }

    /// Starts one by this script, which runs its arguments.
    pub(crate) fn start_by(wrapper: PathBuf, config: &str) -> Self {
        Self::start_with(config, false, Some(wrapper))
    }

    /// The same with BPF programs.
    pub(crate) fn start_with_programs_by(wrapper: PathBuf, config: &str) -> Self {
        Self::start_with(config, true, Some(wrapper))
    }

    fn start_with(config: &str, has_programs: bool, wrapper: Option<PathBuf>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Other users must reach the sockets.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let mut controller = Self { folder, running: None, has_programs, wrapper };
        controller.restart(config);
        controller
    }

    /// Starts another controller in the same folder.
    pub(crate) fn restart(&mut self, config: &str) {
        let file = self.write(config);
        let mut command = match &self.wrapper {
            Some(wrapper) => Command::new(wrapper),
            None => xsched_ctl([""; 0]),
        };
        command.args(self.wrapper.as_ref().map(|_| binary())).env("XSCHED_SOCKET_DIR", self.folder.path());
        command.arg("serve").args((!self.has_programs).then_some("--no-bpf"));
        let mut running = Running::start(command.arg("--config").arg(file));
        running.wait_for_stderr("sockets in");
        self.running = Some(running);
    }

    /// Gives it another configuration, and waits for this message about it.
    #[track_caller]
    pub(crate) fn reload(&mut self, config: &str, said: &str) -> String {
        self.write(config);
        self.process().signal(Signal::HUP);
        self.process().wait_for_stderr(said)
    }

    /// Writes its configuration, with settings that avoid changes by time.
    fn write(&self, config: &str) -> PathBuf {
        let file = self.folder.path().join("config.toml");
        let quiet = "[scheduler]\nlease = '10s'\nstarvation = '0s'\n";
        std::fs::write(
            &file,
            config
                .strip_prefix("[scheduler]\n")
                .map_or_else(|| format!("{config}{quiet}"), |more| format!("{quiet}{more}")),
        )
        .unwrap();
        file
    }

    /// The controller's process.
    pub(crate) fn process(&mut self) -> &mut Running {
        self.running.as_mut().expect("the controller runs")
    }

    /// Waits for the controller's end.
    pub(crate) fn finish(&mut self) -> Outcome {
        self.running.take().expect("the controller runs").finish()
    }

    /// The folder of its sockets.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `xsched-ctl` with these arguments, for this controller.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = xsched_ctl(arguments);
        command.env("XSCHED_SOCKET_DIR", self.folder.path());
        command
    }

    /// Runs a command that must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn say(&self, arguments: &[&str]) -> String {
        let outcome = run(&mut self.command(arguments));
        assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
        outcome.stdout
    }

    /// Runs a command that must fail; returns its exit code and standard error.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let outcome = run(&mut self.command(arguments));
        assert_ne!(outcome.code, 0, "{arguments:?}: {}", outcome.stdout);
        (outcome.code, outcome.stderr)
    }

    /// The output of `list --json`.
    #[track_caller]
    pub(crate) fn list(&self) -> Value {
        serde_json::from_str(&self.say(&["list", "--json"])).unwrap()
    }

    /// The entry of this process in it.
    #[track_caller]
    pub(crate) fn listed(&self, process: &Process) -> Value {
        let list = self.list();
        let pid = process.id();
        let found = list["processes"].as_array().unwrap().iter().find(|one| one["pid"] == pid);
        found.unwrap_or_else(|| panic!("process {pid} is not listed: {list}")).clone()
    }

    /// Starts a process that has not connected yet.
    pub(crate) fn process_of(&self, uid: u32) -> Process {
        let mut command = python(self.folder.path());
        // A working directory that every user may use.
        command.uid(uid).current_dir("/");
        Process::start(&mut command)
    }

    /// Starts a process that connects with a priority of its own, and opens a queue on a device.
    #[track_caller]
    pub(crate) fn joined(&self, priority: i32, bus: u32) -> Process {
        let mut process = self.process_of(0);
        let welcome = process.ask(&format!("connect {priority}"));
        assert_eq!(welcome["keeper"], 2, "{welcome}");
        process.open(bus);
        process
    }
}

/// The command of a process that talks to the controller in a folder.
pub(crate) fn python(folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg(PROCESS).arg(folder).args([WIRE_VERSION.to_string(), PAGE_VERSION.to_string()]);
    command
}

/// A process that obeys commands.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    slot: u64,
    generation: u64,
}

impl Process {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { stdin: child.stdin.take(), child, stdout, slot: 0, generation: 0 }
    }

    /// Its id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a command, and returns its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, order: &str) -> Value {
        self.tell(order);
        self.read()
    }

    /// Sends it a line, and does not wait.
    #[track_caller]
    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{order}").unwrap();
    }

    /// Waits for its next answer.
    #[track_caller]
    pub(crate) fn read(&mut self) -> Value {
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// Opens a queue, which its reports are about from now on.
    #[track_caller]
    pub(crate) fn open(&mut self, bus: u32) {
        let opened = self.ask(&format!("open {bus}"));
        self.slot = opened["slot"].as_u64().unwrap_or_else(|| panic!("{opened}"));
        self.generation = opened["generation"].as_u64().unwrap();
    }

    /// Its queue.
    pub(crate) fn slot(&self) -> u64 {
        self.slot
    }

    /// Reports the device time of its queue, and one more command each time.
    pub(crate) fn use_device(&mut self, device_ns: u64) {
        let (slot, generation) = (self.slot, self.generation);
        self.ask(&format!("usage {slot} {generation} {device_ns}"));
    }

    /// Reports device time of its queue for a library of its own.
    pub(crate) fn divide(&mut self, device_ns: u64) {
        let (slot, generation) = (self.slot, self.generation);
        self.ask(&format!("divide {slot} {generation} {device_ns}"));
    }

    /// Reports about its queue.
    pub(crate) fn report(&mut self, what: &str) {
        let (slot, generation) = (self.slot, self.generation);
        self.ask(&format!("report {what} {slot} {generation}"));
    }

    /// The level of its queue.
    #[track_caller]
    pub(crate) fn level(&mut self) -> u64 {
        let slot = self.slot;
        self.ask(&format!("level {slot}"))["level"].as_u64().unwrap()
    }

    /// Waits until a device's ready mask is this.
    #[track_caller]
    pub(crate) fn wait_for_ready(&mut self, bus: u32, mask: u64) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        loop {
            let page = self.ask("look");
            if page["devices"][bus.to_string()]["ready"] == mask {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "the mask is not {mask:#x} but {page}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // The process ends at the end of its input; both calls fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with a slow remote name service, and a script that runs a command with this service.
pub(crate) fn far_away_users() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/serve/name_service.c");
    let mut compiler = Command::new("cc");
    let built =
        compiler.args(["-shared", "-fPIC", source, "-o"]).arg(at("libnss_faraway.so.2")).status().unwrap();
    assert!(built.success());
    std::fs::write(at("nsswitch.conf"), "passwd: files faraway\n").unwrap();
    let here = folder.path().display();
    let script = format!(
        "#!/bin/sh\nexport LD_LIBRARY_PATH={here} FARAWAY_SLOW={here}/slow\n\
         exec unshare --mount sh -c 'mount --bind {here}/nsswitch.conf /etc/nsswitch.conf && exec \"$@\"' sh \"$@\"\n"
    );
    let wrapper = executable(&folder, &script);
    (folder, wrapper)
}

/// A script that runs its arguments in a pid namespace of its own, as in a container.
pub(crate) fn container() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\nexec unshare --mount --pid --fork --kill-child --mount-proc \"$@\"\n";
    let wrapper = executable(&folder, script);
    (folder, wrapper)
}

pub(crate) fn executable(folder: &TempDir, script: &str) -> PathBuf {
    let path = folder.path().join("run");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}
