//! Processes that start, load a runtime and end: all are recorded, however short they live.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, app_copy, hip_sim, shim};
use xsched_tests::needs::FUSE;
use xsched_tests::serving::Serving;
use xsched_tests::small_controller::SmallController;
use xsched_tests::tracer::{Running, TracedCall, calls, run, wait_for_bytes, wait_until, xsched_ctl};

/// Traces a command.
fn traced(command: &[&str]) -> Vec<TracedCall> {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let outcome = run(xsched_ctl(["trace", "-o"]).arg(&trace).arg("--").args(command));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for loss in ["calls lost", "first calls may be missing"] {
        assert!(!outcome.stderr.contains(loss), "{}", outcome.stderr);
    }
    calls(&trace).unwrap()
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

/// A program whose main thread ends while another thread goes on to use HIP, until its input ends.
fn without_main_thread() -> Command {
    let script = "
import ctypes, sys, threading
hip, c = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
def work():
    size, memory, stream = ctypes.c_size_t(4096), ctypes.c_void_p(), ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(memory), size) == hip.hipStreamCreate(ctypes.byref(stream)) == 0
    threading.Thread(target=lambda: (sys.stdin.read(), c.syscall(231, 0))).start()
    while True:
        assert hip.hipMemsetAsync(memory, 1, size, stream) == hip.hipStreamSynchronize(stream) == 0
threading.Thread(target=work).start()
c.syscall(60, 0) # exit of this thread alone; 231 is exit_group
";
    let mut program = Command::new("python3");
    program.args(["-c", script]).arg(hip_sim(6).join("libamdhip64.so.6")).stdin(Stdio::piped());
    program
}

/// Waits until the main thread of a process has ended.
fn wait_for_end_of_main_thread(pid: u32) {
    wait_until("the main thread ends", || {
        fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.is_empty())
    });
}

#[needs(nothing)]
fn a_process_whose_main_thread_has_ended_is_held_and_examined() {
    let folder = tempfile::tempdir().unwrap();
    let controller = SmallController::start(folder.path()).unwrap();
    let mut program = without_main_thread();
    let mut program =
        program.env("LD_PRELOAD", shim()).env("XSCHED_SOCKET_DIR", folder.path()).spawn().unwrap();
    wait_for_end_of_main_thread(program.id());
    wait_until("it reports", || controller.reports() > 0);
    let doctor = run(&mut xsched_ctl(["doctor", "--pid", &program.id().to_string()]));
    assert_eq!(doctor.code, 0, "{}", doctor.stderr);
    assert!(doctor.stdout.starts_with("shim         active   "), "{}", doctor.stdout);
    drop(program.stdin.take());
    program.wait().unwrap();
}

#[needs(ROOT)]
fn a_process_whose_main_thread_has_ended_is_traced_and_listed_by_each_controller() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = Serving::start("").unwrap();
    let folder = serving.folder().to_owned();
    let mut program = without_main_thread();
    program.env("LD_PRELOAD", shim()).env("XSCHED_SOCKET_DIR", &folder);
    let mut program = program.spawn().unwrap();
    let pid = program.id();
    wait_for_end_of_main_thread(pid);
    let is_listed = || {
        let mut list = xsched_ctl(["list", "--json"]);
        let listed = run(list.env("XSCHED_SOCKET_DIR", &folder)).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        let processes = listed["processes"].as_array().cloned().unwrap_or_default();
        processes.iter().any(|process| process["pid"] == pid && process["queues"] != serde_json::json!([]))
    };
    wait_until("it is listed", is_listed);
    for of in [&["--all"][..], &["--pid", &pid.to_string()]] {
        let trace = dir.path().join("run.perfetto");
        let outcome = run(xsched_ctl(["trace", "--duration", "1s", "-o"]).arg(&trace).args(of));
        assert_eq!(outcome.code, 0, "{of:?}: {}", outcome.stderr);
        let calls = calls(&trace).unwrap();
        let fills = calls.iter().filter(|call| call.name == "hipMemsetAsync").count();
        assert!(fills > 10, "{of:?}: {fills} of {} calls", calls.len());
    }
    serving.restart().unwrap();
    wait_until("another controller lists it", is_listed);
    drop(program.stdin.take());
    program.wait().unwrap();
}

/// A copy of the runtime that no process has mapped yet, so that it has no probe yet.
fn fresh_runtime(dir: &Path) -> PathBuf {
    let copy = dir.join("libamdhip64.so.6");
    fs::copy(hip_sim(6).join("libamdhip64.so.6"), &copy).unwrap();
    copy
}

#[needs(ROOT)]
fn a_runtime_opened_late_is_recorded_from_its_first_call() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    let script = format!(
        "import ctypes
hip = ctypes.CDLL('{}')
for i in range(5): hip.hipDeviceSynchronize()",
        runtime.display()
    );
    let calls = traced(&["python3", "-c", &script]);
    let counts = by_library(&calls);
    assert_eq!(counts.len(), 1, "{counts:?}");
    let ((library, function), count) = counts.iter().next().unwrap();
    assert_eq!((*function, *count), ("hipDeviceSynchronize", 5));
    assert!(library.starts_with("libffi.so"), "{library}");
}

/// The runtime as an installer writes it; the tracer sees an incomplete file first.
#[needs(ROOT)]
fn a_runtime_installed_during_a_recording_is_recorded_from_its_first_call() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "import ctypes, time
content = open('{}', 'rb').read()
with open('{dir}/libamdhip64.so.6', 'wb') as file:
    file.write(content[:100000])
    file.flush()
    time.sleep(0.3)
    file.write(content[100000:])
hip = ctypes.CDLL('{dir}/libamdhip64.so.6')
for i in range(5): hip.hipDeviceSynchronize()",
        hip_sim(6).join("libamdhip64.so.6").display(),
        dir = dir.path().display(),
    );
    let calls = traced(&["python3", "-c", &script]);
    assert_eq!(by_library(&calls).values().sum::<usize>(), 5, "{calls:?}");
}

/// The tracer looks at every file with such a name that any process opens.
#[needs(ROOT)]
fn a_pipe_with_the_name_of_a_runtime_does_not_block_the_tracer() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!(
        "mkfifo {dir}/libamdhip64.so.6; timeout 1 cat {dir}/libamdhip64.so.6; {} --launches 20",
        app("vector_add").display(),
        dir = dir.path().display(),
    );
    let calls = traced(&["sh", "-c", &line]);
    assert_eq!(launches(&calls), 20);
}

/// A FUSE file system that never answers, as after the loss of its server: every lookup blocks.
const SILENT: &str = r"
import ctypes, os, sys, time
fd = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()
mounted = ctypes.CDLL(None).mount(b'silent', sys.argv[1].encode(), b'fuse', 0, options) == 0
print('mounted' if mounted else 'refused', flush=True)
time.sleep(60 * mounted)";

#[needs(ROOT, FUSE)]
fn a_file_system_that_does_not_answer_does_not_block_the_tracer() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("silent")).unwrap();
    let line = r#"cd "$1"; python3 -c "$0" silent > said 2>&1 & until grep -q . "$1/said"; do sleep 0.05; done
timeout 1 cat "$1/silent/libamdhip64.so.6"; exec "$2" --launches 20"#;
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(dir.path().join("run.perfetto")).args(["--", "unshare", "--mount", "sh", "-c", line, SILENT]);
    let began = Instant::now();
    let outcome = run(command.arg(dir.path()).arg(app("vector_add")));
    let took = began.elapsed();
    assert_eq!(fs::read_to_string(dir.path().join("said")).unwrap(), "mounted\n");
    assert!(took < Duration::from_secs(45), "{took:?}: {}", outcome.stderr);
    assert!(
        outcome.stderr.contains("libamdhip64.so.6: its file system does not answer"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains(", 20 launches, "), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("first calls may be missing"), "{}", outcome.stderr);
}

/// Descriptors of all processes are looked at where the driver's functions cannot be traced by themselves.
#[needs(ROOT, FUSE)]
fn a_descriptor_of_a_file_system_that_does_not_answer_keeps_no_recording_from_beginning() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("silent")).unwrap();
    let holds = "import os, time; os.open('silent', os.O_PATH); open('held', 'w'); time.sleep(50)";
    let line = r#"cd "$1"; python3 -c "$0" silent > said 2>&1 & until grep -q . "$1/said"; do sleep 0.05; done
python3 -c "$2" & until [ -e "$1/held" ]; do sleep 0.05; done; cat said; wait"#;
    let mut holder = Command::new("unshare");
    holder.args(["--mount", "sh", "-c", line, SILENT]).arg(dir.path()).arg(holds);
    let mut holder = Running::start(holder.process_group(0));
    holder.wait_for_stdout("mounted");
    let mut command = xsched_ctl(["trace", "--driver", "auto", "--driver-device", "kfd=/dev/full"]);
    let mut tracer =
        Running::start(command.args(["--duration", "1s", "-o"]).arg(dir.path().join("run.perfetto")));
    tracer.wait_for_stderr("recording ends: 1s have passed");
    assert_eq!(tracer.finish().code, 0);
    holder.signal_group(Signal::KILL);
}

/// A FUSE file system with the files of the second folder, at the first one. It takes longer for each look-up by the tracer than
/// that has ever waited for a file.
const SLOW: &str = r"
import ctypes, os, struct, sys, threading, time
at, files = sys.argv[1:]
names = sorted(os.listdir(files))
fd = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()
assert ctypes.CDLL(None).mount(b'slow', at.encode(), b'fuse', 0, options) == 0
def path(node): return os.path.join(files, names[node - 2]) if node > 1 else files
def attributes(node):
    s = os.stat(path(node))
    return struct.pack('<6Q10I', node, s.st_size, s.st_blocks, *[int(s.st_mtime)] * 3, 0, 0, 0, s.st_mode, 1, 0, 0, 0, 4096, 0)
def is_tracer(thread):
    with open(f'/proc/{thread}/comm') as name: return name.read().strip() == 'xsched-lookup'
def handle(op, node, thread, body):
    if op == 26: return struct.pack('<4I2H2I2H8I', 7, 31, 65536, 0, 12, 9, 65536, 1, 16, 0, *[0] * 8)
    if op == 1:
        if is_tracer(thread): time.sleep(0.7)
        name = body.split(b'\0')[0].decode()
        if name not in names: return 2
        node = names.index(name) + 2
        return struct.pack('<4Q2I', node, 0, 0, 0, 0, 0) + attributes(node)
    if op == 3: return struct.pack('<Q2I', 0, 0, 0) + attributes(node)
    if op == 14: return struct.pack('<Q2I', 0, 0, 0)
    if op == 15:
        offset, size = struct.unpack_from('<8xQI', body)
        with open(path(node), 'rb') as file: return os.pread(file.fileno(), size, offset)
    return 0 if op == 18 else 38
def serve(op, unique, node, thread, body):
    answer = handle(op, node, thread, body)
    error, data = (-answer, b'') if isinstance(answer, int) else (0, answer)
    os.write(fd, struct.pack('<IiQ', 16 + len(data), error, unique) + data)
print('mounted', flush=True)
while True:
    request = os.read(fd, 1 << 18)
    _, op, unique, node, thread = struct.unpack_from('<IIQQ8xI', request)
    # Forgetting and interrupting have no answer.
    if op not in (2, 36, 42): threading.Thread(target=serve, args=(op, unique, node, thread, request[40:]), daemon=True).start()";

/// The program and its runtime are there. Calls before the answer may be missing; later ones have whole chains.
#[needs(ROOT, FUSE)]
fn files_that_open_late_are_probed_and_have_unwind_tables() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["slow", "files"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    fs::copy(app("vector_add"), dir.path().join("files/vector_add")).unwrap();
    fresh_runtime(&dir.path().join("files"));
    let line = r#"cd "$1"; python3 -c "$0" slow files > said 2>&1 & server=$!
until grep -q . "$1/said"; do sleep 0.05; done
LD_PRELOAD="$1/slow/libamdhip64.so.6" LD_LIBRARY_PATH="$2" "$1/slow/vector_add" --seconds 4 --interval-us 5000; kill $server"#;
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(&trace).args(["--", "unshare", "--mount", "sh", "-c", line, SLOW]).arg(dir.path());
    let outcome = run(command.arg(app("vector_add").parent().unwrap()));
    assert_eq!(fs::read_to_string(dir.path().join("said")).unwrap(), "mounted\n");
    assert!(outcome.stdout.contains("ok"), "{}{}", outcome.stdout, outcome.stderr);
    let launches = launches(&calls(&trace).unwrap());
    assert!(launches > 100, "{launches}: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("chains end in a file that was gone"), "{}", outcome.stderr);
}

/// The loader gets the same relative path for two files.
#[needs(ROOT)]
fn runtimes_with_the_same_relative_path_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let folders = ["one", "two"].map(|name| dir.path().join(name));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
        fresh_runtime(folder);
    }
    let script = "import ctypes; hip = ctypes.CDLL('./libamdhip64.so.6')
for i in range(5): hip.hipDeviceSynchronize()";
    let line = r#"cd "$1"; python3 -c "$0"; cd "$2"; exec python3 -c "$0""#;
    let [one, two] = folders.each_ref().map(|folder| folder.to_str().unwrap());
    let calls = traced(&["sh", "-c", line, script, one, two]);
    assert_eq!(calls.iter().filter(|call| call.name == "hipDeviceSynchronize").count(), 10, "{calls:?}");
}

/// The tracer has probed the first runtime under its path, which now leads to another file. The second process, and with it
/// the recording, may end before the tracer looks at the new file.
#[needs(ROOT)]
fn missing_first_calls_of_a_replaced_runtime_are_reported() {
    const CALLS: usize = 5;
    let dir = tempfile::tempdir().unwrap();
    let (runtime, trace) = (fresh_runtime(dir.path()), dir.path().join("run.perfetto"));
    let script = format!(
        "import ctypes, os, sys, time; hip = ctypes.CDLL(sys.argv[1])\n\
         for i in range({CALLS}): hip.hipDeviceSynchronize()\n\
         time.sleep(float(sys.argv[2])); os._exit(0)"
    );
    // The tracer looks at the new file while it is incomplete.
    let line = r#"python3 -c "$0" "$1" 0; head -c 100000 "$1" > "$1.new"; cat "$1.new" > /dev/null; sleep 0.1
cat "$1" > "$1.new"; mv "$1.new" "$1"; python3 -c "$0" "$1" $2; $3"#;
    let (nothing, removal) = ("true", r#"rm "$1""#);
    let cases = [("0.5", nothing), ("0", "sleep 0.1")];
    for (wait, last) in cases.into_iter().chain([("0", nothing), ("0", removal)].repeat(3)) {
        let mut command = xsched_ctl(["trace", "-o"]);
        let line = line.replace("$3", last);
        command.arg(&trace).args(["--", "sh", "-c", &line, &script]).arg(&runtime).arg(wait);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let is_whole = outcome.stderr.contains(&format!("\n{} HIP calls", 2 * CALLS));
        let is_said = outcome.stderr.contains("first calls may be missing");
        assert!(is_whole || is_said, "{wait}, {last}: {}", outcome.stderr);
        fresh_runtime(dir.path());
    }
}

/// The kernel would still insert breakpoints at the function addresses of the first runtime.
#[needs(ROOT)]
fn an_overwritten_runtime_works_as_without_a_tracer() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, other) = (fresh_runtime(dir.path()), hip_sim(7).join("libamdhip64.so.7"));
    let script = "import ctypes, sys; hip = ctypes.CDLL(sys.argv[1])
for i in range(5): assert hip.hipDeviceSynchronize() == 0";
    let line =
        r#"set -e; python3 -c "$0" "$1"; cat "$2" > "$1"; python3 -c "$0" "$1"; exec python3 -c "$0" "$1""#;
    let (runtime, other) = (runtime.to_str().unwrap(), other.to_str().unwrap());
    let calls = traced(&["sh", "-c", line, script, runtime, other]);
    assert_eq!(calls.iter().filter(|call| call.name == "hipDeviceSynchronize").count(), 15, "{calls:?}");
}

/// No process has loaded it before, it is in no search path, and the processes are not children of the tracer.
#[needs(ROOT)]
fn processes_with_a_named_runtime_are_recorded_from_their_first_call() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, trace) = (fresh_runtime(dir.path()), dir.path().join("run.perfetto"));
    let mut tracer = Running::start(xsched_ctl(["trace", "--runtime"]).arg(&runtime).arg("-o").arg(&trace));
    tracer.wait_for_stderr("recording every process");
    let script = "import ctypes, sys\nctypes.CDLL(sys.argv[1]).hipDeviceSynchronize()";
    for _ in 0..5 {
        let status = Command::new("python3").args(["-c", script]).arg(&runtime).status().unwrap();
        assert!(status.success());
    }
    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let calls = calls(&trace).unwrap();
    let by_ffi =
        |call: &&TracedCall| call.library.as_deref().is_some_and(|name| name.starts_with("libffi.so"));
    let made = calls.iter().filter(|call| call.name == "hipDeviceSynchronize").filter(by_ffi).count();
    assert_eq!(made, 5, "{}", outcome.stderr);
}

#[needs(ROOT)]
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
    let calls = traced(&["python3", "-c", &script]);
    assert_eq!(calls.len(), 3, "{calls:#?}");
}

#[needs(ROOT)]
fn children_and_their_children_are_recorded() {
    let vector_add = app("vector_add");
    let line = format!(
        "{0} --launches 20 & sh -c '{0} --launches 30'; wait; exec {0} --launches 50",
        vector_add.display()
    );
    let calls = traced(&["sh", "-c", &line]);
    assert_eq!(launches(&calls), 100);
    assert!(
        calls.iter().all(|call| call.library.as_deref() == Some("vector_add")),
        "{:?}",
        by_library(&calls)
    );
}

#[needs(ROOT)]
fn processes_beside_the_command_are_not_recorded() {
    let vector_add = app("vector_add");
    let mut beside =
        Command::new(&vector_add).args(["--seconds", "120"]).stdout(Stdio::null()).spawn().unwrap();
    let command = [vector_add.to_str().unwrap(), "--launches", "25"];
    let calls = traced(&command);
    beside.kill().unwrap();
    beside.wait().unwrap();
    assert_eq!(launches(&calls), 25);
}

#[needs(ROOT)]
fn a_storm_of_short_processes_is_recorded_completely() {
    let vector_add = app("vector_add");
    let line =
        format!("for i in $(seq 40); do {} --launches 3 > /dev/null & done; wait", vector_add.display());
    let calls = traced(&["bash", "-c", &line]);
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

#[needs(ROOT)]
fn a_stopped_command_continues_when_the_tracer_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let witness = dir.path().join("witness");
    // The command stops itself, as the tracer stops it while it loads a runtime.
    let script = format!("echo stopping $$ >&2; kill -STOP $$; echo alive > {}", witness.display());
    let mut tracer =
        Running::start(xsched_ctl(["trace", "-o", "/dev/null", "--", "sh", "-c", &script]).process_group(0));
    let stopping = tracer.wait_for_stderr("stopping ");
    let status = format!("/proc/{}/status", stopping.trim_start_matches("stopping "));
    wait_until("the command has stopped", || fs::read_to_string(&status).unwrap().contains("(stopped)"));
    assert!(!witness.exists(), "the command has not stopped");
    tracer.signal(Signal::KILL);
    tracer.finish();
    wait_until("the command goes on", || witness.exists());
}

#[needs(ROOT)]
fn a_shell_with_job_control_does_not_see_its_job_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    // `set -m` gives the job a process group of its own, and makes the shell wait for stopped children too.
    let script = format!(
        "set -m; python3 -c \"import ctypes; ctypes.CDLL('{}').hipDeviceSynchronize()\"; test $? -lt 128",
        runtime.display()
    );
    let outcome = run(&mut xsched_ctl(["trace", "-o", "/dev/null", "--", "bash", "-c", &script]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("Stopped"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn a_storm_beside_other_programs_is_accounted_for() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    // One program uses the runtime already, so that it has probes before the storm starts.
    let mut beside =
        Running::start(Command::new(app("two_libraries")).args(["--seconds", "60", "--interval-us", "2000"]));
    beside.wait_for_stdout("ready ");
    let mut tracer = Running::start(xsched_ctl(["trace", "--all", "--library", "gust", "-o"]).arg(&trace));
    tracer.wait_for_stderr("recording every process");
    // Under a unique name: other processes on this machine may use HIP too.
    let gust = app_copy("vector_add", dir.path(), "gust");
    let line =
        "for i in $(seq 4); do (for j in $(seq 15); do $0 --launches 40 --threads 4; done) & done; wait";
    let mut storm = Command::new("bash");
    storm.args(["-c", line]).arg(gust.get_program()).env("HIP_SIM_NULL", "1");
    let storm = run(storm.envs(gust.get_envs().filter_map(|(name, value)| Some((name, value?)))));
    assert_eq!(storm.stdout.matches("40 launches").count(), 60, "{}", storm.stderr);
    let outcome = tracer.interrupt();
    beside.signal(Signal::KILL);
    let calls = calls(&trace).unwrap();
    let recorded = calls
        .iter()
        .filter(|call| call.category == "hip.launch" && call.library.as_deref() == Some("gust"))
        .count();
    // Other processes may have caused other messages, so only losses are checked.
    assert!(!outcome.stderr.contains("calls lost"), "{}", outcome.stderr);
    assert_eq!(recorded, 60 * 40, "{}", outcome.stderr);
}

#[needs(ROOT)]
fn a_library_that_is_loaded_repeatedly_is_recorded_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    // ctypes never unloads a library, so the script calls the loader directly.
    let script = format!(
        "import ctypes, _ctypes
for i in range(40):
    library = _ctypes.dlopen('{}', 2)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(_ctypes.dlsym(library, 'hipDeviceSynchronize'))
    assert call() == 0
    _ctypes.dlclose(library)",
        runtime.display()
    );
    let calls = traced(&["python3", "-c", &script]);
    let made = calls.iter().filter(|call| call.name == "hipDeviceSynchronize").count();
    assert_eq!(made, 40);
}

#[needs(ROOT)]
fn a_forked_child_that_runs_no_other_program_is_recorded_under_its_own_id() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    let script = format!(
        "import ctypes, os
hip = ctypes.CDLL('{}')
hip.hipDeviceSynchronize()
children = [os.fork() or [hip.hipDeviceSynchronize() for i in range(9)] and os._exit(0) for n in range(5)]
assert all(os.waitpid(child, 0)[1] == 0 for child in children)",
        runtime.display()
    );
    let calls = traced(&["python3", "-c", &script]);
    assert_eq!(calls.len(), 1 + 5 * 9, "{:?}", by_library(&calls));
}

/// A program that uses HIP until it is killed, from a file of which the process has the only reference: one in memory, a deleted
/// one, or one that another has replaced. Bundles of one file unpack their libraries so.
fn from_a_file_that_is_gone(way: &str) -> Running {
    let script = "
import ctypes, os, shutil, sys, tempfile, time
way, source, folder = sys.argv[1], sys.argv[2], tempfile.mkdtemp()
path = folder + '/libamdhip64.so.6'
if way == 'memory':
    file = os.memfd_create('libamdhip64.so.6')
    os.write(file, open(source, 'rb').read())
    path = f'/proc/self/fd/{file}'
else:
    shutil.copy(source, path)
hip = ctypes.CDLL(path)
if way == 'replaced':
    shutil.copy(source, path + '.new')
    os.rename(path + '.new', path)
    open(path, 'r+b').truncate(0)
shutil.rmtree(folder)
print('ready', flush=True)
size, memory = ctypes.c_size_t(4096), ctypes.c_void_p()
for turn in range(60000):
    assert hip.hipMalloc(ctypes.byref(memory), size) == hip.hipMemset(memory, 0, size) == hip.hipFree(memory) == 0
    time.sleep(0.002)";
    let mut program = Command::new("python3");
    program.args(["-c", script, way]).arg(hip_sim(6).join("libamdhip64.so.6"));
    let mut program = Running::start(&mut program);
    program.wait_for_stdout("ready");
    program
}

#[needs(ROOT)]
fn a_runtime_in_memory_or_in_a_file_that_is_gone_is_recorded_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    for way in ["memory", "deleted", "replaced"] {
        let trace = dir.path().join(way);
        let program = from_a_file_that_is_gone(way);
        let pid = program.pid().to_string();
        let listed = run(&mut xsched_ctl(["doctor"])).stdout;
        assert!(listed.contains(&format!("{pid} /")), "{way}: {listed}");
        let mut tracer = Running::start(xsched_ctl(["trace", "--pid", &pid, "-o"]).arg(&trace));
        tracer.wait_for_stderr("recording process");
        wait_for_bytes(&trace, 2000);
        let outcome = tracer.interrupt();
        program.signal(Signal::KILL);
        assert_eq!(outcome.code, 0, "{way}: {}", outcome.stderr);
        assert!(
            calls(&trace).unwrap().iter().any(|call| call.name == "hipMemset"),
            "{way}: {}",
            outcome.stderr
        );
    }
}

/// As after an upgrade of both.
#[needs(nothing)]
fn a_shim_and_a_runtime_that_were_deleted_since_are_examined() {
    let dir = tempfile::tempdir().unwrap();
    let (hip, copy) = (fresh_runtime(dir.path()), dir.path().join("libxsched_shim.so"));
    fs::copy(shim(), &copy).unwrap();
    let script = "
import ctypes, sys
hip, memory = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(64)) == 0
print('ready', flush=True)
sys.stdin.read()";
    let mut program = Command::new("python3");
    program
        .args(["-c", script])
        .arg(&hip)
        .env("LD_PRELOAD", &copy)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    std::io::Read::read_exact(program.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    for file in [&hip, &copy] {
        fs::remove_file(file).unwrap();
    }
    let doctor = run(&mut xsched_ctl(["doctor", "--pid", &program.id().to_string()]));
    drop(program.stdin.take());
    program.wait().unwrap();
    assert_eq!(doctor.code, 0, "{}", doctor.stderr);
    assert!(doctor.stdout.starts_with("shim         active   "), "{}", doctor.stdout);
    assert_eq!(doctor.stdout.matches("(deleted or replaced since)").count(), 2, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("runtime      "), "{}", doctor.stdout);
}

#[needs(ROOT)]
fn files_that_are_deleted_while_they_run_keep_their_names() {
    let dir = tempfile::tempdir().unwrap();
    fresh_runtime(dir.path());
    for name in ["two_libraries", "libdemo_blas.so", "libdemo_kernels.so", "libdemo_twins.so"] {
        fs::copy(app(name), dir.path().join(name)).unwrap();
    }
    let trace = dir.path().join("run.perfetto");
    let mut program = Command::new(dir.path().join("two_libraries"));
    program.args(["--seconds", "120", "--interval-us", "500"]).env("LD_LIBRARY_PATH", dir.path());
    let mut program = Running::start(&mut program);
    program.wait_for_stdout("ready ");
    for name in ["two_libraries", "libdemo_blas.so", "libdemo_kernels.so", "libamdhip64.so.6"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let mut tracer =
        Running::start(xsched_ctl(["trace", "--pid", &program.pid().to_string(), "-o"]).arg(&trace));
    tracer.wait_for_stderr("recording process");
    wait_for_bytes(&trace, 1);
    let outcome = tracer.interrupt();
    program.signal(Signal::KILL);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let calls = calls(&trace).unwrap();
    let counts = by_library(&calls);
    for library in ["two_libraries", "libdemo_blas.so", "libdemo_kernels.so"] {
        assert!(counts.keys().any(|(name, _)| *name == library), "{counts:?}");
    }
    assert!(counts.keys().all(|(library, _)| !library.contains('[')), "{counts:?}");
    let unnamed = calls.iter().filter(|call| call.caller.is_none()).count();
    assert_eq!(unnamed, 0, "{counts:?}");
}

#[needs(ROOT)]
fn a_process_that_changes_its_program_in_the_middle_of_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = fresh_runtime(dir.path());
    // A thread waits in hipDeviceSynchronize for a function that does not return when another thread calls exec.
    let script = format!(
        "import ctypes, os, threading, time
hip = ctypes.CDLL('{0}')
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(60))
assert hip.hipLaunchHostFunc(None, function, None) == 0
waiting = threading.Thread(target=hip.hipDeviceSynchronize)
waiting.start()
def state():
    status = open(f'/proc/self/task/{{waiting.native_id}}/status').read()
    return [line for line in status.splitlines() if line.startswith(('State', 'voluntary'))]
before = []
while before != state() or 'sleeping' not in before[0]:
    before = state()
    time.sleep(0.3) # a thread that waits for this one is not asleep now
os.execv('{1}', ['{1}', '--launches', '7'])",
        runtime.display(),
        app("vector_add").display()
    );
    let calls = traced(&["python3", "-c", &script]);
    assert_eq!(launches(&calls), 7);
    let waiting: Vec<_> = calls
        .iter()
        .filter(|call| call.library.as_deref().is_some_and(|name| name.starts_with("libffi")))
        .collect();
    assert_eq!(waiting.len(), 2, "{calls:#?}");
    let cut = waiting.iter().find(|call| call.name == "hipDeviceSynchronize").unwrap();
    assert_eq!(cut.returned, None, "it has not returned: {cut:?}");
}

#[needs(ROOT)]
fn threads_that_live_for_one_call_are_all_recorded() {
    let vector_add = app("vector_add");
    let command = [vector_add.to_str().unwrap(), "--launches", "600", "--threads", "300"];
    let calls = traced(&command);
    assert_eq!(launches(&calls), 600);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
