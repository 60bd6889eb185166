//! Processes that come, load a runtime and go: none is too quick, and none is left out.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xsched_tests::artifacts::{app, hip_sim};
use xsched_tests::privileged::may_trace;
use xsched_tests::tracer::{Running, TracedCall, calls, run, xsched_ctl};

/// Traces a command; `None` and the reason on standard error if this user may not.
fn traced(test: &str, command: &[&str]) -> Option<Vec<TracedCall>> {
    if !may_trace(test) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let outcome = run(xsched_ctl(["trace", "-o"]).arg(&trace).arg("--").args(command));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
    Some(calls(&trace).unwrap())
}

/// Calls by library and function.
fn by_library(calls: &[TracedCall]) -> BTreeMap<(&str, &str), usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry((call.library.as_deref().unwrap_or("-"), call.name.as_str())).or_insert(0) += 1;
    }
    counts
}

fn launches(calls: &[TracedCall]) -> usize {
    calls.iter().filter(|call| call.category == "hip.launch").count()
}

/// A copy of the runtime that no process has ever mapped, so that no probe can be in it beforehand.
fn fresh_runtime(dir: &Path) -> PathBuf {
    let copy = dir.join("libamdhip64.so.6");
    fs::copy(hip_sim(6).join("libamdhip64.so.6"), &copy).unwrap();
    copy
}

#[test]
fn a_runtime_opened_late_is_recorded_from_its_first_call() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    let script = format!(
        "import ctypes
hip = ctypes.CDLL('{}')
for i in range(5): hip.hipDeviceSynchronize()",
        runtime.display()
    );
    let Some(calls) =
        traced("a_runtime_opened_late_is_recorded_from_its_first_call", &["python3", "-c", &script])
    else {
        return;
    };
    let counts = by_library(&calls);
    assert_eq!(counts.len(), 1, "{counts:?}");
    let ((library, function), count) = counts.iter().next().unwrap();
    assert_eq!((*function, *count), ("hipDeviceSynchronize", 5));
    assert!(library.starts_with("libffi.so"), "{library}");
}

#[test]
fn two_runtimes_in_one_process_are_both_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    let script = format!(
        "import ctypes
one = ctypes.CDLL('{}'); two = ctypes.CDLL('{}')
one.hipDeviceSynchronize(); two.hipDeviceSynchronize(); two.hipDeviceSynchronize()",
        runtime.display(),
        hip_sim(7).join("libamdhip64.so.7").display(),
    );
    let Some(calls) = traced("two_runtimes_in_one_process_are_both_recorded", &["python3", "-c", &script])
    else {
        return;
    };
    assert_eq!(calls.len(), 3, "{calls:#?}");
}

#[test]
fn children_and_their_children_are_recorded() {
    let vector_add = app("vector_add");
    let line = format!(
        "{0} --launches 20 & sh -c '{0} --launches 30'; wait; exec {0} --launches 50",
        vector_add.display()
    );
    let Some(calls) = traced("children_and_their_children_are_recorded", &["sh", "-c", &line]) else {
        return;
    };
    assert_eq!(launches(&calls), 100);
    assert!(
        calls.iter().all(|call| call.library.as_deref() == Some("vector_add")),
        "{:?}",
        by_library(&calls)
    );
}

#[test]
fn processes_beside_the_command_are_not_recorded() {
    let vector_add = app("vector_add");
    let mut beside = Command::new(&vector_add)
        .args(["--seconds", "20"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let command = [vector_add.to_str().unwrap(), "--launches", "25"];
    let calls = traced("processes_beside_the_command_are_not_recorded", &command);
    beside.kill().unwrap();
    beside.wait().unwrap();
    let Some(calls) = calls else { return };
    assert_eq!(launches(&calls), 25);
}

#[test]
fn a_storm_of_short_processes_is_recorded_whole() {
    let vector_add = app("vector_add");
    let line =
        format!("for i in $(seq 40); do {} --launches 3 > /dev/null & done; wait", vector_add.display());
    let Some(calls) = traced("a_storm_of_short_processes_is_recorded_whole", &["bash", "-c", &line]) else {
        return;
    };
    assert_eq!(launches(&calls), 120);
    let unnamed: Vec<_> = calls
        .iter()
        .filter(|call| {
            call.library.as_deref() != Some("vector_add")
                || call.category == "hip.launch" && call.kernel.as_deref() != Some("vector_add")
        })
        .collect();
    assert!(unnamed.is_empty(), "{unnamed:#?}");
}

#[test]
fn a_command_that_is_stopped_goes_on_when_the_tracer_is_killed() {
    if !may_trace("a_command_that_is_stopped_goes_on_when_the_tracer_is_killed") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let witness = dir.path().join("witness");
    // The command stops itself, as the tracer would stop it while it loads a runtime.
    let script = format!("echo stopping >&2; kill -STOP $$; echo alive > {}", witness.display());
    let mut tracer =
        Running::start(xsched_ctl(["trace", "-o", "/dev/null", "--", "sh", "-c", &script]).process_group(0));
    tracer.wait_for_stderr("stopping");
    std::thread::sleep(Duration::from_millis(200));
    assert!(!witness.exists(), "the command has not stopped");
    tracer.signal(Signal::KILL);
    tracer.finish();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !witness.exists() {
        assert!(Instant::now() < deadline, "the command is still stopped");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_shell_with_job_control_does_not_see_its_job_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    // `set -m` gives the job a process group of its own, and makes the shell wait for stopped children too.
    let script = format!(
        "set -m; python3 -c \"import ctypes; ctypes.CDLL('{}').hipDeviceSynchronize()\"; test $? -lt 128",
        runtime.display()
    );
    if !may_trace("a_shell_with_job_control_does_not_see_its_job_stopped") {
        return;
    }
    let outcome = run(&mut xsched_ctl(["trace", "-o", "/dev/null", "--", "bash", "-c", &script]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("Stopped"), "{}", outcome.stderr);
}
