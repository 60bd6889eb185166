//! `libxsched_shim.so`: programs do with it what they do without it.

use std::process::Command;

use xsched_tests::artifacts::{app, hip_sim, shim};
use xsched_tests::privileged::may_trace;
use xsched_tests::tracer::{Outcome, calls, run, xsched_ctl};

fn with_and_without(command: impl Fn() -> Command) -> (Outcome, Outcome) {
    (run(command().env("LD_PRELOAD", shim())), run(&mut command()))
}

#[track_caller]
fn assert_unchanged(command: impl Fn() -> Command) -> Outcome {
    let (with, without) = with_and_without(command);
    assert_eq!((with.code, &with.stdout, &with.stderr), (without.code, &without.stdout, &without.stderr));
    with
}

#[test]
fn hip_programs_compute_the_same() {
    for (name, arguments) in [
        ("vector_add", &["--launches", "200"][..]),
        ("two_libraries", &["--launches", "600"]),
        ("two_libraries", &["--launches", "600", "--threads", "4"]),
    ] {
        let outcome = assert_unchanged(|| {
            let mut command = Command::new(app(name));
            command.args(arguments);
            command
        });
        assert!(outcome.stdout.trim_end().ends_with(", ok"), "{}", outcome.stdout);
    }
}

#[test]
fn a_program_of_each_runtime_generation_computes_the_same() {
    // The program was linked against generation 6, and runs on any that has its symbols.
    for major in [5, 6, 7] {
        let script = format!(
            "import ctypes
hip = ctypes.CDLL('{}')
stream = ctypes.c_void_p()
print(hip.hipStreamCreate(ctypes.byref(stream)), hip.hipStreamSynchronize(stream), hip.hipStreamDestroy(stream))",
            hip_sim(major).join(format!("libamdhip64.so.{major}")).display()
        );
        let outcome = assert_unchanged(|| {
            let mut command = Command::new("python3");
            command.args(["-c", &script]);
            command
        });
        assert_eq!(outcome.stdout, "0 0 0\n");
    }
}

#[test]
fn programs_without_hip_do_not_notice() {
    for (program, arguments) in [
        (
            "python3",
            &["-c", "import json, sys, subprocess; print(json.dumps(sys.version_info[:2])); sys.exit(4)"][..],
        ),
        ("bash", &["-c", "echo out; echo err >&2; (exit 7)"]),
        ("ls", &["-l", "/"]),
        ("gcc", &["-E", "-x", "c", "/dev/null"]),
    ] {
        assert_unchanged(|| {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        });
    }
}

#[test]
fn a_traced_program_with_the_shim_shows_every_launch_once() {
    if !may_trace("a_traced_program_with_the_shim_shows_every_launch_once") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let outcome = run(xsched_ctl(["trace", "-o"])
        .arg(&trace)
        .args(["--", "env"])
        .arg(format!("LD_PRELOAD={}", shim().display()))
        .arg(app("two_libraries"))
        .args(["--launches", "90"]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let calls = calls(&trace).unwrap();
    let launches: Vec<_> = calls.iter().filter(|call| call.category == "hip.launch").collect();
    assert_eq!(launches.len(), 90);
    assert!(launches.iter().all(|call| call.kernel.is_some()), "{launches:#?}");
    // The shim jumps to the runtime instead of calling it, so the caller is still the one that called.
    let from =
        |library: &str| launches.iter().filter(|call| call.library.as_deref() == Some(library)).count();
    assert_eq!((from("two_libraries"), from("libdemo_kernels.so")), (60, 30));
}
