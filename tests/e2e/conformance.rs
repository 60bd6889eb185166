//! The conformance suite (`tests/conformance`) on the simulated runtimes, one test per case. The cases also run with the
//! shim, which suspends streams and the process at random, with random verdicts, or under a controller that suspends the
//! process at random.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xsched_harness::{Arguments, Case, Failed};
use xsched_tests::artifacts::{conformance, shim, twins};
use xsched_tests::needs::CONFORMANCE;
use xsched_tests::small_controller::SmallController;

/// Exit status of a case for a feature that the program's runtime or compiler lacks.
const SKIPPED: i32 = 77;
/// Such cases: program and names. For each program, one test checks that they are skipped.
const NOT_APPLICABLE: [(&str, &[&str]); 3] = [
    (
        "5",
        &[
            "copies::a_copy_within_the_device_does_not_wait",
            "copies::the_boxes_of_a_batch_are_copied_in_stream_order",
            "copies::the_copies_of_a_batch_run_in_stream_order",
            "default_streams::per_thread_functions_take_the_legacy_handle_for_the_threads_stream",
            "default_streams::the_legacy_handle_is_the_null_stream",
            "devices::functions_are_found_by_name",
            "launch::a_kernel_and_its_function_are_the_same",
            "launch::a_launch_by_configuration_looks_at_all_attributes",
            "streams::a_batch_of_written_values_comes_after_the_work_before_it",
        ],
    ),
    (
        "6",
        &[
            "copies::the_boxes_of_a_batch_are_copied_in_stream_order",
            "copies::the_copies_of_a_batch_run_in_stream_order",
            "memory::attributes_of_addresses_tell_them_apart",
        ],
    ),
    ("7", &["memory::attributes_of_addresses_tell_them_apart"]),
];
/// Programs of the suite, and the areas whose cases are run; an empty list stands for all. Programs that differ only in the
/// container of their device code run only areas with device code of their own.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("6", &[]),
    ("5", &[]),
    ("7", &[]),
    ("v4", &["launch", "registration"]),
    ("v6", &["launch", "registration"]),
    ("compressed", &["launch", "registration"]),
];

/// How the shim is loaded, and what it does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shim {
    Absent,
    /// Preloaded; it gets the dispatch tables if the runtime has them.
    Preloaded,
    /// Preloaded, and the runtime passes no tables.
    BySymbols,
    /// Named in the variable of the runtime's registration library, not preloaded.
    ByTables,
    /// Preloaded, with random verdicts on calls.
    RandomVerdicts,
    /// Preloaded, with a more urgent process that starts and stops work at random.
    Beside,
}

/// Programs that also run with the shim: program, name of its tests, and how.
const WITH_SHIM: [(&str, &str, Shim); 9] = [
    ("6", "tables", Shim::Preloaded),
    ("6", "symbols", Shim::BySymbols),
    ("7", "registered", Shim::ByTables),
    ("5", "old", Shim::Preloaded),
    ("compressed", "tables", Shim::Preloaded),
    ("6", "treated", Shim::RandomVerdicts),
    ("7", "treated", Shim::RandomVerdicts),
    ("6", "beside", Shim::Beside),
    ("7", "beside", Shim::Beside),
];

/// A program, how it has the shim, and the name of its tests.
struct Subject {
    name: String,
    program: PathBuf,
    areas: &'static [&'static str],
    not_applicable: &'static [&'static str],
    shim: Shim,
}

/// The entry of a table for one program.
fn of_program(table: &[(&str, &'static [&'static str])], program: &str) -> &'static [&'static str] {
    table.iter().find(|(name, _)| *name == program).map_or(&[], |(_, cases)| cases)
}

fn subjects() -> impl Iterator<Item = Subject> {
    let subject = |name: String, program: &str, shim| Subject {
        name,
        program: conformance().join(format!("conformance-{program}")),
        areas: of_program(&PROGRAMS, program),
        not_applicable: of_program(&NOT_APPLICABLE, program),
        shim,
    };
    let alone =
        PROGRAMS.iter().map(move |(name, _)| subject(format!("conformance-{name}"), name, Shim::Absent));
    let with_shim =
        WITH_SHIM.iter().map(move |(name, how, shim)| subject(format!("shim-{how}-{name}"), name, *shim));
    alone.chain(with_shim)
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // nextest runs one case in each process, for which the other programs need not be listed.
    let exactly = arguments.filter.as_deref().filter(|_| arguments.exact);
    let is_asked_for = |subject: &Subject| exactly.is_none_or(|case| case.starts_with(&subject.name));
    let cases = if (CONFORMANCE.missing)().is_some() {
        // The cases are known only once the programs are built.
        vec![Case::new("conformance", &[&CONFORMANCE], || {})]
    } else {
        subjects().filter(is_asked_for).flat_map(cases_of).collect()
    };
    xsched_harness::run(&arguments, cases)
}

/// Cases in which one stream blocks another because they share a hardware queue. That depends on the order in which unrelated
/// streams get their first work, and suspension changes this order.
const BY_HARDWARE_QUEUES: &str = "share_its_hardware_queue";

/// The shim answers a query of a stream with deferred work itself, and cannot set the runtime's last error.
const BY_LAST_ERROR: &str = "not_ready_is_the_last_error_before_7";

/// A test for each case of a program.
fn cases_of(subject: Subject) -> Vec<Case> {
    let Subject { name, program, areas, not_applicable, shim } = subject;
    let is_wanted = |case: &String| {
        (areas.is_empty() || areas.iter().any(|area| case.starts_with(area)))
            && (shim == Shim::Absent
                || ![BY_HARDWARE_QUEUES, BY_LAST_ERROR].iter().any(|end| case.ends_with(end)))
            && !not_applicable.contains(&case.as_str())
    };
    let wanted = cases(&program).into_iter().filter(is_wanted);
    let case = |name: String, run: Box<dyn FnOnce() -> Result<(), Failed> + Send>| Case {
        name,
        needs: vec![&CONFORMANCE],
        run,
    };
    let mut tests: Vec<_> = wanted
        .map(|wanted| {
            let program = program.clone();
            case(format!("{name}::{wanted}"), Box::new(move || run(&program, &wanted, shim)))
        })
        .collect();
    if shim == Shim::Absent && !not_applicable.is_empty() {
        let run = Box::new(move || all_are_skipped(&program, not_applicable));
        tests.push(case(format!("{name}::cases_that_do_not_apply_are_skipped"), run));
    }
    tests
}

/// Fails for a case that is not skipped.
fn all_are_skipped(program: &Path, cases: &[&str]) -> Result<(), Failed> {
    for case in cases {
        let status = Command::new(program).args(["run", case]).env("HIP_SIM_TWINS", twins()).status()?;
        if status.code() != Some(SKIPPED) {
            return Err(format!("{case}: {status}").into());
        }
    }
    Ok(())
}

fn cases(program: &PathBuf) -> Vec<String> {
    let output = Command::new(program).arg("list").output().expect("the program is built");
    assert!(output.status.success(), "{} list: {}", program.display(), output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Runs one case in a process of its own; what it printed is the reason of a failure.
fn run(program: &Path, case: &str, with: Shim) -> Result<(), Failed> {
    let report = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(program);
    let shim_variable = if with == Shim::ByTables { "ROCPROFILER_REGISTER_LIBRARY" } else { "LD_PRELOAD" };
    if with == Shim::BySymbols {
        command.env("ROCPROFILER_REGISTER_ENABLED", "0");
    }
    if with == Shim::RandomVerdicts {
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
        .env("HIP_SIM_TWINS", twins())
        // Some cases need two.
        .env("HIP_SIM_DEVICES", "2")
        .env("HIP_SIM_REPORT", report.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        let complaints = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {said}\n{complaints}", output.status).into());
    }
    // A kernel without a twin does nothing; a case that passes without its kernel would prove nothing.
    match fs::read_to_string(report.path())?.lines().find(|line| line.starts_with("missing-twin")) {
        Some(missing) => Err(missing.into()),
        None => Ok(()),
    }
}
