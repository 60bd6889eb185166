//! `libxsched_shim.so`: programs behave the same with and without it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};

use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, hip_sim, shim};
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

#[needs(nothing)]
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

/// The first call comes from a library's constructor, under the dynamic loader's lock, and has to join a device that all
/// processes share.
#[needs(nothing)]
fn several_libraries_start_on_a_shared_device() {
    let mut command = Command::new("timeout");
    command.arg("60").arg(app("callers")).args(["steps", "2"]);
    command.env("HIP_SIM_SHARED", format!("begin-{}", std::process::id())).env("LD_PRELOAD", shim());
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.ends_with("wrong 0\n"), "{}", outcome.stdout);
}

#[needs(nothing)]
fn hip_programs_compute_the_same_while_they_are_suspended_at_random() {
    for (name, arguments) in [
        ("vector_add", &["--launches", "2000"][..]),
        ("two_libraries", &["--launches", "3000"]),
        ("two_libraries", &["--launches", "3000", "--threads", "4"]),
    ] {
        for (variable, seed) in
            [("LD_PRELOAD", 1), ("LD_PRELOAD", 2), ("ROCPROFILER_REGISTER_LIBRARY", 3), ("LD_PRELOAD", 4)]
        {
            let log = tempfile::NamedTempFile::new().unwrap();
            let outcome = run(Command::new(app(name))
                .args(arguments)
                .env(variable, shim())
                .env("XSCHED_LOG", log.path())
                .env("XSCHED_TEST_SUSPEND", format!("random:{seed}")));
            let alone = run(Command::new(app(name)).args(arguments));
            assert_eq!((outcome.code, &outcome.stdout), (0, &alone.stdout), "{}", outcome.stderr);
            let summary = std::fs::read_to_string(log.path()).unwrap();
            assert!(summary.contains("deferred"), "the test suspended nothing: {summary}");
            assert!(summary.ends_with("trouble\n               0  none\n"), "{summary}");
        }
    }
}

/// Launches of a plugin of `two_runtimes` for `LAUNCHES`: twice in alternation and twice concurrently with the other.
const LAUNCHES: usize = 200;
const LAUNCHES_OF_PLUGIN: usize = 4 * LAUNCHES;

#[needs(nothing)]
fn two_runtimes_in_one_process_get_their_own_launches() {
    for (suspended, variable) in [
        (None, "LD_PRELOAD"),
        (Some("random:5"), "LD_PRELOAD"),
        (Some("random:6"), "ROCPROFILER_REGISTER_LIBRARY"),
    ] {
        let (log, report) =
            (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let mut command = Command::new(app("two_runtimes"));
        command.arg(LAUNCHES.to_string()).env(variable, shim());
        command.env("XSCHED_LOG", log.path()).env("HIP_SIM_REPORT", report.path());
        if let Some(suspended) = suspended {
            command.env("XSCHED_TEST_SUSPEND", suspended);
        }
        let outcome = run(&mut command);
        let said = (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str());
        assert_eq!(said, (0, "right\nright\n", ""), "{suspended:?}");
        // Each runtime reports the kernels that reached it.
        let report = std::fs::read_to_string(report.path()).unwrap();
        let mut launches: Vec<_> = report.lines().filter(|line| line.starts_with("launch ")).collect();
        launches.sort_unstable();
        let of = |letter| format!("launch two_runtimes_step_{letter} {LAUNCHES_OF_PLUGIN}");
        assert_eq!(launches, [of('a'), of('b')], "{suspended:?}");
        let summary = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(summary.contains("  deferred\n"), suspended.is_some(), "{summary}");
        assert!(summary.ends_with("trouble\n               0  none\n"), "{summary}");
    }
}

#[needs(nothing)]
fn a_process_forks_and_ends_while_work_is_deferred() {
    // Few decisions in a second: work is deferred for long, also at the end.
    let script = "import ctypes, os, sys
hip = ctypes.CDLL(sys.argv[1])
stream, memory, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(4096)
def ok(code): assert code == 0, code
ok(hip.hipStreamCreate(ctypes.byref(stream)))
ok(hip.hipMalloc(ctypes.byref(memory), size))
for round in range(2000):
    ok(hip.hipMemsetAsync(memory, round % 256, size, stream))
    if round == 1000:
        child = os.fork()
        if child == 0:
            hip.hipGetErrorName(0)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print('done', flush=True)";
    let library = hip_sim(6).join("libamdhip64.so.6");
    let mut deferred = 0;
    for seed in 1..=8 {
        let log = tempfile::NamedTempFile::new().unwrap();
        let outcome = run(Command::new("python3")
            .args(["-c", script])
            .arg(&library)
            .env("LD_PRELOAD", shim())
            .env("XSCHED_LOG", log.path())
            .env("XSCHED_TEST_SUSPEND", format!("random:{seed}:200")));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "done\n"), "{}", outcome.stderr);
        deferred += usize::from(std::fs::read_to_string(log.path()).unwrap().contains("deferred"));
    }
    assert!(deferred > 0, "the test suspended nothing");
}

/// Some children end at once, some run other programs, some call `exit`, which unregisters kernels.
#[needs(nothing)]
fn children_end_normally_whatever_their_parent_has_in_flight() {
    let log = tempfile::NamedTempFile::new().unwrap();
    for suspended in [None, Some("random:5:2000")] {
        let mut client = Command::new(app("sched_client"));
        client.args(["--us", "50,500", "--ahead", "4", "--forks", "1", "--seconds", "1"]);
        client.stdin(Stdio::null()).env("HIP_SIM_DURATIONS", "device_step=arg1us");
        if let Some(suspended) = suspended {
            client.env("LD_PRELOAD", shim()).env("XSCHED_LOG", log.path());
            client.env("XSCHED_TEST_SUSPEND", suspended);
        }
        let outcome = run(&mut client);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let (wrong, children) =
            (outcome.stdout.contains("\"wrong\":0,"), outcome.stdout.rsplit_once("\"children\":["));
        let children = children.and_then(|(_, counts)| counts.trim_end().strip_suffix("]}"));
        let failed = children.and_then(|counts| counts.split_once(',')).map(|(_, failed)| failed);
        assert!(wrong && failed == Some("0"), "{children:?} {}", outcome.stderr);
    }
}

#[needs(nothing)]
fn doctor_shows_how_the_shim_intercepts_calls() {
    let library = |major: u32| hip_sim(major).join(format!("libamdhip64.so.{major}"));
    let script = "import ctypes, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path).hipGetDeviceCount(ctypes.byref(ctypes.c_int()))
print('ready', flush=True)
sys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", script])
        .args([library(6), library(5)])
        .env("LD_PRELOAD", shim())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let with_shim = run(&mut xsched_ctl(["doctor", "--pid", &child.id().to_string()]));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(with_shim.code, 0, "{}", with_shim.stderr);
    let lines: Vec<_> = with_shim.stdout.lines().collect();
    assert!(lines[0].starts_with("shim         active   "), "{}", with_shim.stdout);
    let of = |major| {
        let name = format!("libamdhip64.so.{major}");
        *lines.iter().find(|line| line.contains(&name)).unwrap_or_else(|| panic!("{}", with_shim.stdout))
    };
    assert!(of(6).starts_with("runtime      table    ") && of(6).ends_with("entries replaced)"), "{}", of(6));
    assert!(of(5).starts_with("runtime      "), "{}", of(5));

    // Named for rocprofiler-register, which calls another profiler.
    let folder = tempfile::tempdir().unwrap();
    let profiler = folder.path().join("librocprofiler-sdk.so.1");
    std::fs::copy(app("libtable_tool.so"), &profiler).unwrap();
    let mut passed_over = Command::new("python3")
        .args(["-c", script])
        .arg(library(6))
        .env("ROCPROFILER_REGISTER_LIBRARY", shim())
        .env("LD_PRELOAD", &profiler)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(passed_over.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said = run(&mut xsched_ctl(["doctor", "--pid", &passed_over.id().to_string()])).stdout;
    drop(passed_over.stdin.take());
    passed_over.wait().unwrap();
    let why = format!("{} comes before the library in ROCPROFILER_REGISTER_LIBRARY;", profiler.display());
    assert!(said.starts_with("shim         absent   ") && said.contains(&why), "{said}");

    let own = run(&mut xsched_ctl(["doctor", "--pid", &std::process::id().to_string()]));
    assert!(own.stdout.starts_with("shim         absent   "), "{}", own.stdout);
    assert_eq!(run(&mut xsched_ctl(["doctor", "--pid", "4194305"])).code, 66, "no such process");
}

#[needs(nothing)]
fn a_program_of_each_runtime_generation_computes_the_same() {
    // The program was linked with generation 6, and runs on every generation that has its symbols.
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

#[needs(nothing)]
fn programs_without_hip_are_not_affected() {
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

#[needs(ROOT)]
fn a_traced_program_with_the_shim_shows_every_launch_once() {
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
    // The shim jumps to the runtime instead of calling it, so the caller stays the same.
    let from =
        |library: &str| launches.iter().filter(|call| call.library.as_deref() == Some(library)).count();
    assert_eq!((from("two_libraries"), from("libdemo_kernels.so")), (60, 30));
}

fn main() -> ExitCode {
    xsched_harness::main()
}
