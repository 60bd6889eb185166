//! A program beside more urgent ones, as far as the shim goes: it gives way, computes what it computes alone, and never waits
//! for a controller that is gone. The controller is the tests' own (`tests/src/small_controller.rs`).

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xsched_tests::artifacts::shim;
use xsched_tests::device_load::{DeviceLoad, command};
use xsched_tests::execution_log::Timeline;
use xsched_tests::small_controller::SmallController;

/// Longer than anything takes that happens at all.
const LONG: Duration = Duration::from_secs(20);

/// A device, a controller's folder, and what the device did.
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
        // There is no log before the first kernel.
        Timeline::read(&self.log()).map_or(0, |timeline| timeline.of(&[process]).kernels().len())
    }

    fn begin(&self, mode: &str) -> DeviceLoad {
        let mut load = DeviceLoad::start(&mut self.command(mode)).expect("the program starts");
        load.begin().expect("it waits for this");
        load
    }
}

#[track_caller]
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {LONG:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
fn is_right(load: DeviceLoad) {
    let findings = load.findings().expect("the program succeeds");
    assert_eq!(findings.get("wrong"), Some(&0.0), "{findings:?}");
}

/// Holds a process back that has begun and makes sure that it is held.
fn hold(machine: &Machine, controller: &SmallController, load: &DeviceLoad) {
    soon("it reports", || controller.reports() > 0);
    controller.hold(true);
    let mut before = usize::MAX;
    soon("it launches nothing more", || {
        thread::sleep(Duration::from_millis(200));
        let now = machine.kernels(load.id());
        std::mem::replace(&mut before, now) == now
    });
}

#[test]
fn a_process_that_is_held_goes_on_when_it_may() {
    let machine = Machine::new("held");
    let controller = machine.controller();
    let mut load = machine.begin("single --launches 4000 --us 500");
    hold(&machine, &controller, &load);
    let before = machine.kernels(load.id());
    thread::sleep(Duration::from_millis(200));
    assert_eq!(machine.kernels(load.id()), before);
    assert!(!load.has_ended().unwrap());
    controller.hold(false);
    is_right(load);
    let usage = controller.usage();
    assert!(usage[0].device_ns > 0 && usage[0].held_back > 0 && usage[0].suspended_ns > 0, "{usage:?}");
}

#[test]
fn streams_that_are_held_at_random_compute_what_they_compute_alone() {
    let machine = Machine::new("flapping");
    let controller = machine.controller();
    controller.flap(7);
    let loads = ["load --launches 3000 --threads 4 --us 20", "single --launches 1000 --us 20"]
        .map(|mode| machine.begin(mode));
    loads.into_iter().for_each(is_right);
    assert_eq!(controller.processes(), 2);
    assert!(controller.usage().iter().all(|usage| usage.launched > 0), "{:?}", controller.usage());
}

#[test]
fn a_process_goes_on_when_its_controller_ends() {
    let machine = Machine::new("ends");
    let controller = machine.controller();
    let load = machine.begin("single --launches 4000 --us 500");
    hold(&machine, &controller, &load);
    drop(controller);
    is_right(load);
}

#[test]
fn a_process_goes_on_when_its_controller_is_silent() {
    let machine = Machine::new("silent");
    let controller = machine.controller();
    let load = machine.begin("single --launches 4000 --us 500");
    hold(&machine, &controller, &load);
    controller.be_silent(true);
    is_right(load);
}

#[test]
fn a_controller_that_comes_again_is_obeyed_again() {
    let machine = Machine::new("again");
    let first = machine.controller();
    let load = machine.begin("single --launches 12000 --us 500");
    hold(&machine, &first, &load);
    drop(first);
    let second = machine.controller();
    soon("it has connected", || second.processes() == 1);
    hold(&machine, &second, &load);
    second.hold(false);
    is_right(load);
}

#[test]
fn a_controller_that_comes_late_is_found() {
    let machine = Machine::new("late");
    let load = machine.begin("single --launches 8000 --us 500");
    thread::sleep(Duration::from_millis(100));
    let controller = machine.controller();
    hold(&machine, &controller, &load);
    controller.hold(false);
    is_right(load);
}

/// A gap in a process's work that may let others in. A busy machine makes many of these.
const GAP_NS: u64 = 100_000;
/// Of each of the kernels below.
const KERNEL_NS: u64 = 1_000_000;

#[test]
fn while_an_urgent_process_has_work_others_start_next_to_nothing() {
    let machine = Machine::new("urgent");
    let controller = machine.controller();
    let urgent = machine.begin("single --launches 1000 --us 1000 --blocks 304");
    soon("it has its queue", || controller.processes() == 1);
    let batch = machine.begin("single --launches 300 --us 1000 --blocks 304");
    soon("it has its queue, too", || controller.processes() == 2);
    let (urgent_id, batch_id) = (urgent.id(), batch.id());
    let before = machine.kernels(batch_id);
    is_right(urgent);
    is_right(batch);
    let timeline = Timeline::read(&machine.log()).unwrap();
    let (urgent, batch) = (timeline.of(&[urgent_id]), timeline.of(&[batch_id]));
    let end_ns = urgent.kernels().iter().map(|kernel| kernel.end_ns).max().expect("it has run");
    let meanwhile = batch.starts_in((0, end_ns));
    // What it launches before it is connected, and in gaps of the urgent one's.
    let gaps_ns = urgent.kernels().windows(2).map(|pair| pair[1].start_ns.saturating_sub(pair[0].end_ns));
    let in_gaps: u64 = gaps_ns.filter(|gap| *gap > GAP_NS).map(|gap| 2 + gap / KERNEL_NS).sum();
    let allowed = 100 + before as u64 + in_gaps;
    assert!((meanwhile as u64) < allowed, "{meanwhile} of 300, {allowed} allowed, beside 1000");
}

/// The folder is the only way by which programs find a controller.
#[test]
fn a_folder_without_a_controller_is_nothing_to_care_about() {
    let machine = Machine::new("nobody");
    assert!(!Path::new(&machine.folder.path().join("shim.sock")).exists());
    is_right(machine.begin("load --launches 100 --us 50"));
}
