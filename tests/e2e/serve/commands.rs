//! `xsched-ctl run`: commands under the controller.

use std::process::Command;

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::{ROOT, SANITIZERS};
use xsched_tests::artifacts::xsched_ctl as binary;
use xsched_tests::tracer::{Running, run, xsched_ctl};

use super::fixture::{self, Controller};

#[needs(nothing)]
fn a_command_has_the_priority_that_run_gives_it() {
    let controller = Controller::start("");
    let mut command = controller.command(&["run", "--priority", "150", "--json", "--shim"]);
    command.arg(xsched_tests::artifacts::shim()).arg("--").args(["sh", "-c"]);
    // The process reads its commands from here, and the shell gives the exit status.
    let script = fixture::python(controller.folder());
    let words: Vec<_> = std::iter::once(script.get_program()).chain(script.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let pipeline =
        format!("printf 'connect\\nopen 5\\norder {{\"verb\":\"list\"}}\\n' | {}; exit 7", words.join(" "));
    let outcome = run(command.arg(pipeline));
    assert_eq!(outcome.code, 7, "{}", outcome.stderr);
    let list: serde_json::Value = serde_json::from_str(outcome.stdout.lines().last().unwrap()).unwrap();
    let process = &list["processes"][0];
    assert_eq!((&process["parameters"]["priority"], &process["from"]), (&150.into(), &"run".into()));
    let told = outcome.stderr.lines().last().unwrap();
    assert_eq!(told, r#"{"code":7,"controller":true,"joined":1}"#);
}

#[needs(nothing)]
fn a_command_that_cannot_be_started_is_not_reported_as_done() {
    let mut controller = Controller::start("");
    let mut command = controller.command(&["run", "--priority", "150", "--shim"]);
    let outcome = run(command.arg(xsched_tests::artifacts::shim()).args(["--", "/no/such/program"]));
    assert_eq!(outcome.code, 127, "{}", outcome.stderr);
    controller.process().signal(Signal::TERM);
    let account = controller.finish().stderr;
    let told = "allowed: run a command with priority 150: noted for the processes that it starts\n";
    assert!(account.contains(told), "{account}");
}

#[needs(ROOT)]
fn overpromised_shares_are_reported_by_run_and_in_the_log() {
    let mut controller = Controller::start(
        "[scheduler]\npolicy = 'partition'\n[[rule]]\nuser = 'root'\nshare = 70\n[[rule]]\nshare = 40\n",
    );
    let warned = "shares of 0000:05:00.0 ";
    let first = controller.joined(0, 5);
    let mut run_with = controller.command(&["run", "--share", "50", "--shim"]);
    let outcome = run(run_with.arg(xsched_tests::artifacts::shim()).args(["--", "true"]));
    let told = format!(
        "warning: {warned}with this command's would come to 120 %, so all shrink in proportion: 50 % is 42 % while all have work\n"
    );
    assert_eq!((outcome.code, outcome.stderr), (0, told));
    let second = controller.joined(0, 5);
    let line = controller.process().wait_for_stderr(warned);
    let pid = second.id();
    assert!(
        line.contains(&format!("with process {pid} {warned}come to 140 %, so all shrink in proportion")),
        "{line}"
    );
    drop((first, second));
    controller.process().signal(Signal::TERM);
    let said = controller.finish().stderr;
    assert_eq!(said.matches(warned).count(), 1, "{said}");
    assert!(said.contains("config.toml, lines 5, 8: shares of these rules come to 110 %, "), "{said}");
}

#[needs(nothing)]
fn a_command_gets_both_shims_after_its_own_preloaded_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let shim = xsched_tests::artifacts::shim();
    let outcome = run(xsched_ctl(["run", "--shim"])
        .arg(&shim)
        .args(["sh", "-c", "echo $LD_PRELOAD; echo $XSCHED_TOKEN"])
        .env("LD_PRELOAD", "libc.so.6")
        .env("XSCHED_SOCKET_DIR", folder.path()));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut lines = outcome.stdout.lines();
    let shim = std::fs::canonicalize(shim).unwrap();
    let cuda = std::fs::canonicalize(xsched_tests::artifacts::cuda_shim()).unwrap();
    assert_eq!(lines.next().unwrap(), format!("libc.so.6:{}:{}", cuda.display(), shim.display()));
    assert_eq!(lines.next().unwrap().len(), 32);
    assert!(
        outcome.stderr.contains("no controller is running: the command runs unscheduled"),
        "{}",
        outcome.stderr
    );
    let required = run(xsched_ctl(["run", "--require-controller", "--shim"])
        .arg(xsched_tests::artifacts::shim())
        .args(["echo", "ran"])
        .env("XSCHED_SOCKET_DIR", folder.path()));
    assert_eq!((required.code, required.stdout.as_str()), (69, ""), "{}", required.stderr);
}

/// Their libraries want to be the first.
#[needs(SANITIZERS)]
fn programs_with_sanitizers_start_under_run() {
    const SOURCE: &str = "
#include <stddef.h>
#include <stdio.h>
int hipMalloc(void **, size_t), hipMemset(void *, int, size_t), hipFree(void *), hipDeviceSynchronize(void);
int main(void) {
    void *memory;
    if (hipMalloc(&memory, 64) || hipMemset(memory, 1, 64) || hipDeviceSynchronize() || hipFree(memory)) return 1;
    puts(\"done\");
    return 0;
}";
    let (folder, hip) = (tempfile::tempdir().unwrap(), xsched_tests::artifacts::hip_sim(6));
    let source = folder.path().join("source.c");
    std::fs::write(&source, SOURCE).unwrap();
    let controller = Controller::start("");
    for sanitizer in ["address", "leak", "undefined"] {
        let program = folder.path().join(sanitizer);
        let mut compiler = Command::new("cc");
        compiler.arg(format!("-fsanitize={sanitizer}")).arg(&source).arg("-o").arg(&program);
        assert!(compiler.arg(hip.join("libamdhip64.so.6")).status().unwrap().success());
        // By itself, and by programs that the command starts.
        for wrapper in [&[][..], &["env", "sh", "-c", "\"$@\"", "sh"]] {
            let mut command = controller.command(&["run", "--shim"]);
            command.arg(xsched_tests::artifacts::shim()).arg("--").args(wrapper).arg(&program);
            let outcome = run(command.env("LD_LIBRARY_PATH", &hip));
            assert_eq!(
                (outcome.code, outcome.stdout.as_str()),
                (0, "done\n"),
                "{sanitizer}: {}",
                outcome.stderr
            );
        }
    }
}

/// A job of a user who logs out continues.
#[needs(nothing)]
fn a_command_can_outlive_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let started = |wrapper: &str| {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("{wrapper} exec \"$0\" run --shim \"$1\" -- sh -c 'echo begun; sleep 1; exit 7'"),
        ]);
        command.arg(binary()).arg(xsched_tests::artifacts::shim()).env("XSCHED_SOCKET_DIR", folder.path());
        let mut running = Running::start(&mut command);
        running.wait_for_stdout("begun");
        running.signal(Signal::HUP);
        running.finish().code
    };
    assert_eq!(started(""), 128 + 15, "a signal ends it");
    assert_eq!(started("trap '' HUP;"), 7);
}

#[needs(nothing)]
fn run_warns_about_processes_that_use_hip_without_the_shim() {
    // `env -u` removes the preload, as the loader does in secure-execution mode.
    let folder = tempfile::tempdir().unwrap();
    let hip = xsched_tests::artifacts::hip_sim(6).join("libamdhip64.so.6");
    let script = "import ctypes, sys, time; hip = ctypes.CDLL(sys.argv[1]); time.sleep(60)";
    let mut command = xsched_ctl(["run", "--shim"]);
    command
        .arg(xsched_tests::artifacts::shim())
        .args(["env", "-u", "LD_PRELOAD", "python3", "-c", script])
        .arg(hip)
        .env("XSCHED_SOCKET_DIR", folder.path());
    let mut running = Running::start(&mut command);
    let line = running.wait_for_stderr("uses HIP without the shim");
    assert!(line.starts_with("xsched-ctl: process "), "{line}");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code, 128 + 15);
}
