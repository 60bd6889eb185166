//! The capabilities that the unit for systemd leaves the controller: they are enough, and each is needed.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, app_copy, hip_sim, shim};
use xsched_tests::tracer::run;

use super::USER;
use super::fixture::{self, Controller};

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../xsched-ctl/packaging/xsched.service");

const DAEMON_SET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes/daemonset.yaml");

/// What `callers` is linked with, apart from the runtime.
const LIBRARIES: [&str; 5] =
    ["libMIOpen.so.1", "libdemo_twins.so", "librccl.so.1", "librocblas.so.4", "libspeaker.so"];

/// What `doctor --pid` says of a process whose verdicts come from BPF programs.
const WHOLE_CHAINS: &str = "rules see the whole call chain";

/// How long a process may take to have such verdicts.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the program runs at most.
const RUNS: usize = 3;

/// What a controller can do.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Abilities {
    /// Its BPF programs keep the arbiter page.
    programs: bool,
    /// It knows the executable of another user's process, for a rule.
    executables: bool,
    /// Rules see whole call chains through libraries in a folder that is closed to others.
    closed_folders: bool,
}

const ALL: Abilities = Abilities { programs: true, executables: true, closed_folders: true };

#[needs(ROOT)]
fn the_units_capabilities_are_enough() {
    assert_eq!(of_the_unit(), ["sys_admin", "sys_ptrace", "dac_read_search"]);
    assert_eq!(Abilities::with(&of_the_unit()), ALL);
}

#[needs(ROOT)]
fn without_sys_admin_no_programs_are_loaded() {
    // Without programs, there are no whole chains either.
    let found = Abilities::with(&["sys_ptrace", "dac_read_search"]);
    assert_eq!(found, Abilities { programs: false, closed_folders: false, ..ALL });
}

#[needs(ROOT)]
fn without_sys_ptrace_executables_of_others_are_unknown() {
    assert_eq!(Abilities::with(&["sys_admin", "dac_read_search"]), Abilities { executables: false, ..ALL });
}

#[needs(ROOT)]
fn without_dac_read_search_closed_folders_stay_closed() {
    assert_eq!(Abilities::with(&["sys_admin", "sys_ptrace"]), Abilities { closed_folders: false, ..ALL });
}

/// A pod's controller has as many.
#[needs(nothing)]
fn the_daemon_set_has_those_of_the_unit() {
    let manifest = fs::read_to_string(DAEMON_SET).unwrap();
    let added = manifest.lines().find_map(|line| line.trim().strip_prefix("add: [")).unwrap();
    let added = added.trim_end_matches(']').to_lowercase();
    assert_eq!(added.split(", ").collect::<Vec<_>>(), of_the_unit());
}

/// As setpriv names them.
fn of_the_unit() -> Vec<String> {
    let unit = fs::read_to_string(UNIT).unwrap();
    let set = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    set.split(' ').map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase()).collect()
}

impl Abilities {
    /// Tries a controller that has these capabilities only.
    fn with(capabilities: &[impl AsRef<str>]) -> Self {
        let names: Vec<_> = capabilities.iter().map(|name| format!("+{}", name.as_ref())).collect();
        let names = names.join(",");
        let folder = tempfile::tempdir().unwrap();
        let script = format!("#!/bin/sh\nexec setpriv --bounding-set=-all,{names} --inh-caps=-all \"$@\"\n");
        let wrapper = fixture::executable(&folder, &script);
        let mut controller = Controller::start_with_programs_by(
            wrapper,
            "[[rule]]\nexecutable = 'python3*'\npriority = -17\n",
        );
        let mut process = controller.process_of(USER);
        process.ask("connect -");
        process.open(7);
        let executables = controller.listed(&process)["parameters"]["priority"] == -17;
        drop(process);
        let closed_folders = sees_into_closed_folders(&controller);
        controller.process().signal(Signal::INT);
        let outcome = controller.finish();
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let programs = outcome.stderr.contains("page kept by BPF programs");
        Self { programs, executables, closed_folders }
    }
}

/// Whether calls of MIOpen's search pass through, as the built-in rules say, where only its user may read its library.
/// Unwind tables may be late for the first runs.
fn sees_into_closed_folders(controller: &Controller) -> bool {
    let closed = tempfile::tempdir().unwrap();
    let program = app_copy("callers", closed.path(), "closed");
    for library in LIBRARIES {
        fs::copy(app(library), closed.path().join(library)).unwrap();
    }
    for entry in fs::read_dir(&closed).unwrap() {
        chown(entry.unwrap().path(), Some(USER), None).unwrap();
    }
    chown(closed.path(), Some(USER), None).unwrap();
    fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
    let mut runs = (0..RUNS).map_while(|_| passes_by_the_chain(controller, program.get_program().as_ref()));
    runs.any(|passes| passes)
}

/// Runs it once; whether a call passed through because of its call chain. None without programs that walk stacks.
fn passes_by_the_chain(controller: &Controller, program: &Path) -> Option<bool> {
    let mut command = Command::new(program);
    command.arg("find").uid(USER).current_dir("/");
    command.env("LD_LIBRARY_PATH", hip_sim(6)).env("LD_PRELOAD", shim()).env("HIP_SIM_SHARED", "off");
    command.env("XSCHED_SOCKET_DIR", controller.folder()).env("XSCHED_VERBOSE", "2");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let begin = Instant::now();
    let knows = || run(&mut controller.command(&["doctor", "--pid", &pid])).stdout.contains(WHOLE_CHAINS);
    let mut is_by_chains = knows();
    while !is_by_chains && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
        is_by_chains = knows();
    }
    // It fills memory until the first line, and works after the second.
    child.stdin.take().unwrap().write_all(b"\n\n").unwrap();
    let outcome = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{said}");
    is_by_chains.then(|| said.contains("libMIOpen.so.1 (hipLaunchKernel)"))
}
