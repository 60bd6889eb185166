//! Signals whose default would end xsched-ctl: those of terminals, timers and limits.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, shim, xsched_ctl as binary};
use xsched_tests::processor_time;
use xsched_tests::tracer::{Running, calls, run, xsched_ctl};

/// A shell that executes its arguments after this.
fn after(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{script}; exec \"$@\""), "bash"]);
    command
}

#[needs(ROOT)]
fn a_file_size_limit_costs_neither_the_table_nor_the_status_of_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let (file, page) = (dir.path().join("run.perfetto"), dir.path().join("page.html"));
    let mut command = after("ulimit -f 64");
    command.arg(binary()).args(["trace", "-o"]).arg(&file).args(["--", "sh", "-c", "\"$@\"; exit 3", "sh"]);
    let outcome = run(command.arg(app("two_libraries")).args(["--launches", "20000"]));
    assert_eq!(outcome.code, 74, "{}", outcome.stderr);
    for said in [
        "File too large",
        "hint: files may not be larger here: `ulimit -f",
        "libdemo_kernels.so",
        "with status 3\n",
    ] {
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    assert!(outcome.stdout.contains("20000 launches"), "{}", outcome.stdout);
    assert!(calls(&file).unwrap().len() > 100, "what fitted loads");

    std::fs::write(&page, "an older one").unwrap();
    let report = |options: &[&str]| {
        let mut command = after("ulimit -f 4");
        run(command.arg(binary()).arg("report").arg(&file).args(options))
    };
    let outcome = report(&["--html", page.to_str().unwrap()]);
    assert_eq!(outcome.code, 73, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("File too large"), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "an older one");
}

#[needs(ROOT)]
fn signals_of_terminals_timers_and_limits_end_a_recording_in_an_orderly_way() {
    let dir = tempfile::tempdir().unwrap();
    let mut app =
        Running::start(Command::new(app("vector_add")).args(["--seconds", "170", "--interval-us", "1000"]));
    app.wait_for_stdout("ready ");
    let pid = app.pid().to_string();
    let ends =
        [Signal::QUIT, Signal::ALARM, Signal::VTALARM, Signal::PROF, Signal::XCPU, Signal::HUP, Signal::TERM];
    for signal in ends {
        let file = dir.path().join(format!("{}", signal.as_raw()));
        let mut tracer = Running::start(xsched_ctl(["trace", "--pid", &pid, "-o"]).arg(&file));
        tracer.wait_for_stderr("Ctrl-C ends it");
        // The program launches every millisecond: a recording that ends at once has no calls.
        std::thread::sleep(Duration::from_millis(100));
        // This one is for a command, and there is none.
        tracer.signal(Signal::USR2);
        tracer.signal(signal);
        let outcome = tracer.finish();
        assert_eq!(outcome.code, 0, "{signal:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(" HIP call"), "{signal:?}: {}", outcome.stderr);
        assert!(calls(&file).is_ok(), "{signal:?}");
    }
    app.signal(Signal::TERM);
    assert_eq!(app.finish().code, 0);
}

/// The limit of the tracer is not that of the command, which has used less.
#[needs(ROOT)]
fn a_cpu_limit_ends_the_recording_and_not_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let mut tracer = xsched_ctl(["trace", "-o"]);
    tracer.arg(dir.path().join("f")).args([
        "--",
        "sh",
        "-c",
        "echo begun; for i in $(seq 600); do sleep 0.1; done",
    ]);
    let mut tracer = Running::start(&mut tracer);
    tracer.wait_for_stdout("begun");
    tracer.signal(Signal::XCPU);
    tracer.wait_for_stderr("limit of CPU time is reached (`ulimit -t`); waiting for the command to end");
    tracer.signal(Signal::TERM);
    assert_eq!(tracer.finish().code, 128 + 15);
}

/// A pipe that is open for reading, and that no process reads.
fn unread_pipe(path: &Path) -> File {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

/// Two signals end a recording, and the third the wait for its output.
fn ends_by_third(mut tracer: Running, first: Option<Signal>) {
    // Equal ones could become one.
    if let Some(signal) = first {
        tracer.signal(signal);
    }
    tracer.signal(Signal::TERM);
    tracer.wait_for_stderr("Ctrl-C again does not wait for the output");
    tracer.signal(Signal::INT);
    let outcome = tracer.finish();
    assert_eq!(outcome.code, 74, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the rest of the recording is lost"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn an_output_that_no_process_reads_keeps_a_recording_neither_from_signals_nor_from_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut app = Running::start(Command::new(app("vector_add")).args(["--seconds", "170"]));
    app.wait_for_stdout("ready ");
    let pid = app.pid().to_string();
    let trace = |name: &str, options: &[&str]| {
        let path = dir.path().join(name);
        let pipe = unread_pipe(&path);
        let tracer = Running::start(xsched_ctl(["trace", "--pid", &pid, "-o"]).arg(&path).args(options));
        (pipe, tracer)
    };
    let (_pipe, mut tracer) = trace("limited", &["--duration", "2s"]);
    tracer.wait_for_stderr("recording ends: 2s have passed");
    ends_by_third(tracer, None);

    let (_pipe, mut tracer) = trace("endless", &[]);
    tracer.wait_for_stderr("Ctrl-C ends it");
    let mut used = Duration::ZERO;
    let is_blocked = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(500));
        let before = std::mem::replace(&mut used, processor_time::of(tracer.pid()).unwrap());
        before == used
    });
    assert!(is_blocked.take(100).any(|is_blocked| is_blocked), "it writes more than a pipe holds");
    ends_by_third(tracer, Some(Signal::INT));
}

/// Which signals are blocked, ignored and caught, from `/proc/PID/status`. Those from 32 on are the C library's own.
fn dispositions(status: &str) -> Vec<u64> {
    let masks = status.lines().filter_map(|line| line.strip_prefix("Sig")?.split_once(":\t"));
    masks
        .filter(|(name, _)| ["Blk", "Ign", "Cgt"].contains(name))
        .map(|(_, mask)| u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff)
        .collect()
}

#[needs(ROOT)]
fn a_command_has_the_signals_that_its_wrapper_was_started_with() {
    for ignored in [":", "trap '' INT QUIT USR1 USR2 ALRM XCPU XFSZ TERM"] {
        let with = |wrapper: &[&str]| {
            let mut command = after(ignored);
            if !wrapper.is_empty() {
                command.arg(binary()).args(wrapper);
            }
            let outcome = run(command.args(["cat", "/proc/self/status"]));
            assert_eq!(outcome.code, 0, "{wrapper:?}: {}", outcome.stderr);
            dispositions(&outcome.stdout)
        };
        let (alone, shim) = (with(&[]), shim());
        assert_eq!(alone.len(), 3);
        for wrapper in
            [&["run", "--shim", shim.to_str().unwrap(), "--"][..], &["trace", "-o", "/dev/null", "--"]]
        {
            assert_eq!(with(wrapper), alone, "{wrapper:?} after {ignored}");
        }
    }
}

#[needs(nothing)]
fn signals_without_a_meaning_for_run_reach_the_command() {
    let script = "trap 'echo one' USR1; trap 'echo two; exit 4' USR2; echo begun; for i in $(seq 600); do sleep 0.1; done";
    let mut command = xsched_ctl(["run", "--shim"]);
    command.arg(shim()).args(["--", "bash", "-c", script]);
    let mut running = Running::start(&mut command);
    running.wait_for_stdout("begun");
    running.signal(Signal::XCPU);
    running.signal(Signal::USR1);
    running.wait_for_stdout("one");
    running.signal(Signal::USR2);
    running.wait_for_stdout("two");
    assert_eq!(running.finish().code, 4);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
