//! Programs written against XSched's interface: their order, their answers, and that an urgent queue is as fast as alone.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;
use xsched_tests::artifacts::{app, hip_sim, shim, twins_of_apps};
use xsched_tests::execution_log::Timeline;
use xsched_tests::serving::Serving;
use xsched_tests::tracer::run;

/// As in `tests/apps/xsched_api/tasks.hpp`.
const KERNELS: usize = 20;
const TASKS: usize = 12;

/// Kernels of others that start during a task of the urgent queue, at most: a tenth of the task's own.
const OTHERS_MAX: usize = KERNELS / 10;

/// XSched's names for the shim.
const NAMES: [&str; 4] = ["libpreempt.so", "libhalhip.so", "libshimhip.so", "libxsched.so"];

/// How the shim sees the program's calls.
const WAYS: [(&str, &[(&str, &str)]); 2] =
    [("tables", &[]), ("symbols", &[("ROCPROFILER_REGISTER_ENABLED", "0")])];

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().expect("the temporary folder is writable"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program in this mode, without a controller.
    fn command(&self, program: &Path, mode: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(mode)
            .env("XSCHED_SOCKET_DIR", self.0.path())
            .env("XSCHED_LOG", self.file("log"))
            .env("HIP_SIM_SHARED", "off")
            .env("HIP_SIM_DURATIONS", "device_step=arg1us")
            .env("HIP_SIM_EXECUTION_LOG", self.file("executions"));
        command
    }

    fn preloaded(&self, mode: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = self.command(&app("xsched_api"), mode);
        command.env("LD_PRELOAD", shim()).envs(variables.iter().copied());
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("log")).expect("the shim has written its log")
    }

    fn timeline(&self) -> Timeline {
        Timeline::read(&self.file("executions")).expect("the device has written its log")
    }

    /// A folder with the shim under XSched's names.
    fn links(&self) -> PathBuf {
        let folder = self.file("lib");
        fs::create_dir(&folder).expect("the folder is writable");
        for name in NAMES {
            symlink(shim(), folder.join(name)).expect("the folder is writable");
        }
        folder
    }

    /// The same program, linked with these libraries.
    fn linked(&self, libraries: &[&str]) -> PathBuf {
        let program = self.file("linked");
        let mut link = Command::new("clang++-19");
        link.args(["-fuse-ld=lld-19", "-o"]).arg(&program).arg(app("obj/xsched_api.o"));
        link.args(libraries).arg("-Wl,--no-as-needed").arg(twins_of_apps());
        link.arg(format!("-Wl,-rpath,{}", app("").display()));
        let outcome = run(&mut link);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        program
    }
}

fn succeeds(command: &mut Command) {
    let outcome = run(command);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "wrong 0\n"), "{command:?}: {}", outcome.stderr);
}

/// For each task: how many kernels of other streams or processes started between its first launch and its end.
fn others_during_tasks(timeline: &Timeline, is_urgent: impl Fn(u32, u32) -> bool) -> Vec<usize> {
    let kernels = timeline.kernels().iter();
    let (urgent, others): (Vec<_>, Vec<_>) = kernels.partition(|kernel| is_urgent(kernel.pid, kernel.stream));
    assert_eq!(urgent.len(), TASKS * KERNELS);
    assert!(others.len() > KERNELS, "there is no competitor: {}", others.len());
    let tasks = urgent.chunks(KERNELS).map(|task| {
        let during = task[0].submitted_ns..task[KERNELS - 1].end_ns;
        others.iter().filter(|kernel| during.contains(&kernel.start_ns)).count()
    });
    let mut counts: Vec<_> = tasks.collect();
    counts.sort_unstable();
    counts
}

/// The median: where the machine does not run a thread in time, the urgent stream has no work.
fn assert_few(counts: &[usize], what: &str) {
    assert!(counts[counts.len() / 2] <= OTHERS_MAX, "{what}: kernels of others during each task: {counts:?}");
}

#[test]
fn each_function_answers_as_documented_and_refusals_are_logged_once() {
    for (way, variables) in WAYS {
        let place = Place::new();
        succeeds(&mut place.preloaded(&["codes"], variables));
        let log = place.log();
        for refused in
            ["XHintLaxity:", "XQueueCreate: no blocking", "XHintSetScheduler: there is no such policy"]
        {
            assert_eq!(log.matches(refused).count(), 1, "by {way}: {log}");
        }
    }
}

#[test]
fn what_others_need_of_a_suspended_queue_is_launched_and_nothing_overtakes() {
    for (_, variables) in WAYS {
        succeeds(&mut Place::new().preloaded(&["order"], variables));
    }
    succeeds(&mut Place::new().preloaded(&["order"], &[("XSCHED_SCHEDULER", "LCL")]));
    for seed in ["random:1", "random:2"] {
        succeeds(&mut Place::new().preloaded(&["order"], &[("XSCHED_TEST_SUSPEND", seed)]));
    }
}

#[test]
fn a_reset_of_a_device_ends_its_queues_and_those_of_no_other() {
    for (_, variables) in WAYS {
        succeeds(Place::new().preloaded(&["resets"], variables).env("HIP_SIM_DEVICES", "2"));
    }
}

#[test]
fn a_process_that_ends_calls_no_command_and_launches_what_it_has_called() {
    for (_, variables) in WAYS {
        let place = Place::new();
        succeeds(&mut place.preloaded(&["leaves"], variables));
        assert_eq!(place.timeline().kernels().len(), 3);
    }
}

#[test]
fn threads_that_use_good_and_bad_handles_at_random_get_an_answer() {
    for (seed, (_, variables)) in ["1", "2", "3", "4"].iter().zip(WAYS.iter().cycle()) {
        succeeds(&mut Place::new().preloaded(&["handles", seed], variables));
    }
}

#[test]
fn an_urgent_queue_is_as_fast_as_alone_in_one_process() {
    for mode in ["threads", "manual", "commands"] {
        let place = Place::new();
        succeeds(&mut place.preloaded(&[mode], &[]));
        let timeline = place.timeline();
        let urgent = timeline.kernels().iter().map(|kernel| kernel.stream).max();
        assert_few(&others_during_tasks(&timeline, |_, stream| Some(stream) == urgent), mode);
    }
}

#[test]
fn a_program_linked_with_xscheds_libraries_runs_with_one_shim() {
    let place = Place::new();
    let folder = format!("-L{}", place.links().display());
    let runs_from = format!("-Wl,-rpath,{}", place.file("lib").display());
    let runtime = hip_sim(6).join("libamdhip64.so.6").display().to_string();
    let runtime_from = format!("-Wl,-rpath,{}", hip_sim(6).display());
    let xsched = ["-lpreempt", "-lhalhip", "-lshimhip", "-lxsched"];
    let fixed = ["-Wl,--no-as-needed", &folder, &runs_from, &runtime_from];

    let shim_first = place.linked(&[&fixed[..], &xsched, &[&runtime]].concat());
    for (_, variables) in WAYS {
        let _ = fs::remove_file(place.file("log"));
        succeeds(place.command(&shim_first, &["commands"]).envs(variables.iter().copied()));
        assert_eq!(place.log().matches(" calls to ").count(), 1, "two shims: {}", place.log());
        assert!(!place.log().contains("go past the shim"), "{}", place.log());
    }

    // As XSched's makefiles have it. By its table the runtime is seen all the same.
    let runtime_first = place.linked(&[&fixed[..], &[&runtime], &xsched].concat());
    for (way, variables) in WAYS {
        let _ = fs::remove_file(place.file("log"));
        succeeds(place.command(&runtime_first, &["commands"]).envs(variables.iter().copied()));
        assert_eq!(place.log().contains("go past the shim"), way == "symbols", "by {way}: {}", place.log());
    }
    succeeds(place.command(&runtime_first, &["order"]).env("LD_PRELOAD", place.file("lib/libshimhip.so")));
}

/// A process of the program, which begins on request.
struct Client(Child, Option<ChildStdin>);

impl Client {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program starts");
        let stdin = child.stdin.take();
        Self(child, stdin)
    }

    fn begin(&mut self) {
        self.1.as_mut().expect("it has not ended").write_all(b"\n").expect("it reads");
    }

    /// Waits for its end; the end of its standard input ends some.
    fn finish(mut self) {
        drop(self.1.take());
        assert!(self.0.wait().expect("it is a child").success());
    }
}

/// An urgent process beside one that always has work: `hints` by the program itself, `transparent` by the environment.
fn two_processes(mode: &str) {
    let controller = Serving::start_without_bpf("").expect("the controller starts");
    let place = Place::new();
    let process = |priority: &str, more: &[&str]| {
        let arguments: Vec<_> = match mode {
            "hints" => [&["hints", priority], more].concat(),
            _ => [&["transparent"], more].concat(),
        };
        let mut command = place.preloaded(&arguments, &[]);
        command
            .env("XSCHED_SOCKET_DIR", controller.folder())
            .env("XSCHED_AUTO_XQUEUE", "ON")
            .env("HIP_SIM_SHARED", format!("xsched-api-{mode}-{}", std::process::id()));
        if mode == "transparent" {
            command.env("XSCHED_AUTO_XQUEUE_PRIORITY", priority);
        }
        Client::start(&mut command)
    };
    let (mut low, mut high) = (process("1", &["--until-end"]), process("2", &[]));
    controller.wait_for_queues(2).expect("both join");
    let pid = high.0.id();
    low.begin();
    high.begin();
    high.finish();
    low.finish();
    assert_few(&others_during_tasks(&place.timeline(), |of, _| of == pid), mode);
}

#[test]
fn an_urgent_process_is_as_fast_as_alone_by_hints_of_the_program() {
    two_processes("hints");
}

#[test]
fn an_urgent_process_is_as_fast_as_alone_by_the_environment() {
    two_processes("transparent");
}
