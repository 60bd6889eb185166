//! Tests that need a process of their own, because they need another environment or affect every thread.

use std::env;
use std::process::Command;
use std::thread;

/// Set in the process that runs a single test.
const MARK: &str = "HIP_SIM_TEST_ALONE";

/// Runs the calling test's body in a new process, with these variables set.
pub(crate) fn run(variables: &[(&str, &str)], body: impl FnOnce()) {
    if env::var_os(MARK).is_some() {
        return body();
    }
    let thread = thread::current();
    let test = thread.name().expect("the test harness names its threads after tests");
    let binary = env::current_exe().expect("a test binary has a path");
    let mut command = Command::new(binary);
    command.args(["--exact", test, "--nocapture"]).env(MARK, "1").envs(variables.iter().copied());
    let output = command.output().expect("the test's own binary can be started");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "alone:\n{text}");
}
