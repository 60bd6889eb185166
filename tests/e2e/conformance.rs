//! The conformance suite (`tests/conformance`) on the simulated runtimes, one test per case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use xsched_tests::artifacts::conformance;

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

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // nextest asks for one case per process: the other programs need not be listed for it.
    let exactly = arguments.filter.as_deref().filter(|_| arguments.exact);
    let is_asked_for =
        |name: &str| exactly.is_none_or(|case| case.starts_with(&format!("conformance-{name}")));
    let programs = PROGRAMS.iter().filter(|(name, _)| is_asked_for(name));
    let trials = programs.flat_map(|(name, areas)| trials(name, areas)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// One trial per case of a program; one that says why where there is no program.
fn trials(name: &str, areas: &[&str]) -> Vec<Trial> {
    let program = conformance().join(format!("conformance-{name}"));
    if !program.exists() {
        let absent =
            || Ok(Completion::ignored_with("not built: no HIP headers (`cargo xtask setup` gets them)"));
        return vec![Trial::ignorable_test(format!("conformance-{name}"), absent)];
    }
    let is_wanted = |case: &String| areas.is_empty() || areas.iter().any(|area| case.starts_with(area));
    let cases = cases(&program).into_iter().filter(is_wanted);
    cases
        .map(|case| {
            let program = program.clone();
            Trial::ignorable_test(format!("conformance-{name}::{case}"), move || run(&program, &case))
        })
        .collect()
}

fn cases(program: &PathBuf) -> Vec<String> {
    let output = Command::new(program).arg("list").output().expect("the program is there");
    assert!(output.status.success(), "{} list: {}", program.display(), output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Runs one case in a process of its own; what it printed is the reason of a failure or of a skip.
fn run(program: &Path, case: &str) -> Result<Completion, Failed> {
    let report = tempfile::NamedTempFile::new()?;
    let output = Command::new(program)
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
