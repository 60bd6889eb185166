//! Starts and ends of controllers and processes, and their effects on each other.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_protocol::arbiter_page::GATE_ALLOWED;
use xsched_tests::artifacts::{app, hip_sim, shim, xsched_ctl as binary};
use xsched_tests::tracer::{Running, run, wait_until, xsched_ctl};

use super::fixture::{self, Controller};

#[needs(nothing)]
fn a_controller_announces_itself_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = xsched_ctl(["serve", "--no-bpf", "--json"]);
    let mut running = Running::start(serve.env("XSCHED_SOCKET_DIR", folder.path()));
    let line = running.wait_for_stdout("answer");
    let status: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&status["answer"], &status["state"]), (&"status".into(), &"active".into()), "{line}");
    assert_eq!(status["pid"], running.pid(), "{line}");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code, 0);
}

/// Files of a shell with this umask are private; the controller must be reachable by every user.
#[needs(nothing)]
fn other_users_reach_a_controller_whatever_its_umask() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("made");
    let mut serve = Command::new("sh");
    serve
        .args(["-c", "umask 077; exec \"$0\" serve --no-bpf"])
        .arg(binary())
        .env("XSCHED_SOCKET_DIR", &folder);
    let mut running = Running::start(&mut serve);
    running.wait_for_stderr("sockets in");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("shim.sock"))), (0o755, 0o666));
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code, 0);
    // The controller does not change the mode of an existing folder.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut running = Running::start(&mut serve);
    running.wait_for_stderr("sockets in");
    assert_eq!(mode(&folder), 0o700);
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code, 0);
}

/// The gate page comes with the answer, with and without BPF programs.
#[needs(ROOT)]
fn a_queue_has_a_gate_that_is_closed_while_others_are_more_urgent() {
    for controller in [Controller::start(""), Controller::start_with_programs("")] {
        let joined = |priority: i32| {
            let mut process = controller.process_of(0);
            process.ask(&format!("connect {priority}"));
            process.open(7);
            process
        };
        let (mut urgent, mut other) = (joined(5), joined(-5));
        let expect = |process: &mut fixture::Process, word: u64| {
            wait_until("the gate follows", || process.ask("gate")["gate"] == word);
        };
        // The policy sets their levels with a delay.
        wait_until("they have levels", || urgent.level() < other.level());
        urgent.report("ready");
        expect(&mut other, 0);
        expect(&mut urgent, GATE_ALLOWED);
        urgent.report("idle");
        expect(&mut other, GATE_ALLOWED);
        urgent.report("ready");
        expect(&mut other, 0);
        urgent.kill();
        expect(&mut other, GATE_ALLOWED);
    }
}

#[needs(nothing)]
fn a_second_controller_is_refused() {
    let mut controller = Controller::start("");
    let (code, message) = controller.refused(&["serve", "--no-bpf"]);
    assert_eq!(code, 69);
    let pid = controller.process().pid();
    assert!(message.contains(&format!("a controller is running already: process {pid}")), "{message}");
    assert!(message.contains("hint: "), "{message}");
}

/// As in a container with its own pid namespace.
#[needs(ROOT)]
fn a_controller_that_cannot_distinguish_processes_warns_once() {
    let (_folder, wrapper) = fixture::container();
    let mut controller = Controller::start_by(wrapper, "");
    let processes = [(); 2].map(|()| controller.joined(0, 5));
    controller.process().wait_for_stderr("run the controller in the host's pid namespace");
    let (code, message) = controller.refused(&["serve", "--no-bpf"]);
    assert!(
        code == 69 && message.contains("must be stopped there") && !message.contains("kill"),
        "{message}"
    );
    drop(processes);
    // `unshare` reacts only to this signal, and its end kills the controller.
    controller.process().signal(Signal::KILL);
    let account = controller.finish().stderr;
    assert_eq!(account.matches("run the controller in").count(), 1, "{account}");
}

#[needs(ROOT)]
fn missing_privileges_for_bpf_programs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let lacking = "-sys_admin,-bpf";
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", lacking, "--inh-caps", lacking]).arg(binary()).arg("serve");
    let mut serve = Running::start(command.env("XSCHED_SOCKET_DIR", folder.path()));
    serve.wait_for_stderr("page kept by the controller itself");
    let outcome = serve.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // Pins of a controller that was killed are opened, and then the probe is refused.
    let refusals = [": Operation not permitted", ": Permission denied"];
    assert!(refusals.iter().any(|refusal| outcome.stderr.contains(refusal)), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("missing capabilities: CAP_BPF, CAP_SYS_ADMIN; `--no-bpf`"),
        "{}",
        outcome.stderr
    );
}

/// Containers do not mount it; without it, the BPF programs do not know the mappings of processes.
#[needs(ROOT)]
fn a_controller_without_tracefs_warns_that_it_sees_no_chains() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "mount -t tmpfs none /sys/kernel/debug; mount -t tmpfs none /sys/kernel/tracing; exec \"$0\" serve";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(binary());
    let mut serve = Running::start(command.env("XSCHED_SOCKET_DIR", folder.path()));
    let greeting = serve.wait_for_stderr("page kept by BPF programs");
    assert!(greeting.contains("rules see immediate callers only"), "{greeting}");
    let outcome = serve.interrupt();
    assert!(outcome.stderr.contains("tracefs is not mounted here"), "{}", outcome.stderr);
}

/// That the tracer's programs load says nothing about the controller's.
#[needs(ROOT)]
fn doctor_tries_the_programs_of_a_controller_beside_a_running_one() {
    let doctor = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{script}; exec \"$0\" doctor")]).arg(binary());
        run(&mut command).stdout
    };
    let controller = Controller::start_with_programs("");
    let mut process = controller.process_of(0);
    process.ask("connect");
    process.open(5);
    let found = doctor(":");
    for name in ["arbiter", "verdicts"] {
        let line = format!("{name:<12} ok       the controller's programs load and attach\n");
        assert!(found.contains(&line), "{found}");
    }
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    let found = doctor("mount -t tmpfs none /sys/kernel/debug; mount -t tmpfs none /sys/kernel/tracing");
    assert!(found.contains("verdicts     reduced  cannot attach `map_enter`"), "{found}");
    let found = doctor("mount -t tmpfs -o ro none /sys/fs/bpf");
    assert!(found.contains("arbiter      reduced  cannot use /sys/fs/bpf: Read-only"), "{found}");
}

#[needs(ROOT)]
fn a_regular_end_resumes_all_processes_and_removes_the_sockets() {
    let mut controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    controller.process().signal(Signal::INT);
    assert_eq!(controller.finish().code, 0);
    assert_eq!(process.ask("end")["end"], true);
    assert_eq!(process.ask("look")["obey"], 0);
    process.wait_for_ready(5, 0);
    assert!(!controller.folder().join("shim.sock").exists());
    let (code, message) = controller.refused(&["list"]);
    assert_eq!(code, 69);
    assert!(message.contains("no controller is running"), "{message}");
}

#[needs(ROOT)]
fn processes_rejoin_after_the_controller_was_killed() {
    let mut controller = Controller::start("");
    let mut processes = [controller.joined(1, 5), controller.joined(2, 5)];
    controller.process().signal(Signal::KILL);
    assert_eq!(controller.finish().code, 128 + 9);
    for process in &mut processes {
        assert_eq!(process.ask("end")["end"], true);
    }
    assert_eq!(run(&mut controller.command(&["off"])).code, 0, "without a controller scheduling is off");
    controller.restart("");
    for (process, priority) in processes.iter_mut().zip([1, 2]) {
        process.ask(&format!("connect {priority}"));
        process.open(5);
    }
    let [low, high] = &mut processes;
    assert!(high.level() < low.level());
    assert_eq!(controller.list()["processes"].as_array().unwrap().len(), 2);
}

/// It executes another program between a packet and its answer, whichever that is.
#[needs(ROOT)]
fn a_process_that_executes_itself_again_and_again_sends_nothing_malformed() {
    let controller = Controller::start_with_programs("");
    let script = "
import ctypes, os, sys, time
hip, left, memory = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(64)) == 0
assert hip.hipMemset(memory, 1, ctypes.c_size_t(64)) == 0
time.sleep(left % 12 / 1500)
if left: os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1], str(left - 1)])";
    let mut program = Command::new("python3");
    program.args(["-c", script]).arg(hip_sim(6).join("libamdhip64.so.6")).arg("60");
    program.env("LD_PRELOAD", shim()).env("XSCHED_SOCKET_DIR", controller.folder());
    let outcome = run(&mut program);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let counts = &controller.list()["controller"]["counts"];
    assert!(counts["joined"].as_u64() > Some(9), "{counts}");
    assert_eq!(counts["malformed"], 0, "{counts}");
}

#[needs(ROOT)]
fn bpf_programs_resume_all_processes_when_the_controller_is_killed() {
    let mut controller = Controller::start_with_programs("");
    let mut process = controller.process_of(0);
    let welcome = process.ask("connect");
    assert_eq!((&welcome["keeper"], &welcome["may_write"]), (&1.into(), &false.into()), "{welcome}");
    // This stand-in has no probe, so the controller reports for it.
    process.open(5);
    assert_eq!(controller.listed(&process)["reports"], "controller");
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    controller.process().signal(Signal::KILL);
    controller.finish();
    process.wait_for_ready(5, 0);
    assert_eq!(process.ask("look")["obey"], 0);
    controller.restart("");
    let again = process.ask("connect");
    assert!(again["epoch"].as_u64() > welcome["epoch"].as_u64(), "{again}");
    process.open(5);
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    controller.process().signal(Signal::TERM);
    assert_eq!(controller.finish().code, 0);
    process.wait_for_ready(5, 0);
    assert!(!Path::new("/sys/fs/bpf/xsched/page").exists(), "a regular end leaves nothing");
}

/// The kernel would insert breakpoints at the function addresses of the first file, in every process that loads the second.
#[needs(ROOT)]
fn a_shim_that_is_overwritten_is_not_probed_until_it_is_used_again() {
    let mut controller = Controller::start_with_programs("");
    let copy = controller.folder().join("libxsched_shim.so");
    std::fs::copy(shim(), &copy).unwrap();
    let inode = std::fs::metadata(&copy).unwrap().ino();
    let is_probed = || {
        let mut links =
            std::fs::read_dir("/sys/fs/bpf/xsched").unwrap().map(|entry| entry.unwrap().file_name());
        links.any(|name| name.to_string_lossy().ends_with(&format!("-{inode:x}")))
    };
    let join = || {
        let mut program = Command::new(app("two_libraries"));
        program.args(["--seconds", "120"]).env("XSCHED_SOCKET_DIR", controller.folder());
        let program = Running::start(program.env("LD_PRELOAD", &copy));
        wait_until("the process has joined", || {
            controller.list()["processes"][0]["queues"].as_array().is_some_and(|queues| !queues.is_empty())
        });
        assert_eq!(controller.list()["processes"][0]["reports"], "programs");
        assert!(is_probed());
        program.signal(Signal::KILL);
        program.finish();
        wait_until("it has left", || controller.list()["processes"].as_array().is_some_and(Vec::is_empty));
    };
    join();
    let content = std::fs::read(&copy).unwrap();
    std::fs::write(&copy, content).unwrap();
    wait_until("the probe is taken out", || !is_probed());
    join();
    controller.process().wait_for_stderr("a shim in use is being overwritten");
}

#[needs(ROOT)]
fn a_killed_process_defers_no_launches() {
    let controller = Controller::start("");
    let (mut batch, mut urgent) = (controller.joined(-10, 5), controller.joined(10, 5));
    urgent.report("ready");
    let mask = 1 << urgent.level();
    batch.wait_for_ready(5, mask);
    urgent.kill();
    batch.wait_for_ready(5, 0);
    assert_eq!(controller.list()["processes"].as_array().unwrap().len(), 1);
}

/// A process that closes all its descriptors does so without a word; one that ends needs none.
#[needs(nothing)]
fn the_controller_names_a_process_that_goes_on_without_its_connection() {
    let mut controller = Controller::start("");
    let (mut closing, ending) = (controller.joined(0, 1), controller.joined(0, 1));
    let ended = ending.id();
    ending.kill();
    closing.ask("leave");
    let said = controller.process().wait_for_stderr("has closed its connection");
    assert!(said.contains(&format!("process {} of user 0", closing.id())), "{said}");
    assert!(!said.contains(&format!("process {ended} ")), "{said}");
}
