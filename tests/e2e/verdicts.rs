//! Verdicts depend on the calling library: known failures of whitelists, and the effects of users' settings.
//!
//! The program is `tests/apps/callers`, with libraries that have the names of AMD's. The tests use a controller of their own
//! (`tests/src/small_controller.rs`), so the origin of a call is the library that it returns to; `tests/e2e/origin.rs` tests
//! whole call chains.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use xsched_tests::artifacts::{app_command, shim, xsched_ctl};
use xsched_tests::small_controller::SmallController;
use xsched_tests::tracer::wait_until;

/// Longer than any step takes that succeeds.
const LONG: Duration = Duration::from_mins(1);

/// Long enough to notice an event that should not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// A controller and its folder.
struct Machine {
    folder: TempDir,
    controller: SmallController,
}

impl Machine {
    fn new() -> Self {
        let folder = TempDir::new().expect("the temporary folder is writable");
        let controller = SmallController::start(folder.path()).expect("a socket can be made");
        Self { folder, controller }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A mode of `callers` without the shim.
    fn alone(mode: &str) -> Command {
        let arguments: Vec<_> = mode.split(' ').collect();
        let mut command = app_command("callers", &arguments);
        // So different that a thread which does not run between two events does not make a slow kernel the quickest.
        let times = "callers_slow=1s,callers_quick=1ms,callers_medium=1200ms";
        // Each process has devices of its own: the controller suspends it all the same.
        command.env("HIP_SIM_SHARED", "off").env("HIP_SIM_DURATIONS", times);
        command
    }

    /// The same with the shim.
    fn command(&self, mode: &str) -> Command {
        let mut command = Self::alone(mode);
        command
            .env("LD_PRELOAD", shim())
            .env("XSCHED_SOCKET_DIR", self.folder.path())
            .env("XSCHED_LOG", self.path("log"));
        command
    }

    /// Starts it, and lets it start its work while all processes are suspended.
    fn begin_suspended(&self, command: &mut Command) -> Callers {
        let before = self.controller.reports();
        let mut callers = Callers::start(command);
        wait_until("it reports", || self.controller.reports() != before);
        callers.line();
        callers.says("warm 1");
        // Launches read the page directly.
        self.controller.hold(true);
        callers.line();
        callers
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("the shim writes a log")
    }
}

/// A running `callers`; killed when dropped.
struct Callers {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Callers {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it was built");
        let input = child.stdin.take().expect("it is piped");
        let lines = lines_of(child.stdout.take().expect("it is piped"));
        let errors = lines_of(child.stderr.take().expect("it is piped"));
        let callers = Self { child, input, lines, errors };
        let first = callers.next().expect("the program prints a line");
        assert!(first.starts_with("ready "), "{first}");
        callers
    }

    /// Starts it and its work.
    fn run(command: &mut Command) -> Self {
        let mut callers = Self::start(command);
        callers.line();
        callers.says("warm 1");
        callers.line();
        callers
    }

    fn line(&mut self) {
        self.input.write_all(b"\n").expect("it reads");
    }

    fn next(&self) -> Option<String> {
        self.lines.recv_timeout(LONG).ok()
    }

    #[track_caller]
    fn says(&self, line: &str) {
        let said = self.next();
        let why = || (self.errors.try_iter().collect::<Vec<_>>(), self.hidden());
        assert_eq!(said.as_deref(), Some(line), "{:?}", why());
    }

    /// Explains a failure where a recording of all processes has set return probes in this one: its calls return to the
    /// kernel's trampoline, and without BPF programs their origins are unknown.
    fn hidden(&self) -> Option<&'static str> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap_or_default();
        maps.contains("[uprobes]")
            .then_some("this process is probed: end `xsched-ctl trace` and other tracers")
    }

    #[track_caller]
    fn says_nothing(&self) {
        let said = self.lines.recv_timeout(A_WHILE);
        assert!(said.is_err(), "{said:?}");
    }

    /// Waits for its successful end; returns its standard error.
    #[track_caller]
    fn ends(mut self) -> Vec<String> {
        let status = self.child.wait().expect("it is a child");
        let errors: Vec<_> = self.errors.iter().collect();
        assert!(status.success(), "{status}: {errors:?}");
        errors
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

fn lines_of(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line); // the receiver may have been dropped
        }
    });
    lines
}

#[test]
fn a_handle_is_made_inside_a_blas_library() {
    let machine = Machine::new();
    let callers = machine.begin_suspended(&mut machine.command("create"));
    callers.says_nothing();
    machine.controller.hold(false);
    callers.says("created 1");
    callers.says("wrong 0");
    callers.ends();
}

#[test]
fn a_handle_is_made_inside_a_blas_library_of_a_whitelist() {
    let machine = Machine::new();
    let mut command = machine.command("create");
    let callers = machine.begin_suspended(command.env("XSCHED_PASSTHROUGH_LIBS", "libnothing"));
    callers.says("created 1");
    // The next launches are the program's own.
    callers.says_nothing();
    machine.controller.hold(false);
    callers.says("wrong 0");
    callers.ends();
    let log = machine.log();
    assert!(log.contains("by the immediate caller"), "{log}");
}

#[test]
fn a_convolution_search_runs_while_the_process_is_suspended() {
    let machine = Machine::new();
    let mut command = machine.command("find");
    let callers = machine.begin_suspended(command.env("XSCHED_PASSTHROUGH_LIBS", ""));
    callers.says("quickest 1");
    callers.says_nothing();
    machine.controller.hold(false);
    callers.says("wrong 0");
    callers.ends();
}

#[test]
fn kernels_of_the_default_stream_are_scheduled() {
    let machine = Machine::new();
    let callers = machine.begin_suspended(&mut machine.command("default-stream"));
    callers.says("launched 100");
    callers.says_nothing();
    machine.controller.hold(false);
    callers.says("wrong 0");
    callers.ends();
    let log = machine.log();
    let held = log.lines().find(|line| line.ends_with("  deferred")).unwrap_or_default();
    assert!(
        held.split_whitespace().next().is_some_and(|count| count.parse::<u32>().unwrap() >= 100),
        "{log}"
    );
}

#[test]
fn a_second_runtime_copy_is_treated_like_the_first() {
    for seed in 1..=5 {
        let run = |with_shim: bool| {
            let mut command = app_command("two_runtimes", &["200"]);
            if with_shim {
                command
                    .env("LD_PRELOAD", shim())
                    .env("XSCHED_TEST_SUSPEND", format!("random:{seed}"))
                    .env("XSCHED_TEST_VERDICTS", format!("random:{seed}"));
            }
            let output = command.env("HIP_SIM_SHARED", "off").output().expect("it was built");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("it prints text")
        };
        assert_eq!(run(true), run(false), "seed {seed}");
    }
}

/// A suspended rank, and one that is not.
fn meet(settings: Option<&str>) -> (Machine, Callers, Callers) {
    let machine = Machine::new();
    let file = machine.path("there");
    fs::write(&file, [0; 4096]).expect("the folder is writable");
    let mode = |rank: u32| format!("meet {} {rank} 2", file.display());
    let mut held = machine.command(&mode(0));
    if let Some(settings) = settings {
        let path = machine.path("xsched.json");
        fs::write(&path, settings).expect("the folder is writable");
        held.env("XSCHED_CONFIG", path);
    }
    let held = machine.begin_suspended(&mut held);
    let other = Callers::run(&mut Machine::alone(&mode(1)));
    (machine, held, other)
}

#[test]
fn a_collective_is_not_split_by_a_preemption() {
    let (machine, held, other) = meet(None);
    held.says("met 1");
    other.says("met 1");
    other.says("wrong 0");
    machine.controller.hold(false);
    held.says("wrong 0");
    held.ends();
    other.ends();
}

#[test]
fn a_collective_that_is_scheduled_blocks_its_peers() {
    let settings = r#"{"libraries": {"librccl": "schedule"}} // what the default rules are for"#;
    let (machine, held, other) = meet(Some(settings));
    other.says_nothing();
    held.says_nothing();
    machine.controller.hold(false);
    for rank in [held, other] {
        rank.says("met 1");
        rank.says("wrong 0");
        rank.ends();
    }
}

#[test]
fn calls_that_pass_through_are_printed() {
    let machine = Machine::new();
    let whitelisted = |verbosity: &str, mode: &str| {
        let mut command = machine.command(mode);
        command.env("XSCHED_PASSTHROUGH_LIBS", "libother").env("XSCHED_VERBOSE", verbosity);
        let callers = Callers::run(&mut command);
        while callers.next().is_some_and(|line| line != "wrong 0") {}
        callers.ends()
    };
    let once = whitelisted("1", "steps 100");
    assert_eq!(once[0], "[XSched] Passthrough initialized");
    assert_eq!(once.len(), 2, "{once:?}");
    assert!(
        once[1].starts_with("[XSched] Passthrough: /") && once[1].ends_with("/librocblas.so.4"),
        "{once:?}"
    );
    let always = whitelisted("2", "steps 100");
    let launches = always.iter().filter(|line| line.ends_with("librocblas.so.4 (hipLaunchKernel)")).count();
    assert_eq!((always.len(), launches), (51, 50), "{always:?}");
}

#[test]
fn invalid_settings_are_reported_and_ignored() {
    let machine = Machine::new();
    let path = machine.path("xsched.json");
    fs::write(&path, r#"{"apis": ["hipLunchKernel"]}"#).expect("the folder is writable");
    let mut command = machine.command("steps 10");
    let callers = Callers::run(command.env("XSCHED_CONFIG", &path).env("XSCHED_VERBOSE", "1"));
    callers.says("wrong 0");
    let errors = callers.ends();
    let complaint = format!(
        "[XSched] {}: there is no HIP function `hipLunchKernel` that could be deferred or passed through",
        path.display()
    );
    assert!(errors.contains(&complaint), "{errors:?}");
}

#[test]
fn an_entry_for_a_function_overrides_its_librarys() {
    let machine = Machine::new();
    let path = machine.path("xsched.json");
    let text = r#"{
        "passthrough_mode": "whitelist",
        "libraries": ["librocblas"],               // all of it passes through
        "apis": {"hipLaunchKernel": "schedule"},   // but launches
    }"#;
    fs::write(&path, text).expect("the folder is writable");
    let mut command = machine.command("create");
    let callers = Callers::run(command.env("XSCHED_CONFIG", &path).env("XSCHED_VERBOSE", "2"));
    callers.says("created 1");
    callers.says("wrong 0");
    let said = callers.ends();
    let passes = |function| said.iter().any(|line| line.ends_with(&format!("librocblas.so.4 ({function})")));
    assert!(passes("hipMemcpyAsync") && !passes("hipLaunchKernel"), "{said:?}");
}

#[test]
fn a_library_declares_the_domain_of_its_own_calls_and_a_program_that_of_its_thread() {
    let machine = Machine::new();
    // By the immediate caller, the launch through librocblas.so.4 is not in the library's domain.
    let callers = machine.begin_suspended(&mut machine.command("domain library 1"));
    callers.says("thread_domain 0");
    callers.says("library_domain 1");
    callers.says("refused 1");
    callers.says_nothing();
    machine.controller.hold(false);
    callers.says("done 1");
    callers.says("wrong 0");
    callers.ends();

    let callers = machine.begin_suspended(&mut machine.command("domain thread 1"));
    for line in ["set 0", "thread_domain 1", "library_domain 0", "refused 1", "done 1", "wrong 0"] {
        callers.says(line);
    }
    callers.ends();
    machine.controller.hold(false);
}

#[test]
fn a_program_that_knows_domains_runs_without_the_shim() {
    let callers = Callers::run(&mut Machine::alone("domain library 1"));
    callers.says("without 1");
    callers.says("wrong 0");
    callers.ends();
}

#[test]
fn doctor_shows_how_origins_are_found() {
    let machine = Machine::new();
    let callers = machine.begin_suspended(&mut machine.command("create"));
    callers.says_nothing();
    let pid = callers.child.id().to_string();
    let said = Command::new(xsched_ctl()).args(["doctor", "--pid", &pid]).output().expect("it was built");
    let said = String::from_utf8(said.stdout).expect("it prints text");
    machine.controller.hold(false);
    callers.says("created 1");
    callers.says("wrong 0");
    callers.ends();
    assert!(said.contains("rules see the immediate caller only"), "{said}");
}
