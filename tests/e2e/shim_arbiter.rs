//! The shim in a program beside more urgent ones: the program is preempted, computes the same results as alone, and never
//! waits for a controller that has ended. The tests use a controller of their own (`tests/src/small_controller.rs`).

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_protocol::wire::{SHIM_SOCKET, Usage};
use xsched_tests::artifacts::{app, app_command, hip_sim, shim};
use xsched_tests::device_load::{DeviceLoad, command};
use xsched_tests::execution_log::{Execution, SpanNs, Timeline};
use xsched_tests::needs::TIME_NAMESPACES;
use xsched_tests::small_controller::{SmallController, refuse_one};
use xsched_tests::tracer::{in_time_namespace, wait_until};

/// Long enough to notice an event that should not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// Kernels that a process which waits for each kernel may still start after it is suspended: one on its way to the device, and one behind a gate.
const IN_FLIGHT: usize = 2;

/// A device with its log, and a folder for a controller.
struct Machine {
    folder: TempDir,
    device: String,
}

impl Machine {
    fn new(test: &str) -> Self {
        let folder = TempDir::new().expect("the temporary folder is writable");
        Self { folder, device: format!("{test}-{}", std::process::id()) }
    }

    fn controller(&self) -> SmallController {
        SmallController::start(self.folder.path()).expect("a socket can be made")
    }

    /// A mode of `device_load` with the shim.
    fn command(&self, mode: &str) -> Command {
        let mut command = command(&self.device, mode);
        command
            .env("LD_PRELOAD", shim())
            .env("XSCHED_SOCKET_DIR", self.folder.path())
            .env("XSCHED_LOG", self.folder.path().join("log"))
            .env("HIP_SIM_EXECUTION_LOG", self.log());
        command
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("executions")
    }

    /// Kernels that a process has started so far.
    fn kernels(&self, process: u32) -> usize {
        // The log does not exist before the first kernel.
        Timeline::read(&self.log()).map_or(0, |timeline| timeline.of(&[process]).kernels().len())
    }

    /// Starts a process that has used the device, and starts its work on request.
    fn start(&self, mode: &str) -> DeviceLoad {
        DeviceLoad::start(&mut self.command(mode)).expect("the program starts")
    }

    fn begin(&self, mode: &str) -> DeviceLoad {
        Self::begun(self.start(mode))
    }

    /// The same in a time namespace of its own, whose boot time is so many seconds ahead.
    fn begin_ahead(&self, seconds: i64, mode: &str) -> DeviceLoad {
        let mut command = in_time_namespace(seconds, &self.command(mode));
        Self::begun(DeviceLoad::start(&mut command).expect("the program starts"))
    }

    fn begun(mut load: DeviceLoad) -> DeviceLoad {
        load.begin().expect("the process is ready");
        load
    }
}

/// Now, on the clock of logs and arbiter pages.
fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[track_caller]
fn is_right(load: DeviceLoad) {
    let findings = load.findings().expect("the program succeeds");
    assert_eq!(findings.get("wrong"), Some(&0.0), "{findings:?}");
}

/// Suspends a process that has started its work, and checks that it is suspended.
#[track_caller]
fn suspend(machine: &Machine, controller: &SmallController, load: &mut DeviceLoad) {
    wait_until("it reports", || controller.reports() > 0);
    controller.hold(true);
    let before = machine.kernels(load.id());
    thread::sleep(A_WHILE);
    let now = machine.kernels(load.id());
    assert!(now <= before + IN_FLIGHT, "{now} kernels after {before}");
    assert!(!load.has_ended().expect("a child can be waited for"));
}

#[needs(nothing)]
fn a_suspended_process_continues_when_it_may() {
    let machine = Machine::new("held");
    let controller = machine.controller();
    let mut load = machine.begin("single --launches 6000 --us 500");
    suspend(&machine, &controller, &mut load);
    controller.hold(false);
    is_right(load);
    let is_told = |usage: &Usage| usage.device_ns > 0 && usage.deferred > 0 && usage.suspended_ns > 0;
    wait_until("it says what it has used", || controller.usage().first().is_some_and(is_told));
}

#[needs(nothing)]
fn randomly_suspended_streams_compute_the_same_as_alone() {
    let machine = Machine::new("flapping");
    let controller = machine.controller();
    controller.flap(7);
    let loads = ["load --launches 3000 --threads 4 --us 40", "single --launches 3000 --us 20"]
        .map(|mode| machine.begin(mode));
    loads.into_iter().for_each(is_right);
    assert_eq!(controller.processes(), 2);
    // Not how many they have launched: what a process launches before the other is there does not count.
    assert!(controller.usage().iter().all(|usage| usage.device_ns > 0), "{:?}", controller.usage());
}

#[needs(nothing)]
fn launches_with_the_shared_memory_of_a_large_device_are_deferred() {
    let machine = Machine::new("shared");
    let controller = machine.controller();
    // As gfx950 has. A block may use all of it.
    let mut command = machine.command("load --launches 500 --us 20 --lds 160");
    let mut load = DeviceLoad::start(command.env("HIP_SIM_LDS_KIB", "160")).expect("the program starts");
    wait_until("it has a claim", || controller.claims() == 1);
    controller.hold(true);
    load.begin().expect("the process is ready");
    thread::sleep(A_WHILE);
    controller.hold(false);
    is_right(load);
    let summary = std::fs::read_to_string(machine.folder.path().join("log")).expect("the shim writes it");
    assert!(summary.contains("500  deferred"), "{summary}");
}

#[needs(nothing)]
fn a_process_continues_when_its_controller_ends() {
    let machine = Machine::new("ends");
    let controller = machine.controller();
    let mut load = machine.begin("single --launches 6000 --us 500");
    suspend(&machine, &controller, &mut load);
    drop(controller);
    is_right(load);
}

#[needs(nothing)]
fn a_process_continues_when_its_controller_is_silent() {
    let machine = Machine::new("silent");
    let controller = machine.controller();
    let mut load = machine.begin("single --launches 6000 --us 500");
    suspend(&machine, &controller, &mut load);
    controller.be_silent(true);
    is_right(load);
}

#[needs(TIME_NAMESPACES)]
fn a_process_whose_boot_time_is_ahead_is_suspended_like_others() {
    let machine = Machine::new("ahead");
    let controller = machine.controller();
    let mut load = machine.begin_ahead(86_400, "single --launches 6000 --us 500");
    suspend(&machine, &controller, &mut load);
    controller.hold(false);
    is_right(load);
}

#[needs(TIME_NAMESPACES)]
fn a_process_whose_boot_time_is_behind_continues_when_its_controller_is_silent() {
    let machine = Machine::new("behind");
    let controller = machine.controller();
    let since_boot = i64::try_from(boottime_ns() / 1_000_000_000).expect("the machine started not long ago");
    let mut load = machine.begin_ahead(1 - since_boot, "single --launches 6000 --us 500");
    suspend(&machine, &controller, &mut load);
    let suspended_at = machine.kernels(load.id());
    controller.be_silent(true);
    wait_until("it continues", || machine.kernels(load.id()) > suspended_at + 10 * IN_FLIGHT);
    is_right(load);
}

#[needs(nothing)]
fn a_restarted_controller_is_obeyed_again() {
    let machine = Machine::new("again");
    let first = machine.controller();
    let mut load = machine.begin("single --launches 12000 --us 500");
    suspend(&machine, &first, &mut load);
    drop(first);
    let second = machine.controller();
    wait_until("it has connected", || second.processes() == 1);
    suspend(&machine, &second, &mut load);
    second.hold(false);
    is_right(load);
}

#[needs(nothing)]
fn a_controller_that_starts_late_is_found() {
    let machine = Machine::new("late");
    let mut load = machine.begin("single --launches 8000 --us 500");
    thread::sleep(Duration::from_millis(100));
    let controller = machine.controller();
    suspend(&machine, &controller, &mut load);
    controller.hold(false);
    is_right(load);
}

#[needs(nothing)]
fn a_controller_of_another_version_may_be_followed_by_one_of_the_same() {
    let machine = Machine::new("version");
    let mut load = thread::scope(|scope| {
        let refusing = scope.spawn(|| refuse_one(machine.folder.path()));
        let load = machine.begin("single --launches 8000 --us 500");
        refusing.join().expect("the thread does not panic").expect("the controller refuses");
        load
    });
    let controller = machine.controller();
    suspend(&machine, &controller, &mut load);
    controller.hold(false);
    is_right(load);
}

/// Upper bound of the difference between clocks that are read in different processes.
const CLOCKS_NS: u64 = 100_000;

#[needs(nothing)]
fn while_an_urgent_process_has_work_others_launch_nothing() {
    // Where the controller's thread does not run for too long, processes may ignore the page, and nothing is checked.
    assert!(
        (0..5).any(|_| urgent_launches_in_checked_spans() > 0),
        "the controller's thread is always too late"
    );
}

/// Runs an urgent process and another one, and checks the launches of the latter; the number of launches of the urgent process
/// in the spans that could be checked.
fn urgent_launches_in_checked_spans() -> usize {
    let machine = Machine::new("urgent");
    let controller = machine.controller();
    let mut urgent = machine.start("single --launches 1000 --us 1000 --blocks 304");
    wait_until("it has a claim", || controller.claims() == 1);
    let mut batch = machine.start("single --launches 300 --us 1000 --blocks 304");
    wait_until("the other has a claim too", || controller.claims() == 2);
    let (urgent_id, batch_id) = (urgent.id(), batch.id());
    controller.hold(true);
    urgent.begin().expect("the process is ready");
    batch.begin().expect("the process is ready");
    wait_until("both have work", || controller.ready() == 2);
    // From here on both know their level.
    let begin_ns = boottime_ns();
    controller.hold(false);
    is_right(urgent);
    is_right(batch);
    wait_until("a queue reports that it was suspended", || {
        controller.usage().iter().any(|usage| usage.deferred > 0)
    });
    let timeline = Timeline::read(&machine.log()).expect("the device writes its log");
    let (urgent, batch) = (timeline.of(&[urgent_id]), timeline.of(&[batch_id]));
    let (spans, was_silent) = controller.urgent_spans();
    let spans: Vec<_> = spans
        .into_iter()
        .map(|(from_ns, to_ns)| (from_ns.max(begin_ns) + CLOCKS_NS, to_ns - CLOCKS_NS))
        .filter(|(from_ns, to_ns)| from_ns < to_ns)
        .collect();
    for span in &spans {
        // The process waits for each of its kernels. One launch may have been in flight when the urgent process reported.
        let launched = batch.submitted_in(*span);
        assert!(launched <= 1, "{launched} in {} us of {spans:?}", (span.1 - span.0) / 1000);
    }
    let meanwhile = spans.iter().map(|span| urgent.submitted_in(*span)).sum();
    assert!(meanwhile > 0 || was_silent, "{spans:?}");
    meanwhile
}

/// Before ROCm 6.2 the runtime prints the same address for all partitions of an accelerator.
#[needs(nothing)]
fn processes_agree_on_partitions_whatever_they_see_and_whichever_runtime_they_use() {
    let machine = Machine::new("partitions");
    let controller = machine.controller();
    let hsa = machine.folder.path().join("libhsa-runtime64.so.1");
    std::fs::copy(app("libhsa_agents.so"), &hsa).expect("the folder is writable");
    let key = |major: u32, visible: Option<&str>, device: i32| {
        let library = hip_sim(major).join(format!("libamdhip64.so.{major}"));
        let script = format!(
            "import ctypes, sys; hip = ctypes.CDLL({library:?}); hip.hipSetDevice({device})
hip.hipStreamCreate(ctypes.byref(ctypes.c_void_p())); sys.stdin.read()"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]).stdin(Stdio::piped());
        command.env("LD_PRELOAD", format!("{}:{}", shim().display(), hsa.display()));
        command.env("XSCHED_SOCKET_DIR", machine.folder.path()).env("HIP_SIM_DEVICES", "8");
        command.env("HIP_SIM_PARTITIONS", "4").envs(visible.map(|visible| ("HIP_VISIBLE_DEVICES", visible)));
        let before = controller.claims();
        let mut process = command.spawn().expect("python3 is installed");
        wait_until("it has a claim", || controller.claims() > before);
        drop(process.stdin.take());
        process.wait().expect("a child can be waited for");
        controller.devices()[before]
    };
    let sixth = key(5, None, 6);
    assert_eq!(
        [key(5, Some("6"), 0), key(5, Some("0,6"), 1), key(6, None, 6), key(7, Some("6"), 0)],
        [sixth; 4]
    );
    let all = [0, 1, 3, 4, 5, 6].map(|device| key(5, None, device));
    let distinct: std::collections::HashSet<_> = all.into_iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:x?}");
}

/// Programs find a controller only through the folder.
#[needs(nothing)]
fn a_folder_without_a_controller_has_no_effect() {
    let machine = Machine::new("nobody");
    assert!(!Path::new(&machine.folder.path().join("shim.sock")).exists());
    is_right(machine.begin("load --launches 100 --us 50"));
}

/// Gives the controller's own process work now and then, until `is_over`; when another process was suspended for it.
///
/// The time between grows and shrinks: work that begins when the process goes on would otherwise always have come equally far when
/// it is suspended again.
fn hold_until(controller: &SmallController, mut is_over: impl FnMut() -> bool) -> Vec<SpanNs> {
    let mut held = Vec::new();
    wait_until("it knows its level", || controller.reports() > 0);
    // What it has launched before is not limited.
    thread::sleep(Duration::from_millis(100));
    for pause_ms in (1..=9).cycle() {
        if is_over() {
            break;
        }
        controller.hold(true);
        let from_ns = boottime_ns() + CLOCKS_NS;
        thread::sleep(Duration::from_millis(5));
        held.push((from_ns, boottime_ns() - CLOCKS_NS));
        controller.hold(false);
        thread::sleep(Duration::from_millis(pause_ms));
    }
    held
}

/// Whether a kernel was launched before its process was suspended, and has started afterwards.
fn waited_at_a_gate(execution: &Execution, held: &[SpanNs]) -> bool {
    held.iter().any(|&(from_ns, to_ns)| execution.submitted_ns < from_ns && execution.start_ns >= to_ns)
}

/// A process that is more urgent than those that come later, and has no work.
fn more_urgent(machine: &Machine, controller: &SmallController) -> DeviceLoad {
    let urgent = machine.start("single --launches 1");
    wait_until("it has a claim", || controller.claims() == 1);
    urgent
}

/// As a system's runtime and a wheel's. The program looks for an error after each call.
#[needs(nothing)]
fn work_of_two_runtime_copies_is_gated_and_neither_sees_errors_of_the_others_gates() {
    let machine = Machine::new("copies");
    let controller = machine.controller();
    let _urgent = more_urgent(&machine, &controller);
    let mut command = app_command("two_runtimes", &["1000"]);
    command
        .env("LD_PRELOAD", shim())
        .env("HIP_SIM_SHARED", &machine.device)
        .env("HIP_SIM_DURATIONS", "*step*=200us")
        .env("HIP_SIM_EXECUTION_LOG", machine.log())
        .env("XSCHED_SOCKET_DIR", machine.folder.path())
        .env("XSCHED_LOG", machine.folder.path().join("log"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = command.spawn().expect("the program was built");
    let held = hold_until(&controller, || process.try_wait().expect("a child can be waited for").is_some());
    let outcome = process.wait_with_output().expect("a child can be waited for");
    let said = [outcome.stdout, outcome.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(said, ["right\nright\n", ""], "{}", outcome.status);
    let timeline = Timeline::read(&machine.log()).expect("the device writes its log");
    for kernel in ["two_runtimes_step_a", "two_runtimes_step_b"] {
        let mut kernels = timeline.kernels().iter().filter(|execution| execution.kernel == kernel);
        assert!(kernels.any(|execution| waited_at_a_gate(execution, &held)), "none of {kernel}");
    }
    let summary = std::fs::read_to_string(machine.folder.path().join("log")).expect("the shim writes it");
    assert!(summary.ends_with("trouble\n               0  none\n"), "{summary}");
}

/// Runs a mode that makes streams of several priorities, and checks that its kernels on each stream are stopped on the device.
#[track_caller]
fn stays_gated(machine: &Machine, controller: &SmallController, mut load: DeviceLoad) {
    load.begin().expect("the process is ready");
    let held = hold_until(controller, || load.has_ended().expect("a child can be waited for"));
    let id = load.id();
    is_right(load);
    let timeline = Timeline::read(&machine.log()).expect("the device writes its log").of(&[id]);
    let streams: BTreeSet<_> = timeline.kernels().iter().map(|execution| execution.stream).collect();
    for stream in streams {
        let mut kernels = timeline.kernels().iter().filter(|execution| execution.stream == stream);
        assert!(kernels.any(|execution| waited_at_a_gate(execution, &held)), "none of stream {stream}");
    }
}

/// As FSDP makes one.
#[needs(nothing)]
fn a_process_that_once_had_a_stream_of_high_priority_stays_gated() {
    let machine = Machine::new("passing");
    let controller = machine.controller();
    let _urgent = more_urgent(&machine, &controller);
    let load = machine.start("priorities --launches 600 --threads 1 --us 2000");
    stays_gated(&machine, &controller, load);
    let machine = Machine::new("passing");
    let controller = machine.controller();
    let _idle = machine.start("priorities --launches 1");
    wait_until("the queue of streams that are gone is closed", || controller.closed() == 1);
}

#[needs(nothing)]
fn a_process_with_streams_of_several_priorities_stays_gated() {
    let machine = Machine::new("priorities");
    let controller = machine.controller();
    let _urgent = more_urgent(&machine, &controller);
    let load = machine.start("priorities --launches 600 --threads 3 --us 2000");
    stays_gated(&machine, &controller, load);
}

/// Gates are tried when the process learns its level; what it has launched by then takes longer than any trial should wait.
#[needs(nothing)]
fn a_process_that_has_launched_much_when_it_learns_its_level_is_gated_afterwards() {
    let machine = Machine::new("backlog");
    let controller = machine.controller();
    let _urgent = more_urgent(&machine, &controller);
    let later = TempDir::new().expect("the temporary folder is writable");
    let mut command = machine.command("priorities --launches 10000 --burst 5000 --us 300");
    // All streams share a hardware queue.
    command.env("XSCHED_SOCKET_DIR", later.path()).env("HIP_SIM_QUEUES", "1");
    let mut load = DeviceLoad::start(&mut command).expect("the program starts");
    load.begin().expect("the process is ready");
    wait_until("it has launched much", || machine.kernels(load.id()) > 0);
    symlink(machine.folder.path().join(SHIM_SOCKET), later.path().join(SHIM_SOCKET)).expect("it is writable");
    let held = hold_until(&controller, || load.has_ended().expect("a child can be waited for"));
    let id = load.id();
    is_right(load);
    let timeline = Timeline::read(&machine.log()).expect("the device writes its log").of(&[id]);
    // What was launched before is not stopped.
    let later = &timeline.kernels()[5000..];
    assert!(later.iter().any(|execution| waited_at_a_gate(execution, &held)), "{} kernels", later.len());
}

fn main() -> ExitCode {
    xsched_harness::main()
}
