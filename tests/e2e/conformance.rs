//! The conformance suite (`tests/conformance`) on the simulated runtimes, one test per case; and the same with the shim,
//! which suspends streams and the process at random meanwhile, also with calls that are never held back, or is held back at
//! random by a controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use xsched_tests::artifacts::{conformance, shim};
use xsched_tests::small_controller::SmallController;

/// Exit status of a case that the runtime or the device cannot serve.
const SKIPPED: i32 = 77;
/// Programs of the suite, and the areas whose cases are run: with device code packed in another way, only those that
/// have device code of their own.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("6", &[]),
    ("5", &[]),
    ("7", &[]),
    ("v4", &["launch", "registration"]),
    ("v6", &["launch", "registration"]),
    ("compressed", &["launch", "registration"]),
];

/// How the shim comes into the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shim {
    Absent,
    /// Preloaded; it is handed the dispatch tables where the runtime has them.
    Preloaded,
    /// Preloaded, and the runtime hands out no tables.
    BySymbols,
    /// Named to the runtime's registration library, not preloaded.
    ByTables,
    /// Preloaded, and calls are treated in all ways at random.
    Treated,
    /// Preloaded, beside somebody more urgent who comes and goes.
    Beside,
}

/// Programs that are also run with the shim: what the trials are called, and how.
const WITH_SHIM: [(&str, &str, Shim); 9] = [
    ("6", "tables", Shim::Preloaded),
    ("6", "symbols", Shim::BySymbols),
    ("7", "registered", Shim::ByTables),
    ("5", "old", Shim::Preloaded),
    ("compressed", "tables", Shim::Preloaded),
    ("6", "treated", Shim::Treated),
    ("7", "treated", Shim::Treated),
    ("6", "beside", Shim::Beside),
    ("7", "beside", Shim::Beside),
];

/// A program, the shim, and the name of their trials.
struct Subject {
    name: String,
    program: PathBuf,
    areas: &'static [&'static str],
    shim: Shim,
}

fn subjects() -> impl Iterator<Item = Subject> {
    let program = |name| conformance().join(format!("conformance-{name}"));
    let areas = |name: &str| PROGRAMS.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, areas)| areas);
    let alone = PROGRAMS.iter().map(move |(name, areas)| Subject {
        name: format!("conformance-{name}"),
        program: program(name),
        areas,
        shim: Shim::Absent,
    });
    let with_shim = WITH_SHIM.iter().map(move |(name, how, shim)| Subject {
        name: format!("shim-{how}-{name}"),
        program: program(name),
        areas: areas(name),
        shim: *shim,
    });
    alone.chain(with_shim)
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // nextest asks for one case per process: the other programs need not be listed for it.
    let exactly = arguments.filter.as_deref().filter(|_| arguments.exact);
    let is_asked_for = |subject: &Subject| exactly.is_none_or(|case| case.starts_with(&subject.name));
    let trials = subjects().filter(is_asked_for).flat_map(trials).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Cases about which stream of several holds up which, by sharing a hardware queue with it: that depends on the order in
/// which unrelated streams get their first work, which suspension changes.
const BY_HARDWARE_QUEUES: &str = "share_its_hardware_queue";

/// One trial per case of a program; one that says why where there is no program.
fn trials(subject: Subject) -> Vec<Trial> {
    let Subject { name, program, areas, shim } = subject;
    if !program.exists() {
        let absent =
            || Ok(Completion::ignored_with("not built: no HIP headers (`cargo xtask setup` gets them)"));
        return vec![Trial::ignorable_test(name, absent)];
    }
    let is_wanted = |case: &String| {
        (areas.is_empty() || areas.iter().any(|area| case.starts_with(area)))
            && (shim == Shim::Absent || !case.ends_with(BY_HARDWARE_QUEUES))
    };
    let cases = cases(&program).into_iter().filter(is_wanted);
    cases
        .map(|case| {
            let program = program.clone();
            Trial::ignorable_test(format!("{name}::{case}"), move || run(&program, &case, shim))
        })
        .collect()
}

fn cases(program: &PathBuf) -> Vec<String> {
    let output = Command::new(program).arg("list").output().expect("the program is there");
    assert!(output.status.success(), "{} list: {}", program.display(), output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Runs one case in a process of its own; what it printed is the reason of a failure or of a skip.
fn run(program: &Path, case: &str, with: Shim) -> Result<Completion, Failed> {
    let report = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(program);
    let shim_variable = if with == Shim::ByTables { "ROCPROFILER_REGISTER_LIBRARY" } else { "LD_PRELOAD" };
    if with == Shim::BySymbols {
        command.env("ROCPROFILER_REGISTER_ENABLED", "0");
    }
    if with == Shim::Treated {
        command.env("XSCHED_TEST_VERDICTS", "random");
    }
    let folder = tempfile::tempdir()?;
    let mut controller = None;
    if with == Shim::Beside {
        let controller = controller.insert(SmallController::start(folder.path())?);
        controller.flap(1);
        command.env(shim_variable, shim()).env("XSCHED_SOCKET_DIR", folder.path());
    } else if with != Shim::Absent {
        command.env(shim_variable, shim()).env("XSCHED_TEST_SUSPEND", "random");
    }
    let output = command
        .args(["run", case])
        .env("HIP_SIM_TWINS", conformance().join("libconformance_twins.so"))
        // Some cases want two.
        .env("HIP_SIM_DEVICES", "2")
        .env("HIP_SIM_REPORT", report.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.code() {
        Some(0) => {}
        Some(SKIPPED) => return Ok(Completion::ignored_with(said)),
        _ => {
            let complaints = String::from_utf8_lossy(&output.stderr);
            // The simulator says so where it meets what its README lists as left out.
            if let Some(line) = complaints.lines().find(|line| line.ends_with("which is not modelled")) {
                return Ok(Completion::ignored_with(line));
            }
            return Err(format!("{}: {said}\n{complaints}", output.status).into());
        }
    }
    // A kernel without a twin does nothing; a case that did not notice would prove nothing.
    match fs::read_to_string(report.path())?.lines().find(|line| line.starts_with("missing-twin")) {
        Some(missing) => Err(missing.into()),
        None => Ok(Completion::Completed),
    }
}
