//! `xsched-ctl attach`: watches a running process, which is not changed by it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, app_copy};
use xsched_tests::bpf_objects::BpfObjects;
use xsched_tests::tracer::{Running, calls, run, xsched_ctl};

#[needs(ROOT)]
fn attaching_does_not_change_results_and_leaves_nothing_in_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut app =
        Running::start(Command::new(app("two_libraries")).args(["--seconds", "120", "--interval-us", "100"]));
    app.wait_for_stdout("ready ");
    let pid = app.pid().to_string();
    let mut tracer =
        Running::start(xsched_ctl(["attach", "--pid", &pid, "--interval", "0.5", "-o"]).arg(&trace));
    tracer.wait_for_stderr("Ctrl-C detaches");
    for _ in 0..2 {
        tracer.wait_for_stdout("other calls");
    }
    let objects = BpfObjects::of_process(tracer.pid());
    assert!(
        objects.programs.len() >= 2 && objects.maps.len() >= 4 && objects.links.len() >= 2,
        "{objects:?}"
    );
    assert_eq!(objects.still_loaded(), objects);

    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(objects.left_behind(), BpfObjects::default());

    // Live summaries, then the final one; the libraries by name.
    assert!(outcome.stdout.matches("other calls").count() >= 3, "{}", outcome.stdout);
    let last = outcome.stdout.rfind("other calls").unwrap();
    for library in ["two_libraries", "libdemo_kernels.so", "libdemo_blas.so"] {
        assert!(outcome.stdout[last..].contains(library), "{}", outcome.stdout);
    }
    assert!(outcome.stdout.contains("detached after"), "{}", outcome.stdout);
    assert!(calls(&trace).unwrap().len() > 100);

    // The program checks its own results during the run.
    app.signal(Signal::TERM);
    let app = app.finish();
    assert_eq!(app.code, 0, "{}", app.stderr);
    assert!(app.stdout.trim_end().ends_with("ok"), "{}", app.stdout);
}

/// Removes everything from a file that it does not need to run.
fn strip(path: &Path) {
    let status = Command::new("strip").arg("-s").arg(path).status().unwrap();
    assert!(status.success(), "{}: {status}", path.display());
}

/// A tracer that attaches to a stripped program shows these kernels by name. With `has_others` it shows other kernels, whose
/// names are unknown, by address.
fn names_kernels_of_stripped(name: &str, kernels: &[&str], has_others: bool) {
    let dir = tempfile::tempdir().unwrap();
    // The loader finds it before the library that is not stripped.
    let library = dir.path().join("libdemo_kernels.so");
    std::fs::copy(app("libdemo_kernels.so"), &library).unwrap();
    strip(&library);
    // The program's own name could be mistaken for its kernel's.
    let mut program = app_copy(name, dir.path(), "stripped");
    strip(&dir.path().join("stripped"));
    let others = program.get_envs().find(|(key, _)| *key == "LD_LIBRARY_PATH").unwrap().1.unwrap();
    let path = format!("{}:{}", dir.path().display(), others.display());
    program.env("LD_LIBRARY_PATH", path).args(["--seconds", "120", "--interval-us", "1000"]);
    let mut program = Running::start(&mut program);
    program.wait_for_stdout("ready ");
    let pid = program.pid().to_string();
    let mut tracer = Running::start(&mut xsched_ctl(["attach", "--pid", &pid, "--interval", "0.5"]));
    for kernel in kernels {
        tracer.wait_for_stdout(kernel);
    }
    let outcome = tracer.interrupt();
    assert_eq!(outcome.stdout.contains("0x"), has_others, "{}", outcome.stdout);
    program.signal(Signal::KILL);
    program.finish();
}

#[needs(ROOT)]
fn a_stripped_running_program_has_names_of_kernels() {
    names_kernels_of_stripped("vector_add", &["vector_add"], false);
}

#[needs(ROOT)]
fn a_stripped_program_that_was_not_optimised_has_names_of_kernels() {
    names_kernels_of_stripped("vector_add_unoptimised", &["vector_add"], false);
}

#[needs(ROOT)]
fn a_stripped_program_with_compressed_device_code_has_names_of_kernels() {
    names_kernels_of_stripped("vector_add_compressed", &["vector_add"], false);
}

#[needs(ROOT)]
fn a_stripped_program_and_its_stripped_library_have_names_of_kernels() {
    // The third kind of launch is of a kernel in a module that was loaded before.
    let kernels = ["direct_step", "scale_add", "mix"];
    names_kernels_of_stripped("two_libraries", &kernels, true);
}

#[needs(ROOT)]
fn the_end_of_the_process_ends_the_watch() {
    let mut app =
        Running::start(Command::new(app("vector_add")).args(["--seconds", "120", "--interval-us", "100"]));
    app.wait_for_stdout("ready ");
    let pid = app.pid().to_string();
    let mut tracer = Running::start(&mut xsched_ctl(["attach", "--pid", &pid, "--interval", "0.5"]));
    tracer.wait_for_stdout("vector_add");
    app.signal(Signal::TERM);
    tracer.wait_for_stderr("has ended");
    let outcome = tracer.finish();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("vector_add"), "{}", outcome.stdout);
}

#[needs(ROOT)]
fn every_process_has_its_line_while_it_runs() {
    // Under unique names: other processes on this machine may use HIP too.
    let dir = tempfile::tempdir().unwrap();
    let mut long = app_copy("two_libraries", dir.path(), "long_lived");
    let mut long = Running::start(long.args(["--seconds", "60", "--interval-us", "1000"]));
    long.wait_for_stdout("ready ");
    let mut tracer =
        Running::start(&mut xsched_ctl(["attach", "--all", "--interval", "0.5", "--library", "*_lived"]));
    tracer.wait_for_stderr("Ctrl-C detaches");
    // Three programs start and end, one of them by exec of another.
    let mut short = app_copy("vector_add", dir.path(), "short_lived");
    assert_eq!(run(short.args(["--launches", "10"])).code, 0);
    let program = dir.path().join("short_lived");
    let line = format!(
        "{0} --launches 30; exec python3 -c 'import os, ctypes
ctypes.CDLL(\"libamdhip64.so.6\").hipDeviceSynchronize()
os.execv(\"{0}\", [\"{0}\", \"--launches\", \"20\"])'",
        program.display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).envs(short.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(run(&mut shell).code, 0);
    std::thread::sleep(Duration::from_millis(600));
    let (pid, outcome) = (long.pid().to_string(), tracer.interrupt());
    long.signal(Signal::KILL);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // The last table of processes, above that of libraries.
    let last = outcome.stdout.rfind("pid").map(|at| &outcome.stdout[at..]).unwrap();
    let cells = |wanted: &str| -> Vec<String> {
        let line = last.lines().find(|line| line.contains(wanted)).unwrap_or_else(|| panic!("{last}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(cells("long_lived")[..2], [pid, "long_lived".to_owned()]);
    assert_eq!(cells("that have ended")[..3], ["-", "3 that have ended", "60"]);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
