//! The same program with the real controller, whose BPF programs walk its stack: rules see whole chains of calls.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xsched_tests::artifacts::{app_command, shim};
use xsched_tests::privileged::may_trace;
use xsched_tests::tracer::xsched_ctl;

/// Longer than anything takes that happens at all.
const LONG: Duration = Duration::from_secs(20);

/// `xsched-ctl serve` in a folder of its own, ended when dropped.
struct Controller {
    folder: TempDir,
    child: Child,
}

impl Controller {
    fn start(rules: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("rules.toml");
        fs::write(&file, rules).unwrap();
        let mut serve = xsched_ctl(["serve", "--rules"]);
        serve.arg(&file).env("XSCHED_SOCKET_DIR", folder.path()).stdout(Stdio::null());
        serve.stderr(File::create(folder.path().join("log")).unwrap());
        let mut controller = Self { child: serve.spawn().unwrap(), folder };
        let begin = Instant::now();
        while !controller.folder.path().join("shim.sock").exists() {
            assert!(begin.elapsed() < LONG, "the controller does not come up: {}", controller.log());
            thread::sleep(Duration::from_millis(10));
            // Another one may be about to end.
            if matches!(controller.child.try_wait(), Ok(Some(_))) {
                controller.child = serve.spawn().unwrap();
            }
        }
        controller
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Runs a mode of `callers` to its end; what it said on standard error, where every call is named that passes through, and
    /// in its log. Unwind tables are made when a stack first leads into a library: until then answers may come too late, and
    /// it is run again.
    fn run(&self, mode: &str, variables: &[(&str, &str)]) -> (String, String) {
        let begin = Instant::now();
        loop {
            let (said, log) = self.run_once(mode, variables);
            if !log.contains("answers that came too late") {
                return (said, log);
            }
            assert!(begin.elapsed() < 3 * LONG, "its answers always come too late: {log}{}", self.log());
        }
    }

    /// Begins when its callers are told apart by chains.
    fn run_once(&self, mode: &str, variables: &[(&str, &str)]) -> (String, String) {
        let arguments: Vec<_> = mode.split(' ').collect();
        let log = self.folder.path().join("shim.log");
        let _ = fs::remove_file(&log); // an earlier run's
        let mut command = app_command("callers", &arguments);
        command
            .env("LD_PRELOAD", shim())
            .env("XSCHED_SOCKET_DIR", self.folder.path())
            .env("XSCHED_LOG", &log)
            .env("XSCHED_VERBOSE", "2")
            .env("HIP_SIM_SHARED", "off")
            .envs(variables.iter().copied());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        self.wait_for_chains(child.id());
        input.write_all(b"\n\n").unwrap();
        let said: Vec<_> =
            BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).collect();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(child.wait().unwrap().success(), "{errors}");
        assert_eq!(said.last().map(String::as_str), Some("wrong 0"), "{said:?}");
        (errors, fs::read_to_string(log).unwrap())
    }

    fn wait_for_chains(&self, pid: u32) {
        let begin = Instant::now();
        loop {
            let mut doctor = xsched_ctl(["doctor", "--pid", &pid.to_string()]);
            let output = doctor.env("XSCHED_SOCKET_DIR", self.folder.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if said.contains("rules see the whole call chain") {
                return;
            }
            assert!(begin.elapsed() < LONG, "{said}{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let begin = Instant::now();
        while begin.elapsed() < LONG && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How often a call of this function by this library was said to pass through.
fn passes(said: &str, library: &str, function: &str) -> usize {
    said.lines().filter(|line| line.ends_with(&format!("{library} ({function})"))).count()
}

#[test]
fn a_search_is_known_by_the_whole_chain() {
    if !may_trace("a_search_is_known_by_the_whole_chain") {
        return;
    }
    let controller = Controller::start("");
    // By the runtime's dispatch tables, and by symbols.
    for tables in ["1", "0"] {
        let (said, log) = controller.run("find", &[("ROCPROFILER_REGISTER_ENABLED", tables)]);
        // Called by compiled stubs, of which the immediate caller says nothing.
        assert_eq!(passes(&said, "libMIOpen.so.1", "hipLaunchKernel"), 3, "{said}{}", controller.log());
        assert_eq!(passes(&said, "callers", "hipLaunchKernel"), 0, "{said}");
        assert!(log.contains("by the whole call chain"), "{log}");
    }
}

#[test]
fn a_rule_reaches_calls_below_a_library() {
    if !may_trace("a_rule_reaches_calls_below_a_library") {
        return;
    }
    let rules = "[[rule]]\nchain = 'libspeaker.so'\napi = 'hipLaunchKernel'\naction = 'passthrough'\n";
    let controller = Controller::start(rules);
    let (said, _) = controller.run("domain library 0", &[]);
    assert_eq!(passes(&said, "librocblas.so.4", "hipLaunchKernel"), 1, "{said}{}", controller.log());
    let (said, _) = controller.run("create", &[]);
    assert_eq!(passes(&said, "librocblas.so.4", "hipLaunchKernel"), 0, "the same call site: {said}");
}

#[test]
fn a_library_speaks_for_the_calls_below_it() {
    if !may_trace("a_library_speaks_for_the_calls_below_it") {
        return;
    }
    let controller = Controller::start("");
    let (_, log) = controller.run("domain library 1", &[]);
    // Its own fill, and the launch by librocblas.so.4.
    let line = log.lines().find(|line| line.ends_with("never suspended")).unwrap_or_default();
    assert_eq!(line.split_whitespace().next(), Some("2"), "{log}{}", controller.log());
}

#[test]
fn the_users_settings_reach_the_controller() {
    if !may_trace("the_users_settings_reach_the_controller") {
        return;
    }
    let controller = Controller::start("");
    let (said, _) = controller.run("domain library 0", &[("XSCHED_PASSTHROUGH_LIBS", "libspeaker")]);
    // Its own call, and the one by librocblas.so.4, which is on the classic list.
    assert_eq!(passes(&said, "libspeaker.so", "hipMemsetAsync"), 1, "{said}{}", controller.log());
    assert_eq!(passes(&said, "librocblas.so.4", "hipLaunchKernel"), 1, "{said}");
}

#[test]
fn a_known_call_site_asks_nobody() {
    if !may_trace("a_known_call_site_asks_nobody") {
        return;
    }
    let controller = Controller::start("");
    let (_, log) = controller.run("steps 2000", &[]);
    let asked = log.lines().find(|line| line.ends_with("by the whole call chain")).unwrap_or_default();
    let asked: u32 = asked.split_whitespace().next().unwrap_or("0").parse().unwrap();
    assert!((1..200).contains(&asked), "of 2000 launches {asked} asked:\n{log}\n{}", controller.log());
}
