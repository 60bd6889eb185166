//! Two processes under a controller, on AMD's own runtime.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use xsched_harness::needs;
use xsched_harness::needs::VM;

use crate::recording::{host, program, run};

/// The folder of the controller's sockets: not the folder shared with the host, which does not support sockets.
const FOLDER: &str = "/run/xsched-test";

/// The processor is emulated, and its host may be busy: verifying all BPF programs has taken minutes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(8);

/// A controller, which ends with its test, since it would affect other tests.
pub(crate) struct Controller(pub(crate) Child);

impl Drop for Controller {
    fn drop(&mut self) {
        // After a successful test it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A controller that answers, and its log.
pub(crate) fn serve(options: &[&str]) -> (Controller, PathBuf) {
    fs::create_dir_all(FOLDER).expect("/run is writable");
    let log = host("serve.log");
    let stderr = File::create(&log).expect("the shared folder is writable");
    let mut serve = command(&["serve"]);
    let controller = serve.args(options).stderr(Stdio::from(stderr)).spawn().expect("the program was staged");
    let controller = Controller(controller);
    answer(&["list", "--json"], |_| true);
    (controller, log)
}

/// A program of `programs/` that the controller schedules in this class.
pub(crate) fn scheduled(class: &str, program: &str) -> Command {
    let mut run_it = command(&["run", "--require-controller", "--shim"]);
    run_it.arg(host("libxsched_shim.so")).args(["--class", class, "--"]).arg(host(program));
    run_it.env("HSA_ENABLE_SDMA", "1");
    run_it
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(host("xsched-ctl"));
    command.args(arguments).env("XSCHED_SOCKET_DIR", FOLDER);
    command
}

/// Waits for a matching answer of the controller to a command; returns it.
pub(crate) fn answer(arguments: &[&str], is_as_wanted: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let outcome = run(&mut command(arguments));
        if outcome.code == 0 && is_as_wanted(&outcome.stdout) {
            return outcome.stdout;
        }
        assert!(Instant::now() < deadline, "{arguments:?}: {}{}", outcome.stdout, outcome.stderr);
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the program has a gate that the arbiter closes. It is a child of `xsched-ctl run`.
pub(crate) fn wait_for_gate(run: u32) {
    let children = fs::read_to_string(format!("/proc/{run}/task/{run}/children")).expect("`run` runs");
    let shown = answer(&["doctor", "--pid", children.trim()], |text| text.contains("gates        shared"));
    assert!(shown.contains("1 device: closed by the arbiter"), "{shown}");
}

#[needs(VM)]
fn two_processes_under_a_controller_do_the_same_as_alone() {
    let (mut controller, log) = serve(&[]);
    let alone = run(&mut program("queues"));
    assert_eq!(alone.code, 0, "{}{}", alone.stdout, alone.stderr);

    let under = |class: &'static str| thread::spawn(move || run(&mut scheduled(class, "queues")));
    let both = [under("high"), under("low")];
    // Both have joined; by the time of the answer they may have left again.
    let list = answer(&["list", "--json"], |list| list.contains("\"joined\":2,"));
    for running in both {
        let outcome = running.join().expect("the thread does not panic");
        assert_eq!((outcome.code, &outcome.stdout), (0, &alone.stdout), "{}; {list}", outcome.stderr);
    }

    let pid = Pid::from_child(&controller.0);
    kill_process(pid, Signal::TERM).expect("the controller runs");
    let status = controller.0.wait().expect("the controller is a child");
    let log = fs::read_to_string(log).expect("the log was created above");
    assert!(status.success(), "{status}: {log}");
    // This kernel accepted both kinds of BPF programs: those of the arbiter, and those for verdicts.
    assert!(log.contains("page kept by BPF programs"), "{log}");
    // An emulated processor beside other work may take seconds for what a real one does in a millisecond.
    let is_trouble = |line: &&str| line.contains("WARN") && !line.contains("takes too long");
    assert_eq!(log.lines().find(is_trouble), None, "{log}");
}
