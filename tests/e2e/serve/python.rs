//! The package `xsched` for Python: its own tests, and processes that ask for levels while they run.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use xsched_harness::needs;
use xsched_harness::needs::{ROOT, XTASK};
use xsched_tests::artifacts::{self, hip_sim, shim};
use xsched_tests::needs::HIP_PYTHON;

use super::fixture::{Controller, Process};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shim/python");
const LEVELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/serve/levels.py");

/// How long the test waits for the controller.
const PATIENCE: Duration = Duration::from_mins(1);

/// Debian's Python with the package as it is in the checkout.
fn python(arguments: &[impl AsRef<OsStr>]) -> Command {
    with_package(Path::new("/usr/bin/python3"), arguments)
}

fn with_package(interpreter: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(interpreter);
    command.env("PYTHONPATH", Path::new(PACKAGE).join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.args(arguments);
    command
}

/// Runs tests of the package, of which there must be some.
#[track_caller]
fn passes(tests: &[&str], shim: Option<&Path>) {
    let tests = tests.iter().map(|name| format!("{PACKAGE}/tests/test_{name}.py"));
    let mut command = python(&["-W", "error", "-m", "unittest", "-v"]);
    command.args(tests).current_dir("/").envs(shim.map(|shim| ("LD_PRELOAD", shim)));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("... ok"), "{said}");
}

#[needs(XTASK)]
fn the_package_refuses_misuse_and_restores_what_was_before() {
    passes(&["contexts", "without_shim"], None);
    passes(&["with_shim"], Some(&shim()));
}

/// The classes of all processes, sorted.
fn classes(controller: &Controller) -> Vec<String> {
    let list = controller.list();
    let processes = list["processes"].as_array().unwrap().iter();
    let mut classes: Vec<_> = processes.map(|one| one["class"].as_str().unwrap().to_owned()).collect();
    classes.sort();
    classes
}

#[track_caller]
fn wait_for_classes(controller: &Controller, wanted: [&str; 3]) {
    let deadline = Instant::now() + PATIENCE;
    while classes(controller) != wanted {
        assert!(Instant::now() < deadline, "{}", controller.list());
        thread::sleep(Duration::from_millis(10));
    }
}

/// How a process calls its runtime.
#[derive(Clone, Copy)]
enum By {
    Ctypes,
    HipPython,
}

/// Starts a process that asks for these levels.
fn started(controller: &Controller, by: By, levels: &[&str]) -> Process {
    let mut command = match by {
        By::Ctypes => {
            let mut command = python(&[LEVELS]);
            command.arg(hip_sim(6).join("libamdhip64.so.6"));
            command
        }
        By::HipPython => {
            let mut command = with_package(&artifacts::python(), &[LEVELS, "hip-python"]);
            command.env("LD_LIBRARY_PATH", hip_sim(6));
            command
        }
    };
    command.args(levels);
    command.env("LD_PRELOAD", shim()).env("XSCHED_SOCKET_DIR", controller.folder());
    // A fill takes 4 ms.
    command.env("HIP_SIM_SHARED", format!("python-{}", std::process::id())).env("HIP_SIM_MEMORY_GB_S", "1");
    Process::start(&mut command)
}

/// The priorities that queues of their own have, sorted.
fn of_queues(controller: &Controller) -> Vec<i64> {
    let list = controller.list();
    let queues =
        list["processes"].as_array().unwrap().iter().flat_map(|one| one["queues"].as_array().unwrap());
    let mut priorities: Vec<_> =
        queues.filter_map(|queue| queue["parameters"]["priority"].as_i64()).collect();
    priorities.sort_unstable();
    priorities
}

#[needs(ROOT, XTASK)]
fn three_streams_of_a_python_process_finish_in_the_order_of_their_levels() {
    let controller = Controller::start("[[ceiling]]\nclass = 'high'\n");
    let mut process = started(&controller, By::Ctypes, &["low", "high", "normal"]);
    assert_eq!(process.read()["entered"], true);
    let deadline = Instant::now() + PATIENCE;
    while of_queues(&controller) != [-100, 0, 100] {
        assert!(Instant::now() < deadline, "{}", controller.list());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(process.ask("")["order"], serde_json::json!(["high", "normal", "low"]));
    assert_eq!(process.ask("")["left"], true);
}

#[needs(ROOT, XTASK)]
fn three_python_processes_finish_in_the_order_of_their_levels() {
    three_processes(By::Ctypes);
}

#[needs(ROOT, HIP_PYTHON)]
fn three_processes_of_hip_python_finish_in_the_order_of_their_levels() {
    three_processes(By::HipPython);
}

#[track_caller]
fn three_processes(by: By) {
    let controller = Controller::start("[[ceiling]]\nclass = 'high'\n");
    // In another order than that in which they are to finish.
    let levels = ["low", "high", "normal"];
    let mut processes = levels.map(|level| started(&controller, by, &[level]));
    for process in &mut processes {
        assert_eq!(process.read()["joined"], true);
    }
    wait_for_classes(&controller, ["normal"; 3]);
    for process in &mut processes {
        assert_eq!(process.ask("")["entered"], true);
    }
    // What they ask for arrives while they run.
    wait_for_classes(&controller, ["high", "low", "normal"]);
    for process in &mut processes {
        process.tell("");
    }
    let done: Vec<Value> = processes.iter_mut().map(Process::read).collect();
    for (level, said) in levels.iter().zip(&done) {
        assert_eq!((&said["class_name"], &said["source"]), (&(*level).into(), &"hint".into()), "{said}");
        assert_eq!(said["scheduling"], "controller");
    }
    let mut order: Vec<_> =
        levels.iter().zip(&done).map(|(level, said)| (said["done_ns"].as_u64(), *level)).collect();
    order.sort_unstable();
    assert_eq!(
        order.iter().map(|(_, level)| *level).collect::<Vec<_>>(),
        ["high", "normal", "low"],
        "{order:?}"
    );
    for process in &mut processes {
        assert_eq!(process.ask("")["left"], true);
    }
    wait_for_classes(&controller, ["normal"; 3]);
}
