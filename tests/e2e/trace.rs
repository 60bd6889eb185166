//! `xsched-ctl trace`: the timeline shows the program's calls.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, xsched_ctl as binary};
use xsched_tests::needs::SUDO;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Running, TracedCall, calls, run, wait_for_bytes, xsched_ctl};

/// Launches by library, kernel, grid and block.
fn launches(calls: &[TracedCall]) -> BTreeMap<[&str; 4], usize> {
    let mut counts = BTreeMap::new();
    for call in calls.iter().filter(|call| call.category == "hip.launch") {
        let key =
            [&call.library, &call.kernel, &call.grid, &call.block].map(|text| text.as_deref().unwrap_or("-"));
        *counts.entry(key).or_insert(0) += 1;
    }
    counts
}

/// Launches of `two_libraries --launches 300`: a third of each kind; the library alternates between its kernels.
const LAUNCHES_OF_300: [([&str; 4], usize); 4] = [
    (
        [
            "libdemo_kernels.so",
            "void demo::kernels::mix<unsigned int, 3>(unsigned int*, unsigned int const*, unsigned int)",
            "4x1x1",
            "64x1x1",
        ],
        50,
    ),
    (
        [
            "libdemo_kernels.so",
            "void demo::kernels::scale_add<unsigned int>(unsigned int*, unsigned int const*, unsigned int*, \
             Scale<unsigned int>)",
            "4x1x1",
            "64x1x1",
        ],
        50,
    ),
    (
        [
            "two_libraries",
            "direct_step(DirectStep, unsigned int*, unsigned int const*, unsigned int)",
            "1x1x1",
            "256x1x1",
        ],
        100,
    ),
    (["two_libraries", "module_step", "4x1x1", "64x1x1"], 100),
];

fn trace_two_libraries(trace: &Path) -> Command {
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(trace).arg("--").arg(app("two_libraries")).args(["--launches", "300"]);
    command
}

#[needs(ROOT)]
fn every_launch_has_its_library_kernel_grid_and_block() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let untraced = run(Command::new(app("two_libraries")).args(["--launches", "300"]));
    let traced = run(&mut trace_two_libraries(&trace));
    assert_eq!((traced.code, &traced.stdout), (0, &untraced.stdout), "{}", traced.stderr);

    let calls = calls(&trace).unwrap();
    assert_eq!(launches(&calls), BTreeMap::from(LAUNCHES_OF_300));
    assert!(
        calls.iter().all(|call| call.category == "hip.register" || call.returned == Some(0)),
        "{calls:#?}"
    );
    // The libraries' own calls, and those before main.
    let made_by = |library: &str, name: &str| {
        calls.iter().filter(|call| call.library.as_deref() == Some(library) && call.name == name).count()
    };
    assert_eq!(made_by("libdemo_blas.so", "hipMemsetAsync"), 50);
    assert_eq!(made_by("libdemo_kernels.so", "__hipRegisterFunction"), 2);
    assert_eq!(made_by("two_libraries", "__hipRegisterFunction"), 1);
    assert_eq!(made_by("two_libraries", "hipModuleGetFunction"), 1);
    // The final message has the same numbers.
    assert!(traced.stderr.contains("300 launches"), "{}", traced.stderr);
    assert!(!traced.stderr.contains("incomplete"), "{}", traced.stderr);
}

#[needs(ROOT)]
fn copies_streams_and_callers_are_described() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    assert_eq!(run(&mut trace_two_libraries(&trace)).code, 0);
    let mut sql = Sql::open(&trace).unwrap();
    let count = |sql: &mut Sql, condition: &str| {
        let query = format!("select count(*) as n from slice where {condition}");
        sql.query(&query).unwrap()[0]["n"].as_i64().unwrap()
    };
    let arg = |name: &str| format!("extract_arg(arg_set_id, 'debug.{name}')");
    // One copy to the device, and one copy back after every 50 launches and at the end.
    let copies = "name = 'hipMemcpyAsync' and ".to_owned() + &arg("bytes") + " = 1024 and " + &arg("kind");
    assert_eq!(count(&mut sql, &(copies.clone() + " = 'host to device'")), 1);
    assert_eq!(count(&mut sql, &(copies + " = 'device to host'")), 7);
    // A new stream after every 100 launches; each launch is on a created stream.
    assert_eq!(count(&mut sql, "name = 'hipStreamCreateWithFlags'"), 4);
    let unknown_streams = format!(
        "category = 'hip.launch' and {} not in
         (select printf('0x%x', {}) from slice where name = 'hipStreamCreateWithFlags')",
        arg("stream"),
        arg("result")
    );
    assert_eq!(count(&mut sql, &unknown_streams), 0);
    assert_eq!(
        count(&mut sql, &format!("name = 'hipMemsetAsync' and {} glob 'demo_blas_axpy*'", arg("caller"))),
        50
    );
    // The process and its thread have names, and every call is within the trace.
    let names = sql.query("select p.name as process, t.name as thread from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid) group by 1, 2").unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(
        (names[0]["process"].as_str(), names[0]["thread"].as_str()),
        (Some("two_libraries"), Some("two_libraries"))
    );
    assert_eq!(count(&mut sql, "category glob 'hip*' and dur <= 0"), 0);
}

#[needs(ROOT)]
fn a_trace_through_a_pipe_equals_one_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
    assert_eq!(run(&mut trace_two_libraries(&file)).code, 0);
    let line = format!(
        "{} trace -- {} --launches 300 | cat > {}",
        binary().display(),
        app("two_libraries").display(),
        pipe.display()
    );
    let piped = run(Command::new("bash").args(["-o", "pipefail", "-c", &line]));
    assert_eq!(piped.code, 0, "{}", piped.stderr);
    // The program's own output goes to standard error instead.
    assert!(piped.stderr.contains("two_libraries: 300 launches"), "{}", piped.stderr);
    assert_eq!(calls(&pipe).unwrap(), calls(&file).unwrap());
}

/// In a mount namespace of its own, where sudo finds `xsched-ctl` as if it were installed.
const SUDO_TRACE: &str = r#"
mount --make-rprivate / && mount --bind "$0" /usr/local/sbin && cd "$0" &&
sudo xsched-ctl trace > run.perfetto
"#;

#[needs(ROOT, SUDO)]
fn sudo_trace_into_a_file_records_every_process() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(binary(), dir.path().join("xsched-ctl")).unwrap();
    let mut command = Command::new("unshare");
    // A process group of its own stands for the terminal's foreground: Ctrl-C signals the whole group.
    command.args(["--mount", "bash", "-c", SUDO_TRACE]).arg(dir.path()).process_group(0);
    // One program runs already, so that the runtime is known; another starts during the recording.
    let mut running = Running::start(Command::new(app("two_libraries")).args([
        "--seconds",
        "120",
        "--interval-us",
        "1000",
    ]));
    running.wait_for_stdout("ready ");
    let mut tracer = Running::start(&mut command);
    tracer.wait_for_stderr("recording every process");
    let short = run(Command::new(app("vector_add")).args(["--launches", "40"]));
    assert_eq!(short.code, 0, "{}", short.stderr);
    let trace = dir.path().join("run.perfetto");
    wait_for_bytes(&trace, 1);
    tracer.signal_group(Signal::INT);
    let outcome = tracer.finish();
    running.signal(Signal::KILL);
    assert!(!outcome.stderr.contains("calls lost"), "{}", outcome.stderr);
    let calls = calls(&trace).unwrap();
    let mut launches = launches(&calls);
    // Other processes on this machine may use HIP too.
    launches
        .retain(|[library, ..], _| ["vector_add", "two_libraries", "libdemo_kernels.so"].contains(library));
    assert_eq!(
        launches.remove(&["vector_add", "vector_add", "4x1x1", "256x1x1"]),
        Some(40),
        "{}",
        outcome.stderr
    );
    assert!(launches.len() == 4, "the other program's four kernels: {launches:#?}");
}

#[needs(ROOT)]
fn a_running_process_is_recorded_from_now_on() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut app =
        Running::start(Command::new(app("two_libraries")).args(["--seconds", "120", "--interval-us", "200"]));
    let ready = app.wait_for_stdout("ready ");
    assert_eq!(ready, format!("ready {}", app.pid()));
    let out = File::create(&trace).unwrap();
    let mut tracer = Running::start_with_stdout(
        &mut xsched_ctl(["trace", "--pid", &app.pid().to_string()]),
        Stdio::from(out),
    );
    tracer.wait_for_stderr("recording process");
    wait_for_bytes(&trace, 1);
    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0);
    app.signal(Signal::KILL);
    assert!(outcome.stderr.contains("launches show addresses for kernels"), "{}", outcome.stderr);
    // Kernels that were registered earlier have the names of their handles' symbols, those of modules only addresses.
    let calls = calls(&trace).unwrap();
    let kernels: Vec<_> = calls.iter().filter_map(|call| call.kernel.as_deref()).collect();
    for name in ["direct_step(DirectStep", "void demo::kernels::mix<", "void demo::kernels::scale_add<", "0x"]
    {
        assert!(kernels.iter().any(|kernel| kernel.starts_with(name)), "no {name} among {kernels:?}");
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
