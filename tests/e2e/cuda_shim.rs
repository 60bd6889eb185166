//! `libxsched_cuda.so` before the simulated libcuda: programs compute the same, are suspended and preempted, and never wait for a
//! controller that has ended.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{cuda_shim, cuda_sim, shim};
use xsched_tests::device_load::{DeviceLoad, Findings};
use xsched_tests::execution_log::Timeline;
use xsched_tests::serving::Serving;
use xsched_tests::small_controller::SmallController;
use xsched_tests::tracer::{Outcome, run, wait_until, xsched_ctl};

/// Long enough to notice an event that should not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// Kernels that may still start after a process was suspended.
const IN_FLIGHT: usize = 2;

/// A device of its own, and a folder.
struct Machine {
    folder: TempDir,
    device: String,
}

impl Machine {
    fn new(test: &str) -> Self {
        let folder = TempDir::new().expect("the temporary folder is writable");
        Self { folder, device: format!("cuda-{test}-{}", std::process::id()) }
    }

    /// A mode of `cuda_client`, whose kernel `burn` fills the device for as many microseconds as its argument says.
    fn client(&self, mode: &str) -> Command {
        self.program("cuda_client", mode)
    }

    fn program(&self, name: &str, mode: &str) -> Command {
        let mut command = Command::new(cuda_sim().join(name));
        self.set_up(command.args(mode.split(' ')));
        command
    }

    fn set_up(&self, command: &mut Command) {
        command
            .env("HIP_SIM_SHARED", &self.device)
            .env("HIP_SIM_TWINS", cuda_sim().join("libcuda_twins.so"))
            .env("HIP_SIM_DURATIONS", "burn=arg0us@100%,ncclDevKernel_burn=arg0us@100%,step=2us")
            .env("HIP_SIM_EXECUTION_LOG", self.executions())
            .env("XSCHED_LOG", self.log())
            .env("XSCHED_SOCKET_DIR", self.folder.path());
    }

    /// The same with the shim.
    fn shimmed(&self, mode: &str) -> Command {
        let mut command = self.client(mode);
        command.env("LD_PRELOAD", cuda_shim());
        command
    }

    fn executions(&self) -> PathBuf {
        self.folder.path().join("executions")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn summary(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Kernels that a process has started so far.
    fn kernels(&self, process: u32) -> usize {
        // The log does not exist before the first kernel.
        Timeline::read(&self.executions()).map_or(0, |timeline| timeline.of(&[process]).kernels().len())
    }

    fn begin(&self, mode: &str) -> DeviceLoad {
        begin(&mut self.shimmed(mode))
    }

    /// A mode of `cuda_contexts` with the shim.
    fn contexts(&self, mode: &str) -> DeviceLoad {
        begin(self.program("cuda_contexts", mode).env("LD_PRELOAD", cuda_shim()))
    }

    /// A program under a controller, by the command that users type.
    fn run_by(&self, controller: &Serving, class: &str, program: &str, mode: &str) -> DeviceLoad {
        let mut command = xsched_ctl(["run", "--class", class, "--"]);
        command.arg(cuda_sim().join(program)).args(mode.split(' '));
        self.set_up(&mut command);
        begin(command.env("XSCHED_SOCKET_DIR", controller.folder()))
    }
}

fn begin(command: &mut Command) -> DeviceLoad {
    let mut load = DeviceLoad::start(command).expect("the program starts");
    load.begin().expect("the process is ready");
    load
}

#[track_caller]
fn is_right(outcome: &Outcome) {
    let launched = "ready\nhost_functions 25\nwrong 0\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, launched), "{}", outcome.stderr);
}

#[needs(nothing)]
fn programs_compute_the_same_with_each_shim_and_with_both() {
    let machine = Machine::new("same");
    is_right(&run(&mut machine.client("steps 200")));
    is_right(&run(&mut machine.shimmed("steps 200")));
    let both = format!("{}:{}", cuda_shim().display(), shim().display());
    is_right(&run(machine.client("steps 200").env("LD_PRELOAD", both)));
    is_right(&run(machine.shimmed("steps 200").env("XSCHED_DISABLE", "1")));
}

#[needs(nothing)]
fn programs_compute_the_same_while_they_are_suspended_at_random() {
    for seed in 1..=4 {
        let machine = Machine::new("random");
        is_right(&run(machine.shimmed("steps 200").env("XSCHED_TEST_SUSPEND", format!("random:{seed}"))));
        let summary = machine.summary();
        let is_suspended =
            ["work that waited in place", "calls that were deferred"].map(|line| summary.contains(line));
        assert!(is_suspended.contains(&true), "the test suspended nothing: {summary}");
        assert!(!summary.contains("panics") && !summary.contains("troubles"), "{summary}");
    }
}

#[needs(nothing)]
fn a_suspended_process_continues_when_it_may() {
    let machine = Machine::new("held");
    let controller = SmallController::start(machine.folder.path()).expect("a socket can be made");
    let mut load = machine.begin("batch 3 500 264");
    wait_until("it reports", || controller.reports() > 0);
    controller.hold(true);
    let before = machine.kernels(load.id());
    thread::sleep(A_WHILE);
    let now = machine.kernels(load.id());
    // It may have gone on before it was known to be limited at all.
    let settled = now.max(before);
    thread::sleep(A_WHILE);
    assert!(machine.kernels(load.id()) <= settled + IN_FLIGHT, "{settled} kernels, then more");
    assert!(!load.has_ended().expect("a child can be waited for"));
    controller.hold(false);
    let findings = load.findings().expect("the program succeeds");
    assert!(findings["kernels"] > settled as f64, "{findings:?}");
}

#[needs(nothing)]
fn a_process_that_a_controller_suspends_at_random_computes_the_same() {
    let machine = Machine::new("flapping");
    let controller = SmallController::start(machine.folder.path()).expect("a socket can be made");
    controller.flap(7);
    let load = machine.begin("steps 200");
    let findings = load.findings().expect("the program succeeds");
    assert_eq!((findings["wrong"], findings["host_functions"]), (0.0, 25.0), "{findings:?}");
    assert_eq!(controller.processes(), 1);
}

#[needs(nothing)]
fn a_process_goes_on_when_the_controller_that_suspends_it_ends() {
    let machine = Machine::new("ended");
    let controller = SmallController::start(machine.folder.path()).expect("a socket can be made");
    let load = machine.begin("batch 1 500 264");
    wait_until("it reports", || controller.reports() > 0);
    controller.hold(true);
    thread::sleep(A_WHILE);
    drop(controller);
    let findings = load.findings().expect("the program succeeds");
    assert!(findings["kernels"] > 0.0, "{findings:?}");
}

/// The whole way: the command preloads the shim, the controller's programs close a gate in its page, the batch job waits there.
#[needs(ROOT)]
fn a_batch_job_is_preempted_at_a_gate_for_an_urgent_process() {
    let machine = Machine::new("urgent");
    let controller = Serving::start("").expect("a controller starts");
    let batch = machine.run_by(&controller, "low", "cuda_client", "batch 4 2000 264");
    let urgent = machine.run_by(&controller, "high", "cuda_client", "urgent 60 8 100 25000");
    let urgent = urgent.findings().expect("the urgent program succeeds");
    let batch = batch.findings().expect("the batch job succeeds");
    assert!(urgent["mean"] > 0.0 && batch["kernels"] > 0.0, "{urgent:?} {batch:?}");
    let summary = machine.summary();
    assert!(summary.contains("1 gates in the arbiter's pages"), "{summary}");
    assert!(summary.contains("calls that were deferred"), "{summary}");
}

/// A batch job in several contexts, beside a process that always has more urgent work for a while. What the summary of both says.
fn beside_urgent_work(machine: &Machine, seconds: u32, contexts: &str) -> String {
    let controller = Serving::start("").expect("a controller starts");
    let mode = format!("run {seconds} 500 264 {contexts}");
    let batch = machine.run_by(&controller, "low", "cuda_contexts", &mode);
    // Gates are tried one behind the other, while there is a more urgent process.
    let mode = format!("urgent {} 8 100 50000", 20 * seconds);
    let urgent = machine.run_by(&controller, "high", "cuda_client", &mode);
    urgent.findings().expect("the urgent program succeeds");
    let batch = batch.findings().expect("the batch job succeeds");
    for context in contexts.split(' ') {
        assert!(batch[&format!("kernels_{context}")] > 0.0, "{context}: {batch:?}");
    }
    machine.summary()
}

/// A page is registered once, with one context. Each has a mapping of its own.
#[needs(ROOT)]
fn every_context_of_a_batch_job_is_preempted_at_a_gate_in_the_arbiters_page() {
    let machine = Machine::new("contexts");
    let summary = beside_urgent_work(&machine, 4, "primary second third green greenstream");
    assert!(summary.contains(" 5 gates in the arbiter's pages"), "{summary}");
    assert!(!summary.contains("gates in memory") && !summary.contains("refused"), "{summary}");
    assert!(!summary.contains("panics") && !summary.contains("troubles"), "{summary}");
}

#[needs(ROOT)]
fn contexts_for_which_a_page_has_no_room_close_their_gates_themselves() {
    let machine = Machine::new("many");
    let summary = beside_urgent_work(&machine, 8, "a b c d e f g h i j");
    assert!(summary.contains(" 8 gates in the arbiter's pages"), "{summary}");
    assert!(summary.contains(" 2 gates in memory of the shim's own"), "{summary}");
    assert!(summary.contains(" 2 contexts beyond those that a page has room for"), "{summary}");
    assert!(!summary.contains("panics") && !summary.contains("troubles"), "{summary}");
}

/// Its registration ends with a context. The next one, at the same address or another, has its own, and no other waits for it.
#[needs(ROOT)]
fn contexts_that_come_and_go_beside_others_keep_their_gates() {
    let machine = Machine::new("resets");
    let summary = beside_urgent_work(&machine, 4, "primary resets second");
    assert!(!summary.contains("gates in memory") && !summary.contains("refused"), "{summary}");
    assert!(!summary.contains("panics") && !summary.contains("troubles"), "{summary}");
}

/// A process that launches ahead of a device that it does not get.
struct Ahead {
    machine: Machine,
    controller: SmallController,
    load: DeviceLoad,
    /// Kernels before that.
    before: usize,
}

impl Ahead {
    /// It has made so many launches, and then does something else.
    fn new(launches: usize, what: &str) -> Self {
        let mut ahead = Self::begin(launches, what);
        ahead.load.await_ready().expect("a suspended process makes its launches");
        assert_eq!(ahead.kernels(), 0, "{what}: the process is suspended");
        ahead
    }

    /// It is suspended, and begins.
    fn begin(launches: usize, what: &str) -> Self {
        Self::begin_with(launches, what, "none")
    }

    /// The same where the shim's allocations find no memory, as `XSCHED_TEST_MEMORY` says.
    fn begin_with(launches: usize, what: &str, refused: &str) -> Self {
        let machine = Machine::new("ahead");
        let controller = SmallController::start(machine.folder.path()).expect("a socket can be made");
        let mut program = machine.program("cuda_deferred", &format!("{launches} {what}"));
        let mut load = begin(program.env("LD_PRELOAD", cuda_shim()).env("XSCHED_TEST_MEMORY", refused));
        wait_until("it reports", || controller.reports() > 0);
        // Each of its launches is made beside others now.
        thread::sleep(A_WHILE);
        load.begin().expect("the process waits");
        load.await_ready().expect("the process is ready");
        controller.hold(true);
        let before = machine.kernels(load.id());
        load.begin().expect("the process waits");
        Self { machine, controller, load, before }
    }

    /// Kernels since it was suspended.
    fn kernels(&self) -> usize {
        self.machine.kernels(self.load.id()) - self.before
    }

    /// What it found in the end.
    fn resumed(self) -> (Findings, String) {
        self.controller.hold(false);
        let findings = self.load.findings().expect("the program succeeds");
        (findings, self.machine.summary())
    }
}

/// Each waits for the launches before it, which may not be made yet.
#[needs(nothing)]
fn what_comes_behind_deferred_launches_finds_them_made() {
    let whats = [
        "sync",
        "null",
        "query",
        "event",
        "copy",
        "fill",
        "host",
        "free",
        "unload",
        "destroy",
        "graph",
        "update",
        "capture",
        "buffer",
        "cooperative",
        "fork",
    ];
    for what in whats {
        let mut ahead = Ahead::new(100, what);
        ahead.load.begin().expect("the process waits");
        thread::sleep(A_WHILE);
        assert_eq!(ahead.kernels(), 0, "{what}");
        assert!(!ahead.load.has_ended().expect("a child can be waited for"), "{what}");
        let (findings, summary) = ahead.resumed();
        assert_eq!(findings.get("wrong"), Some(&0.0), "{what}: {findings:?}");
        assert!(summary.contains("calls that were deferred"), "{what}: {summary}");
        assert!(!summary.contains("panics") && !summary.contains("refused"), "{what}: {summary}");
    }
}

#[needs(nothing)]
fn a_process_that_ends_makes_the_launches_that_it_has_deferred() {
    let mut ahead = Ahead::new(100, "exit");
    ahead.load.begin().expect("the process waits");
    // The device need not get to all of them before the process is gone.
    let findings = ahead.load.findings().expect("the program succeeds");
    assert_eq!(findings.get("launched"), Some(&100.0), "it was suspended to its end: {findings:?}");
}

#[needs(nothing)]
fn a_process_makes_its_deferred_launches_when_the_controller_ends() {
    let mut ahead = Ahead::new(100, "sync");
    ahead.load.begin().expect("the process waits");
    drop(ahead.controller);
    let findings = ahead.load.findings().expect("the program succeeds");
    assert_eq!(findings.get("wrong"), Some(&0.0), "{findings:?}");
}

#[needs(nothing)]
fn a_deferred_launch_that_the_driver_refuses_comes_out_of_the_next_call_that_waits() {
    let mut ahead = Ahead::new(100, "refused");
    ahead.load.begin().expect("the process waits");
    let (findings, summary) = ahead.resumed();
    assert_eq!(findings.get("wrong"), Some(&0.0), "{findings:?}");
    assert!(summary.contains(" 1 deferred calls that the driver refused"), "{summary}");
    assert!(summary.contains("refused a deferred call with 701"), "{summary}");
}

/// It ends as it would otherwise. With little memory some launches are deferred, with none they wait in place.
#[needs(nothing)]
fn launches_of_a_suspended_process_are_made_where_the_shim_finds_no_memory() {
    for refused in ["every:1", "every:2", "every:17", "after:100", "after:1000"] {
        let ahead = Ahead::begin_with(100, "sync", refused);
        thread::sleep(A_WHILE);
        assert_eq!(ahead.kernels(), 0, "{refused}: the process is suspended");
        let mut ahead = ahead;
        ahead.controller.hold(false);
        ahead.load.await_ready().expect("the process is ready");
        ahead.load.begin().expect("the process waits");
        let (findings, summary) = ahead.resumed();
        assert_eq!(findings.get("wrong"), Some(&0.0), "{refused}: {findings:?}");
        assert!(
            summary.contains("memory was refused ") && !summary.contains("panics"),
            "{refused}: {summary}"
        );
        assert!(!summary.contains("memory was refused 0"), "{refused}: {summary}");
    }
}

#[needs(nothing)]
fn a_suspended_process_has_a_bounded_number_of_launches_ahead() {
    let ahead = Ahead::begin(5000, "full");
    thread::sleep(3 * A_WHILE);
    assert_eq!(ahead.kernels(), 0, "the process is suspended");
    let (findings, _) = ahead.resumed();
    assert_eq!((findings["made"], findings["wrong"]), (4096.0, 0.0), "{findings:?}");
}

#[needs(nothing)]
fn random_calls_of_two_threads_do_the_same_while_their_process_is_suspended_at_random() {
    for seed in 1..=6 {
        let machine = Machine::new("calls");
        let mode = format!("random {seed} 30000");
        let suspended = format!("random:{seed}:5000");
        let mut program = machine.program("cuda_deferred", &mode);
        let outcome = run(program.env("LD_PRELOAD", cuda_shim()).env("XSCHED_TEST_SUSPEND", suspended));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ready\nwrong 0\n"), "{}", outcome.stderr);
        let summary = machine.summary();
        assert!(summary.contains("calls that were deferred"), "{summary}");
        assert!(!summary.contains("panics") && !summary.contains("refused"), "{summary}");
    }
}

#[needs(nothing)]
fn random_calls_of_two_threads_do_the_same_while_a_controller_suspends_their_process_at_random() {
    let machine = Machine::new("flapped");
    let controller = SmallController::start(machine.folder.path()).expect("a socket can be made");
    controller.flap(11);
    let mut program = machine.program("cuda_deferred", "random 11 20000");
    let findings = begin(program.env("LD_PRELOAD", cuda_shim())).findings().expect("the program succeeds");
    assert_eq!(findings.get("wrong"), Some(&0.0), "{findings:?}");
    let summary = machine.summary();
    assert!(summary.contains("calls that were deferred"), "{summary}");
    assert!(!summary.contains("panics") && !summary.contains("refused"), "{summary}");
}

/// How many kernels a program launches after it settled, while it may launch nothing. It goes on afterwards, to its end.
fn kernels_while_held(
    machine: &Machine,
    controller: &SmallController,
    mut load: DeviceLoad,
    what: &str,
) -> usize {
    wait_until("it reports", || controller.reports() > 0);
    controller.hold(true);
    thread::sleep(A_WHILE);
    let settled = machine.kernels(load.id());
    thread::sleep(A_WHILE);
    let kernels = machine.kernels(load.id()) - settled;
    assert!(!load.has_ended().expect("a child can be waited for"), "{what}");
    controller.hold(false);
    let findings = load.findings().expect("the program succeeds");
    assert!(findings["kernels"] > 0.0, "{what}: {findings:?}");
    kernels
}

/// How many kernels a graph has launched after it settled, while its process may launch nothing.
fn kernels_while_suspended(way: &str) -> usize {
    let machine = Machine::new("graph");
    let controller = SmallController::start(machine.folder.path()).expect("a socket can be made");
    let load = machine.contexts(&format!("graph 2 500 {way}"));
    kernels_while_held(&machine, &controller, load, way)
}

#[needs(nothing)]
fn a_graph_with_a_collective_is_never_suspended_however_that_came_there() {
    for way in ["collective", "kernel", "node", "child", "update"] {
        let kernels = kernels_while_suspended(way);
        assert!(kernels > IN_FLIGHT, "{way}: it was suspended after {kernels} kernels");
    }
    for way in ["plain", "unkernel", "unnode", "unchild", "unupdate"] {
        let kernels = kernels_while_suspended(way);
        assert!(kernels <= IN_FLIGHT, "{way}: {kernels} kernels");
    }
}

/// How many kernels a process has launched after it settled, while it may launch nothing, by the caller of its launches.
fn kernels_by(caller: &str, set_up: impl FnOnce(&mut Command)) -> usize {
    let machine = Machine::new("caller");
    let controller = SmallController::start(machine.folder.path()).expect("a socket can be made");
    let mut program = machine.shimmed(&format!("by {} 2 500", path_of(caller)));
    set_up(&mut program);
    let load = begin(&mut program);
    kernels_while_held(&machine, &controller, load, caller)
}

/// A library that launches, by its file name, maybe through others with `>` between them; other callers are words of the program.
fn path_of(caller: &str) -> String {
    if !caller.starts_with("lib") {
        return caller.to_owned();
    }
    let paths: Vec<_> =
        caller.split('>').map(|library| cuda_sim().join(library).display().to_string()).collect();
    paths.join(">")
}

#[needs(nothing)]
fn calls_are_treated_by_the_library_or_the_domain_that_makes_them() {
    let never_suspended = [
        ("libnccl.so.2", None),
        ("libsolver.so", Some("libsolver")),
        // The program speaks for its thread.
        ("system", None),
    ];
    for (caller, passes) in never_suspended {
        let kernels = kernels_by(caller, |program| {
            program.envs(passes.map(|library| ("XSCHED_PASSTHROUGH_LIBS", library)));
        });
        assert!(kernels > IN_FLIGHT, "{caller}: it was suspended after {kernels} kernels");
    }
    for caller in ["libsolver.so", "libcublasLt.so.13", "program", "application"] {
        let kernels = kernels_by(caller, |_| {});
        assert!(kernels <= IN_FLIGHT, "{caller}: {kernels} kernels");
    }
}

/// Kernels that a process launches beside one that always has more urgent work.
fn kernels_under_rules(rules: &str, caller: &str) -> f64 {
    kernels_of(rules, |machine, controller| {
        machine.run_by(controller, "low", "cuda_client", &format!("by {} 2 500", path_of(caller)))
    })
}

fn kernels_of(rules: &str, start: impl FnOnce(&Machine, &Serving) -> DeviceLoad) -> f64 {
    let machine = Machine::new("rules");
    let controller = Serving::start(rules).expect("a controller starts");
    let urgent = machine.run_by(&controller, "high", "cuda_client", "batch 4 2000 264");
    controller.wait_for_queues(1).expect("the urgent process joins");
    let findings = start(&machine, &controller).findings();
    urgent.findings().expect("the urgent program succeeds");
    findings.expect("the program succeeds")["kernels"]
}

/// Both shims are in these processes.
#[needs(ROOT)]
fn the_controllers_rules_apply_to_the_library_that_calls() {
    let rule = "[[rule]]\nlibrary = \"libsolver.so\"\naction = \"never-suspend\"\n";
    let suspended = kernels_under_rules(rule, "libcublasLt.so.13");
    let by_rule = kernels_under_rules(rule, "libsolver.so");
    let by_set = kernels_under_rules("profile = \"compat\"\n", "libcublasLt.so.13");
    assert!(by_rule > 5.0 * suspended.max(1.0), "{by_rule} and {suspended} kernels");
    assert!(by_set > 5.0 * suspended.max(1.0), "{by_set} and {suspended} kernels");
}

/// A library that calls through CUDA's shared runtime, as PyTorch does, and one that another library uses.
#[needs(ROOT)]
fn the_controllers_rules_apply_to_whole_call_chains() {
    let of_solver = |kernel: &str| {
        format!("[[rule]]\nlibrary = \"libsolver.so\"\nkernel = \"{kernel}\"\naction = \"never-suspend\"\n")
    };
    let by_rule = kernels_under_rules(&of_solver("*burn*"), "libsolver.so>libcudart.so.13");
    let others =
        [("*burn*", "libcublasLt.so.13>libcudart.so.13"), ("*gemm*", "libsolver.so>libcudart.so.13")];
    for (kernel, caller) in others {
        let suspended = kernels_under_rules(&of_solver(kernel), caller);
        assert!(by_rule > 5.0 * suspended.max(1.0), "{kernel}, {caller}: {by_rule} and {suspended} kernels");
    }

    let under_solver =
        "[[rule]]\nlibrary = \"libcublasLt*\"\nunder = \"libsolver.so\"\naction = \"never-suspend\"\n";
    // Of the two shims, the process has the one for CUDA alone.
    let kernels = |caller: &str| {
        kernels_of(under_solver, |machine, controller| {
            let mut program = machine.program("cuda_client", &format!("by {} 2 500", path_of(caller)));
            program.env("LD_PRELOAD", cuda_shim()).env("XSCHED_SOCKET_DIR", controller.folder());
            begin(&mut program)
        })
    };
    let (alone, under) = (kernels("libcublasLt.so.13"), kernels("libsolver.so>libcublasLt.so.13"));
    assert!(under > 5.0 * alone.max(1.0), "{under} and {alone} kernels");
}

/// Without a process that is more urgent.
#[needs(ROOT)]
fn streams_of_a_process_finish_in_the_order_of_their_priorities() {
    let machine = Machine::new("streams");
    let controller = Serving::start("").expect("a controller starts");
    // What `run` says would go before the hints.
    let mut load = machine.program("cuda_contexts", "streams 200 1000 -50 0 50");
    let load = begin(load.env("LD_PRELOAD", cuda_shim()).env("XSCHED_SOCKET_DIR", controller.folder()));
    let ms = load.findings().expect("the program succeeds");
    let [low, normal, high] = ["ms_-50", "ms_0", "ms_50"].map(|name| ms[name]);
    assert!(high < normal && normal < low, "{ms:?}");
    // Equal streams would share the device to the end.
    assert!(high < 0.7 * low, "{ms:?}");
}

/// A program may say so before it launches anything there, as with HIP. Without a context there is no such stream.
#[needs(nothing)]
fn a_null_stream_is_hinted_before_its_first_use_in_each_context_and_in_none() {
    let machine = Machine::new("hints");
    let outcome = run(machine.program("cuda_contexts", "hints").env("LD_PRELOAD", cuda_shim()));
    let answers =
        "uninitialised 3\nno_context 3\nper_thread 3\nfirst 0\nlegacy 0\nsecond 0\nnone_current 3\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, answers), "{}", outcome.stderr);
    assert!(!machine.summary().contains("panics"), "{}", machine.summary());
}

/// The device runs them side by side. A request in one stream would otherwise stop all work of the others.
#[needs(ROOT)]
fn priorities_that_the_driver_is_given_leave_a_process_alone_on_its_device() {
    let machine = Machine::new("priorities");
    let controller = Serving::start("").expect("a controller starts");
    let streams = |words: &str| {
        let mut load = machine.program("cuda_contexts", words);
        load.env("LD_PRELOAD", cuda_shim()).env("XSCHED_SOCKET_DIR", controller.folder());
        let mut load = DeviceLoad::start(&mut load).expect("the program starts");
        controller.wait_for_queues(1).expect("it joins");
        load.begin().expect("it goes on");
        load.findings().expect("the program succeeds");
        machine.summary()
    };
    let alone = streams("streams 100 1000 d0 d-5");
    assert!(alone.contains("xsched-cuda: process") && !alone.contains("commands beside others"), "{alone}");
    let hinted = streams("streams 100 1000 -50 50");
    assert!(hinted.contains("commands beside others"), "hints are for the controller: {hinted}");
}

/// A process that schedules its streams itself does so by these priorities.
#[needs(ROOT)]
fn a_process_that_schedules_itself_heeds_priorities_that_the_driver_is_given() {
    let machine = Machine::new("local");
    let mut load = machine.program("cuda_contexts", "streams 200 1000 d0 d-5");
    let load = begin(load.env("LD_PRELOAD", cuda_shim()).env("XSCHED_SCHEDULER", "LCL"));
    let ms = load.findings().expect("the program succeeds");
    assert!(ms["ms_d-5"] < 0.8 * ms["ms_d0"], "{ms:?}");
}

#[needs(ROOT)]
fn doctor_says_which_gates_a_process_has_and_why() {
    let machine = Machine::new("doctor");
    let controller = Serving::start("").expect("a controller starts");
    let ask = |load: &DeviceLoad| {
        let mut doctor = xsched_ctl(["doctor", "--pid", &load.id().to_string()]);
        run(doctor.env("XSCHED_SOCKET_DIR", controller.folder())).stdout
    };
    let without = begin(&mut machine.program("cuda_contexts", "run 1 2000 264 primary"));
    let said = ask(&without);
    without.findings().expect("the program without the shim succeeds");
    assert!(said.starts_with("CUDA shim    absent") && said.contains("xsched-ctl run -- CMD"), "{said}");
    assert!(said.contains("CUDA runtime linked"), "{said}");
    let mut batch = machine.program("cuda_contexts", "run 6 2000 264 primary second green");
    let mut batch = begin(batch.env("LD_PRELOAD", cuda_shim()).env("XSCHED_SOCKET_DIR", controller.folder()));
    let urgent = machine.run_by(&controller, "high", "cuda_client", "urgent 60 8 100 25000");
    let is_known = || ask(&batch).contains("shared   3 contexts: closed by the arbiter");
    wait_until("its gates were tried", is_known);
    let said = ask(&batch);
    assert!(said.starts_with("CUDA shim    active   ") && said.contains("libxsched_cuda.so"), "{said}");
    assert!(said.contains("CUDA driver  mapped   ") && said.contains("\ncontroller   joined   "), "{said}");
    urgent.findings().expect("the urgent program succeeds");
    assert!(!batch.has_ended().expect("a child can be waited for"));
    batch.findings().expect("the batch job succeeds");
}

#[needs(ROOT)]
fn doctor_says_of_instances_that_nothing_was_measured_there() {
    for (variable, is_said) in [("CUDA_SIM_MIG", true), ("UNUSED", false)] {
        let machine = Machine::new("mig");
        let mut load = machine.program("cuda_contexts", "run 2 2000 264 primary");
        let load = begin(load.env("LD_PRELOAD", cuda_shim()).env(variable, "1"));
        let ask = || run(&mut xsched_ctl(["doctor", "--pid", &load.id().to_string()])).stdout;
        wait_until("it uses its device", || ask().starts_with("CUDA shim    active"));
        wait_until("it says of its instance", || ask().contains("\nMIG          untried  1 of") == is_said);
        load.findings().expect("the program succeeds");
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
