//! The simulated device between processes: they share it, and none can harm the others.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use xsched_harness::needs;
use xsched_harness::needs::NAMESPACES;
use xsched_tests::needs::OTHER_USERS;
use xsched_tests::{
    device_load::{DeviceLoad, command, run_all},
    execution_log::Timeline,
    tracer::wait_until,
};

/// Longer than any step takes on a busy machine, and shorter than a hang.
const LONG: Duration = Duration::from_mins(2);

/// Long enough to notice an event that should not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// A kernel on the whole device that takes much longer than [`LONG`].
const TEN_MINUTES: &str = "single --launches 1 --us 600000000 --blocks 304";

/// A device for one test. Dropping it removes the file that killed processes leave.
struct Device(String);

impl Device {
    fn new(test: &str) -> Self {
        Self(format!("{test}-{}", std::process::id()))
    }

    /// Shared by all users that may open its file.
    fn of_all_users(test: &str) -> Self {
        Self(format!("/dev/shm/{test}-{}", std::process::id()))
    }

    fn file(&self) -> PathBuf {
        if self.0.contains('/') {
            return format!("{}.0", self.0).into();
        }
        format!("/dev/shm/hip-sim-{}-{}.0", rustix::process::geteuid().as_raw(), self.0).into()
    }

    fn command(&self, mode: &str) -> Command {
        command(&self.0, mode)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.file()); // usually the last process has removed it
    }
}

/// A process that has started its work.
fn begun(command: &mut Command) -> DeviceLoad {
    let mut load = DeviceLoad::start(command).expect("the program starts");
    load.begin().expect("the process is ready");
    load
}

/// A process that has the device, with [`TEN_MINUTES`].
fn hog(device: &Device) -> DeviceLoad {
    let log = tempfile::NamedTempFile::new().expect("the temporary folder is writable");
    let mut command = device.command(TEN_MINUTES);
    let hog = begun(command.env("HIP_SIM_EXECUTION_LOG", log.path()));
    // The log gets an entry once the kernel has started.
    wait_until("it has the device", || Timeline::read(log.path()).is_ok_and(|log| !log.kernels().is_empty()));
    hog
}

fn send(load: &DeviceLoad, signal: Signal) {
    let process = Pid::from_raw(load.id().cast_signed()).expect("no process has number 0");
    kill_process(process, signal).expect("the process is a child of this one");
}

#[needs(nothing)]
fn six_processes_take_as_long_as_their_work_divided_by_the_device() {
    let device = Device::new("six");
    let log = tempfile::NamedTempFile::new().unwrap();
    // Six times sixty kernels of 5 ms, each on half of the device.
    let mode = "single --launches 60 --us 5000 --blocks 152";
    let mut commands: Vec<_> = (0..6).map(|_| device.command(mode)).collect();
    for command in &mut commands {
        command.env("HIP_SIM_EXECUTION_LOG", log.path());
    }
    run_all(&mut commands).unwrap();
    let timeline = Timeline::read(log.path()).unwrap();
    let kernels = timeline.kernels();
    // The clocks of processes differ by some ten nanoseconds, so kernels are looked at in the middle.
    let beside = |at_ns: u64| kernels.iter().filter(|k| (k.start_ns..k.end_ns).contains(&at_ns)).count();
    let at_once: Vec<_> = kernels.iter().map(|k| beside(k.start_ns.midpoint(k.end_ns))).collect();
    assert_eq!((kernels.len(), at_once.iter().max()), (360, Some(&2)));
    // On a busy machine some processes may end before others start.
    assert!(at_once.iter().filter(|&&count| count == 2).count() > 20, "{at_once:?}");
    assert!(!device.file().exists(), "the last process removes it");
}

#[needs(nothing)]
fn a_process_killed_with_the_device_leaves_it_to_the_others_at_once() {
    let device = Device::new("killed");
    let mut other =
        DeviceLoad::start(&mut device.command("single --launches 3 --us 1000 --blocks 304")).unwrap();
    let hog = hog(&device);
    other.begin().unwrap();
    thread::sleep(A_WHILE);
    assert!(!other.has_ended().unwrap(), "the device is taken");
    let killed = Instant::now();
    send(&hog, Signal::KILL);
    let found = other.findings().unwrap();
    assert!(killed.elapsed() < LONG, "{:?} after the kill of a kernel of ten minutes", killed.elapsed());
    assert!(found["wrong"] == 0.0, "{found:?}");
}

#[needs(nothing)]
fn processes_killed_at_any_moment_lose_no_work_of_others() {
    let device = Device::new("any-moment");
    let survivor = || begun(&mut device.command("load --launches 20000 --threads 2 --us 20 --blocks 304"));
    let mut survivors = vec![survivor()];
    for round in 0..20_u64 {
        let victim = begun(&mut device.command("load --launches 100000 --threads 3 --us 3 --blocks 200"));
        thread::sleep(Duration::from_micros(round * 1733 % 20_000));
        drop(victim);
        // At least one survivor runs at any time, however long the machine takes to start the others.
        if survivors.last_mut().expect("there is one").has_ended().unwrap() {
            survivors.push(survivor());
        }
    }
    for survivor in survivors {
        assert!(survivor.findings().unwrap()["wrong"] == 0.0);
    }
}

#[needs(nothing)]
fn a_stopped_process_delays_others_only_by_its_current_kernel() {
    let device = Device::new("stopped");
    let stopped = begun(&mut device.command("load --launches 1000000 --us 20000 --blocks 304"));
    thread::sleep(Duration::from_millis(200));
    send(&stopped, Signal::STOP);
    let begin = Instant::now();
    let other = begun(&mut device.command("single --launches 10 --us 1000 --blocks 304"));
    // At most one kernel of the other process before each.
    assert!(other.findings().unwrap()["wrong"] == 0.0);
    assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
}

#[needs(nothing)]
fn a_process_stopped_at_any_moment_hangs_no_other() {
    let device = Device::new("stopped-anywhere");
    let stopped = begun(&mut device.command("load --launches 10000000 --threads 4 --us 1 --blocks 304"));
    for round in 0..20_u64 {
        thread::sleep(Duration::from_micros(round * 1733 % 20_000));
        send(&stopped, Signal::STOP);
        let begin = Instant::now();
        let other = begun(&mut device.command("single --launches 20 --us 100 --blocks 304"));
        assert!(other.findings().unwrap()["wrong"] == 0.0);
        assert!(begin.elapsed() < LONG, "round {round}: {:?}", begin.elapsed());
        send(&stopped, Signal::CONT);
    }
}

/// Eight kernels behind open gates in the process's own memory. The first is long enough for all to be queued.
const GATED: &str = "registered --launches 8 --us 50000 --blocks 100";

#[needs(nothing)]
fn kernels_behind_gates_in_a_stopped_processs_memory_leave_no_gaps() {
    let device = Device::new("gates");
    let log = tempfile::NamedTempFile::new().unwrap();
    let stopped = begun(device.command(GATED).env("HIP_SIM_EXECUTION_LOG", log.path()));
    wait_until("it has begun", || Timeline::read(log.path()).is_ok_and(|log| !log.kernels().is_empty()));
    send(&stopped, Signal::STOP);
    // Any running process looks at the gates: this one, many times for each gate.
    let other = begun(&mut device.command("load --launches 600 --us 1000 --blocks 1"));
    assert!(other.findings().unwrap()["wrong"] == 0.0);
    send(&stopped, Signal::CONT);
    assert!(stopped.findings().unwrap()["wrong"] == 0.0);
    let timeline = Timeline::read(log.path()).unwrap();
    let kernels = timeline.kernels();
    let gaps_ns: Vec<_> = kernels.windows(2).map(|pair| pair[1].start_ns.abs_diff(pair[0].end_ns)).collect();
    assert_eq!(gaps_ns, [0; 7], "{kernels:#?}");
}

#[needs(NAMESPACES)]
fn gates_in_another_pid_namespace_open_when_their_process_looks() {
    let unshare = ["--pid", "--fork", "--mount-proc"];
    let device = Device::new("contained");
    let outside = device.command("registered --launches 300 --us 200 --blocks 304");
    let mut contained = Command::new("unshare");
    contained.args(unshare).arg(outside.get_program()).args(outside.get_args());
    contained.envs(outside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    // Each has the device half of the time, and cannot see the gates of the other.
    let findings = run_all(&mut [contained, outside]).unwrap();
    assert!(findings.iter().all(|found| found["wrong"] == 0.0), "{findings:?}");
}

#[needs(nothing)]
fn the_device_of_a_crashed_run_is_replaced() {
    let device = Device::new("crashed");
    drop(begun(&mut device.command("load --launches 100000 --us 1000 --blocks 304")));
    let findings = run_all(&mut [device.command("single --launches 1 --us 1000 --blocks 304")]).unwrap();
    assert!(findings[0]["total_us"] < LONG.as_micros() as f64, "{findings:?}");
    assert!(!device.file().exists());
}

#[needs(nothing)]
fn the_file_of_a_crashed_run_is_removed_with_the_next_device_of_any_name() {
    let (crashed, next) = (Device::new("left"), Device::new("next"));
    drop(begun(&mut crashed.command("load --launches 100000 --us 1000 --blocks 304")));
    run_all(&mut [next.command("single --launches 1 --us 1000 --blocks 304")]).unwrap();
    assert!(!crashed.file().exists());
}

#[needs(OTHER_USERS)]
fn users_have_devices_of_their_own_unless_they_name_a_file() {
    const NOBODY: u32 = 65534;
    let as_nobody = |device: &Device| {
        let mut command = device.command("single --launches 1 --us 1000 --blocks 304");
        command.uid(NOBODY).gid(NOBODY);
        DeviceLoad::start(&mut command).unwrap()
    };
    for (device, is_shared) in [(Device::new("users"), false), (Device::of_all_users("users"), true)] {
        let mut other = as_nobody(&device);
        let hog = hog(&device);
        other.begin().unwrap();
        if is_shared {
            thread::sleep(A_WHILE);
            assert!(!other.has_ended().unwrap(), "{}", device.0);
            drop(hog);
        }
        let begin = Instant::now();
        other.findings().unwrap();
        assert!(begin.elapsed() < LONG, "{}", device.0);
    }
}

/// The full million is in `cargo xtask bench sim`.
#[needs(nothing)]
fn launches_of_four_threads_run_once_in_order_and_memory_is_stable() {
    let mode = "load --launches 25000 --threads 4 --us 0";
    let findings = run_all(&mut [Device::new("many").command(mode)]).unwrap();
    assert!(findings[0]["wrong"] == 0.0, "{findings:?}");
    // The commands in flight, at most 4 x 16,384, take some tens of MB.
    assert!(findings[0]["end_kb"] < findings[0]["quarter_kb"] + 64_000.0, "{findings:?}");
}

#[needs(nothing)]
fn idle_streams_take_no_cpu() {
    let findings = run_all(&mut [Device::new("idle").command("idle --threads 64")]).unwrap();
    assert!(findings[0]["cpu_us"] < 10_000.0, "{findings:?}");
}

#[needs(nothing)]
fn an_access_out_of_bounds_or_after_free_is_the_error_of_every_later_call() {
    let device = Device::new("fault");
    for (launches, code) in [(0, 0), (1, 700), (2, 700)] {
        let mode = format!("fault --launches {launches}");
        let found = &run_all(&mut [device.command(&mode)]).unwrap()[0];
        let codes = ["synchronize", "malloc"].map(|call| found[call] as i32);
        assert_eq!(codes, [code; 2], "{mode}");
    }
}

/// Executes `device_poke` and no other kernel; fails unless its arguments follow the interface.
const EXECUTOR: &str = r#"
#include <string.h>
#include "hip_sim.h"
int hip_sim_execute(const struct hip_sim_execution *execution) {
    const struct hip_sim_launch *launch = execution->launch;
    if (strcmp(launch->name, "device_poke")) return HIP_SIM_NOT_MINE;
    if (execution->code_object_size < 64 || memcmp(execution->code_object, "\177ELF", 4)) return 200;
    if (launch->kernarg_size != 16 || launch->block[0] != 64) return 1;
    unsigned *words = *(unsigned *const *)launch->kernarg;
    if (hip_sim_check_access(launch, words, 4096)) return 17;
    return 719;
}
"#;

fn built_executor(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("executor.c"), folder.join("libexecutor.so"));
    fs::write(&source, EXECUTOR).expect("the folder is new");
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/hip-sim/include");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", include, "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().expect("a C compiler is installed").success());
    library
}

#[needs(nothing)]
fn an_executor_is_asked_before_the_twins_and_its_error_sticks() {
    let folder = tempfile::tempdir().unwrap();
    let (library, device) = (built_executor(folder.path()), Device::new("executor"));
    let mut fault = device.command("fault --launches 0");
    fault.env("HIP_SIM_EXECUTOR", &library);
    // The first kernel already fails; the program ends at the first call that returns the error.
    let error = run_all(&mut [fault]).unwrap_err();
    assert!(error.to_string().contains("exit status: 1"), "{error}");
    let mut steps = device.command("load --launches 100 --us 0");
    steps.env("HIP_SIM_EXECUTOR", &library);
    assert!(run_all(&mut [steps]).unwrap()[0]["wrong"] == 0.0, "the twin executes it");
}

fn main() -> ExitCode {
    xsched_harness::main()
}
