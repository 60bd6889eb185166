//! Containers: targets in namespaces of their own, and the tracer in one.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::{NAMESPACES, OVERLAY, ROOT, USER, USER_NAMESPACES};
use xsched_tests::artifacts::{app, hip_sim, shim, xsched_ctl as binary};
use xsched_tests::needs::OTHER_USERS;
use xsched_tests::serving::Serving;
use xsched_tests::tracer::{
    Outcome, Running, TracedCall, calls, run, wait_for_bytes, wait_until, xsched_ctl,
};

fn launches(calls: &[TracedCall]) -> Vec<&TracedCall> {
    calls.iter().filter(|call| call.category == "hip.launch").collect()
}

#[track_caller]
fn assert_complete(outcome: &Outcome) {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

/// A shell script in mount and pid namespaces of its own.
fn contained(script: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--mount-proc", "bash", "-ec", script, "bash"])
        .args(arguments);
    command
}

/// A container with files of its own: runtime and program are visible only inside. $1: an empty folder; $2: the runtime's
/// folder; $3: the programs' folder; $4: name of the program; its arguments follow.
const HIDDEN: &str = r#"
mount -t tmpfs tmpfs "$1"
cp "$2"/libamdhip64.so* "$3"/libdemo_* "$3/$4" "$1"
folder=$1; program=$4; shift 4
exec env LD_LIBRARY_PATH="$folder" "$folder/$program" "$@"
"#;

fn hidden(folder: &Path, program: &str, arguments: &[&str]) -> Command {
    let programs = app(program);
    let mut command = contained(HIDDEN, &[folder, &hip_sim(6), programs.parent().unwrap()]);
    command.arg(program).args(arguments);
    command
}

/// Checks the launches of `two_libraries --launches 300`: their libraries and kernel names.
#[track_caller]
fn assert_named(calls: &[TracedCall]) {
    let launches = launches(calls);
    assert_eq!(launches.len(), 300);
    for (library, kernel, count) in [
        ("two_libraries", "direct_step(", 100),
        ("two_libraries", "module_step", 100),
        ("libdemo_kernels.so", "void demo::kernels::", 100),
    ] {
        let named = launches.iter().filter(|call| {
            call.library.as_deref() == Some(library)
                && call.kernel.as_deref().is_some_and(|name| name.starts_with(kernel))
        });
        assert_eq!(named.count(), count, "{library} {kernel}: {launches:#?}");
    }
}

#[needs(ROOT, NAMESPACES)]
fn a_command_with_files_and_ids_of_its_own_is_recorded_completely() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, trace) = (dir.path().join("hidden"), dir.path().join("run.perfetto"));
    std::fs::create_dir(&folder).unwrap();
    let target = hidden(&folder, "two_libraries", &["--launches", "300"]);
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(&trace).arg("--").arg(target.get_program()).args(target.get_args());
    assert_complete(&run(&mut command));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the files are visible only inside");
    assert_named(&calls(&trace).unwrap());
}

#[needs(ROOT, NAMESPACES)]
fn a_running_container_is_recorded_by_its_host_pid() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, trace) = (dir.path().join("hidden"), dir.path().join("run.perfetto"));
    std::fs::create_dir(&folder).unwrap();
    let mut container = hidden(&folder, "two_libraries", &["--seconds", "60", "--interval-us", "500"]);
    // A process group of its own, to kill it with its children.
    let mut container = Running::start(container.process_group(0));
    // Its pid inside is another one.
    assert_eq!(container.wait_for_stdout("ready "), "ready 1");
    let children = format!("/proc/{0}/task/{0}/children", container.pid());
    let pid = std::fs::read_to_string(children).unwrap().trim().to_owned();
    let mut tracer = Running::start(xsched_ctl(["trace", "--pid", &pid, "-o"]).arg(&trace));
    tracer.wait_for_stderr("recording process");
    wait_for_bytes(&trace, 1);
    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // The module's kernel was looked up before the recording; all others have names.
    assert!(!outcome.stderr.contains("calls lost"), "{}", outcome.stderr);
    container.signal_group(Signal::KILL);
    let calls = calls(&trace).unwrap();
    let named = |library: &str, kernel: &str| {
        launches(&calls).iter().any(|call| {
            call.library.as_deref() == Some(library)
                && call.kernel.as_deref().is_some_and(|name| name.starts_with(kernel))
        })
    };
    assert!(named("libdemo_kernels.so", "void demo::kernels::mix<"), "{calls:#?}");
    assert!(named("two_libraries", "direct_step("), "{calls:#?}");
}

/// The shim is at a path of the container's own. $1: an empty folder; $2: the shim; $3: the program.
const SHIMMED: &str = r#"
mount -t tmpfs tmpfs "$1"
cp "$2" "$1"
exec env LD_PRELOAD="$1/libxsched_shim.so" "$3" --seconds 300 --interval-us 100
"#;

/// A container needs the folder of the sockets and the shim for that.
#[needs(ROOT, NAMESPACES)]
fn a_container_takes_part_in_scheduling_under_its_host_pids() {
    let controller = Serving::start("").unwrap();
    let ask = |verb: &[&str]| run(xsched_ctl(verb).env("XSCHED_SOCKET_DIR", controller.folder()));
    let folder = controller.file("hidden");
    std::fs::create_dir(&folder).unwrap();
    let mut container = contained(SHIMMED, &[&folder, &shim(), &app("two_libraries")]);
    container.env("XSCHED_SOCKET_DIR", controller.folder()).process_group(0);
    let mut container = Running::start(&mut container);
    assert_eq!(container.wait_for_stdout("ready "), "ready 1");
    let children = format!("/proc/{0}/task/{0}/children", container.pid());
    let pid = std::fs::read_to_string(children).unwrap().trim().to_owned();
    let joined = format!(r#""pid":{pid},"#);
    wait_until("the container has joined", || ask(&["list", "--json"]).stdout.contains(&joined));
    let set = ask(&["set", "--pid", &pid, "--priority", "-7"]);
    assert_eq!((set.code, set.stdout.contains("priority -7")), (0, true), "{}{}", set.stdout, set.stderr);
    let doctor = ask(&["doctor", "--pid", &pid]).stdout;
    // The rest of the line is not checked: on a slow machine its reports may miss the limit of 100 ms for the probe.
    assert!(doctor.contains("controller   joined   priority -7"), "{doctor}");
    container.signal_group(Signal::KILL);
}

/// Starts a process with the shim and records it with this controller. Returns its pid, the tracer's messages about its
/// scheduling, and `doctor`'s line about the controller.
fn scheduling_messages(controller: &Serving, process: &mut Command) -> (u32, Vec<String>, String) {
    let process = process.env("LD_PRELOAD", shim()).process_group(0);
    let mut process = Running::start(process);
    process.wait_for_stdout("ready ");
    let (pid, trace) = (process.pid(), controller.file("trace"));
    let mut tracer = xsched_ctl(["trace", "--duration", "2s", "--pid", &pid.to_string(), "-o"]);
    let outcome = run(tracer.arg(trace).env("XSCHED_SOCKET_DIR", controller.folder()));
    let mut doctor = xsched_ctl(["doctor", "--pid", &pid.to_string()]);
    let doctor = run(doctor.env("XSCHED_SOCKET_DIR", controller.folder())).stdout;
    process.signal_group(Signal::KILL);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines = outcome.stderr.lines().filter(|line| line.contains("not in the timeline"));
    let joined = doctor.lines().find(|line| line.starts_with("controller ")).unwrap();
    (pid, lines.map(str::to_owned).collect(), joined.to_owned())
}

/// A program in a mount namespace of its own. $1: the folder of the controller's sockets; $2: an empty folder; $3:
/// `xsched-ctl`; $4: the program.
fn without_its_folder(script: &str, controller: &Serving, empty: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "bash", "-ec"])
        .arg(format!("{script}\nexec \"$4\" --seconds 60 --interval-us 500"));
    command.arg("bash").args([controller.folder(), empty, &binary(), &app("two_libraries")]);
    command.env("XSCHED_SOCKET_DIR", controller.folder());
    command
}

#[needs(ROOT, NAMESPACES)]
fn a_container_that_cannot_reach_the_controller_is_reported() {
    let controller = Serving::start_without_bpf("").unwrap();
    let other = tempfile::tempdir().unwrap();
    let (folder, empty) = (controller.folder().display(), other.path().display());
    let assert_said = |command: &mut Command, why: &str| {
        let (pid, said, joined) = scheduling_messages(&controller, command);
        assert_eq!(said, [format!("warning: scheduling of process {pid} is not in the timeline: {why}")]);
        assert_eq!(joined, format!("controller   absent   the process has not joined: {why}"));
    };
    assert_said(
        &mut without_its_folder(r#"mount -t tmpfs tmpfs "$1""#, &controller, other.path()),
        &format!("no controller is in {folder} of its container: mount {folder} there"),
    );
    let with_its_own = r#"
mount -t tmpfs tmpfs "$1"
env -u LD_PRELOAD "$3" serve --no-bpf > /dev/null 2>&1 &
until [ -S "$1/record.sock" ]; do kill -0 $!; sleep 0.1; done
"#;
    assert_said(
        &mut without_its_folder(with_its_own, &controller, other.path()),
        &format!("its controller is in {folder} of its container, where `xsched-ctl` asks it"),
    );
    // Not a container, but its folder has no controller.
    let mut astray = Command::new(app("two_libraries"));
    astray.args(["--seconds", "60", "--interval-us", "500"]).env("XSCHED_SOCKET_DIR", other.path());
    assert_said(
        &mut astray,
        &format!("it looks for its controller in {empty}, where none is: this one is in {folder}"),
    );
    // Its folder has a link that leads to the controller only outside of the container.
    let linked = tempfile::tempdir().unwrap();
    let socket = |folder: &Path| folder.join("record.sock");
    std::os::unix::fs::symlink(socket(controller.folder()), socket(linked.path())).unwrap();
    let hidden = r#"
mount -t tmpfs tmpfs "$1"
export XSCHED_SOCKET_DIR="$2"
"#;
    let link_folder = linked.path().display();
    assert_said(
        &mut without_its_folder(hidden, &controller, linked.path()),
        &format!("no controller is in {link_folder} of its container: mount {folder} there"),
    );
    // The same folder under another name, through a link that leads elsewhere outside.
    let mounted = r#"
mount --bind "$1" "$2"
mount -t tmpfs tmpfs /mnt
ln -s "$2" /mnt/link
export XSCHED_SOCKET_DIR=/mnt/link
"#;
    let (_, said, joined) =
        scheduling_messages(&controller, &mut without_its_folder(mounted, &controller, other.path()));
    assert_eq!(said, [""; 0]);
    assert!(joined.starts_with("controller   joined   "), "{joined}");
}

#[needs(nothing)]
fn doctor_accepts_a_relative_folder() {
    let controller = Serving::start_without_bpf("").unwrap();
    let folder = controller.folder();
    let mut process = Command::new("sleep");
    process.arg("60").env("LD_PRELOAD", shim()).env("XSCHED_SOCKET_DIR", folder).process_group(0);
    let process = Running::start(&mut process);
    let mut doctor = xsched_ctl(["doctor", "--pid", &process.pid().to_string()]);
    doctor.current_dir(folder.parent().unwrap()).env("XSCHED_SOCKET_DIR", folder.file_name().unwrap());
    let said = run(&mut doctor).stdout;
    process.signal_group(Signal::KILL);
    let expected = "controller   absent   the process has not joined: it joins when it first uses a device";
    assert!(said.lines().any(|line| line == expected), "{said}");
}

/// Refuses every process for a reason.
const REFUSING: &str = "
import os, socket, struct, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(os.path.join(sys.argv[1], 'shim.sock'))
listener.listen()
print('ready', flush=True)
while True:
    process = listener.accept()[0]
    process.recv(64)
    process.send(struct.pack('=II', 7, int(sys.argv[2])))
    process.close()";

/// That a process joins when it first uses a device helps only where it has not.
#[needs(nothing)]
fn doctor_says_why_a_process_that_uses_a_device_is_not_listed() {
    let controller = Serving::start_without_bpf("").unwrap();
    let script = "
import ctypes, sys
hip, memory, size = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_size_t(64)
assert hip.hipMalloc(ctypes.byref(memory), size) == hip.hipMemset(memory, 1, size) == 0
print('ready', flush=True)
sys.stdin.read()";
    let why = |reason: u32, scheduler: &str, wanted: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut refusing = Command::new("python3");
        refusing.args(["-c", REFUSING]).arg(folder.path()).arg(reason.to_string());
        let mut refusing = Running::start(&mut refusing);
        refusing.wait_for_stdout("ready");
        let mut process = Command::new("python3");
        process.args(["-c", script]).arg(hip_sim(6).join("libamdhip64.so.6")).env("LD_PRELOAD", shim());
        process.env("XSCHED_SOCKET_DIR", folder.path()).env("XSCHED_SCHEDULER", scheduler);
        process.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut process = process.spawn().unwrap();
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        // Its watcher may not have asked yet.
        wait_until(wanted, || {
            let mut doctor = xsched_ctl(["doctor", "--pid", &process.id().to_string()]);
            let said = run(doctor.env("XSCHED_SOCKET_DIR", controller.folder())).stdout;
            said.contains(&format!("controller   absent   the process has not joined: {wanted}"))
        });
        drop(process.stdin.take());
        process.wait().unwrap();
        refusing.signal(Signal::KILL);
    };
    why(1, "GLB", "its shim is of another version than the controller");
    why(3, "GLB", "the controller has no room for it");
    why(1, "LCL", "it schedules its own streams (XSCHED_SCHEDULER=LCL)");
    why(1, "APP", "nothing is to schedule it (XSCHED_SCHEDULER=APP)");
}

/// Its user namespace maps only its own user.
#[needs(ROOT, NAMESPACES, OTHER_USERS, USER_NAMESPACES)]
fn a_container_with_users_of_its_own_does_not_trust_the_controller() {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).uid(USER).current_dir("/");
    let controller = Serving::start_without_bpf("").unwrap();
    std::fs::set_permissions(controller.folder(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    command.arg(app("two_libraries")).args(["--seconds", "60", "--interval-us", "500"]);
    command.env("XSCHED_SOCKET_DIR", controller.folder());
    command.env("HIP_SIM_SHARED", format!("untrusting-{}", std::process::id()));
    let (pid, said, _) = scheduling_messages(&controller, &mut command);
    let folder = controller.folder().display();
    let expected = format!(
        "warning: scheduling of process {pid} is not in the timeline: it does not trust the controller in {folder}, which is \
         neither root's nor its own user's as far as its user namespace knows"
    );
    assert_eq!(said, [expected]);
    let list = run(xsched_ctl(["list", "--json"]).env("XSCHED_SOCKET_DIR", controller.folder()));
    assert!(!list.stdout.contains(&format!(r#""pid":{pid},"#)), "{}", list.stdout);
}

#[needs(ROOT, NAMESPACES, OVERLAY)]
fn a_container_with_layers_is_recorded_once() {
    let dir = tempfile::tempdir().unwrap();
    for layer in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(dir.path().join(layer)).unwrap();
    }
    // As in a container: a lower layer with the files, and a writable layer on top.
    let script = r#"
mount -t tmpfs tmpfs "$1/upper" && mkdir "$1/upper/u" "$1/upper/w"
cp "$2"/libamdhip64.so* "$3/libdemo_twins.so" "$3/vector_add" "$1/lower"
mount -t overlay overlay -o "lowerdir=$1/lower,upperdir=$1/upper/u,workdir=$1/upper/w" "$1/merged"
LD_LIBRARY_PATH="$1/merged" exec "$1/merged/vector_add" --launches 50
"#;
    let programs = app("vector_add");
    let target = contained(script, &[dir.path(), &hip_sim(6), programs.parent().unwrap()]);
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(&trace).arg("--").arg(target.get_program()).args(target.get_args());
    let outcome = run(&mut command);
    assert_complete(&outcome);
    let calls = calls(&trace).unwrap();
    assert_eq!(launches(&calls).len(), 50);
    assert!(calls.iter().all(|call| call.library.as_deref() == Some("vector_add")), "{calls:#?}");
}

/// `xsched-ctl` in a pid namespace of its own.
fn in_container(arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc"]).arg(binary()).args(arguments);
    command
}

#[needs(ROOT, NAMESPACES)]
fn a_tracer_in_a_container_records_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let program = app("two_libraries");
    // Another process of the host uses the same runtime meanwhile.
    let mut beside = Running::start(Command::new(app("vector_add")).args(["--seconds", "60"]));
    beside.wait_for_stdout("ready ");
    let arguments =
        ["trace", "-o", trace.to_str().unwrap(), "--", program.to_str().unwrap(), "--launches", "300"];
    let outcome = run(&mut in_container(&arguments));
    beside.signal(Signal::KILL);
    assert_complete(&outcome);
    assert_named(&calls(&trace).unwrap());
}

#[needs(ROOT, NAMESPACES)]
fn a_tracer_in_a_container_sees_only_processes_of_the_container() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut outside =
        Running::start(Command::new(app("two_libraries")).args(["--seconds", "60", "--interval-us", "2000"]));
    outside.wait_for_stdout("ready ");
    let script = r#"
"$1" --seconds 120 --interval-us 1000 > /dev/null &
inside=$!
"$2" trace --all -o "$3" &
tracer=$!
# Its first write contains more than a thousand calls.
until [ -s "$3" ]; do kill -0 $tracer; sleep 0.1; done
kill $tracer
wait $tracer
kill -9 $inside
"#;
    let outcome = run(&mut contained(script, &[&app("vector_add"), &binary(), &trace]));
    outside.signal(Signal::KILL);
    assert!(outcome.stderr.contains("made in other pid namespaces"), "{}", outcome.stderr);
    let calls = calls(&trace).unwrap();
    assert!(launches(&calls).len() > 100, "{}", outcome.stderr);
    assert!(calls.iter().all(|call| call.library.as_deref() == Some("vector_add")), "{calls:#?}");
}

#[needs(ROOT, NAMESPACES)]
fn a_proc_of_another_namespace_is_refused() {
    let refused = |arguments: &[&str]| {
        run(Command::new("unshare").args(["--pid", "--fork"]).arg(binary()).args(arguments))
    };
    let outcome = refused(&["trace", "--", "true"]);
    assert_eq!(outcome.code, 69, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("/proc shows the process ids of another pid namespace"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    assert!(refused(&["doctor"]).stdout.contains("pid space    missing"));
    let nested = run(&mut in_container(&["doctor"]));
    assert!(nested.stdout.contains("pid space    reduced"), "{}", nested.stdout);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
