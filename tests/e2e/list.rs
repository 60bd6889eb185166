//! `xsched-ctl list`: the origins of a running process's work.

use std::io::Write as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Deserialize;
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::tracer::{Running, run, xsched_ctl};

/// How long the test waits for an answer.
const PATIENCE: Duration = Duration::from_mins(2);

/// The variable for the folder of the controller's sockets.
const FOLDER: &str = "XSCHED_SOCKET_DIR";

/// The parts of the answer that the test reads.
#[derive(Debug, Default, Deserialize)]
struct List {
    processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
struct Process {
    command: String,
    queues: Vec<Queue>,
}

#[derive(Debug, Deserialize)]
struct Queue {
    device_ns: u64,
    #[serde(default)]
    origins: Vec<Origin>,
}

#[derive(Debug, Deserialize)]
struct Origin {
    library: String,
    device_ns: u64,
}

impl Queue {
    fn of(&self, library: &str) -> u64 {
        self.origins.iter().filter(|origin| origin.library == library).map(|origin| origin.device_ns).sum()
    }
}

/// A controller, and a device that its processes share.
struct Node {
    folder: TempDir,
    controller: Option<Running>,
}

impl Node {
    fn serving(options: &[&str]) -> Self {
        let folder = TempDir::new().expect("the temporary folder is writable");
        let mut serve = xsched_ctl(["serve"].iter().chain(options));
        let mut controller = Running::start(serve.env(FOLDER, folder.path()));
        controller.wait_for_stderr("sockets in");
        Self { folder, controller: Some(controller) }
    }

    fn list(&self, options: &[&str]) -> String {
        let mut list = xsched_ctl(["list"].iter().chain(options));
        run(list.env(FOLDER, self.folder.path())).stdout
    }

    /// Starts a program with the shim, which runs until it is killed.
    fn start(&self, name: &str, arguments: &[&str]) -> Working {
        let mut command = Command::new(app(name));
        command
            .args(arguments)
            .env("LD_PRELOAD", shim())
            .env(FOLDER, self.folder.path())
            .env("HIP_SIM_SHARED", format!("list-{}", std::process::id()))
            .env("HIP_SIM_DURATIONS", "device_step=arg1us,callers_own=100us,callers_step=300us")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().expect("it was built");
        let mut stdin = child.stdin.take().expect("it is piped");
        // Each program waits for one or two lines.
        stdin.write_all(b"\n\n").expect("the pipe has room for two lines");
        Working(child)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.signal(Signal::TERM);
            drop(controller.finish());
        }
    }
}

struct Working(Child);

impl Drop for Working {
    fn drop(&mut self) {
        // If it has ended, it only needs to be reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program launches half of its kernels itself, and the others through a library.
fn shows_the_library_that_launched(node: &Node) {
    // The controller counts device time while several processes share a device.
    let _neighbour = node.start("sched_client", &["--us", "100", "--ahead", "4"]);
    let _callers = node.start("callers", &["steps", "1000000"]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let json = node.list(&["--json"]);
        let list: List = serde_json::from_str(&json).unwrap_or_default();
        let callers = list.processes.iter().find(|process| process.command == "callers");
        let is_shown = callers.and_then(|process| process.queues.first()).is_some_and(|queue| {
            let (own, library) = (queue.of("callers"), queue.of("librocblas.so.4"));
            let parts: u64 = queue.origins.iter().map(|origin| origin.device_ns).sum();
            // The shim reports the total and its parts one after the other. The parts are estimates where several commands
            // share a marker.
            own > 0 && library > 0 && parts == queue.device_ns
        });
        if is_shown {
            break;
        }
        assert!(Instant::now() < deadline, "{json}");
        thread::sleep(Duration::from_millis(3));
    }
    let text = node.list(&["--by", "origin"]);
    let shown = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("librocblas.so.4") && words.next() == Some("callers")
    };
    assert!(text.lines().any(shown), "{text}");
}

#[needs(nothing)]
fn the_list_shows_the_origins_of_a_processs_work() {
    shows_the_library_that_launched(&Node::serving(&["--no-bpf"]));
}

#[needs(ROOT)]
fn the_list_shows_the_origins_of_a_processs_work_where_programs_walk_stacks() {
    shows_the_library_that_launched(&Node::serving(&[]));
}

fn main() -> ExitCode {
    xsched_harness::main()
}
