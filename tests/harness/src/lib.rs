//! A test harness for tests that need something of the machine: root, a browser, a package of Debian's.
//!
//! ```text
//! use xsched_harness::{needs, needs::ROOT};
//!
//! #[needs(ROOT)]
//! fn a_program_is_loaded() { .. }
//!
//! #[needs(nothing)]
//! fn a_line_is_parsed() { .. }
//!
//! fn main() -> std::process::ExitCode {
//!     xsched_harness::main()
//! }
//! ```
//!
//! The target has `harness = false` in its manifest. Each [`Need`] is probed once when the tests are listed, and a test with
//! an unmet need is listed as ignored, which is what nextest and `cargo test` show as skipped. In a process that nextest
//! starts for one test the needs are not probed again: a need that was met when the tests were listed and is not met any
//! more makes the test fail.
//!
//! The reasons go to standard error where the tests run in this process, and into a file of the folder
//! `XSCHED_SKIPPED_DIR`, which `cargo xtask test` reads: a line a test, `need <tab> reason <tab> test`.

#[doc(hidden)]
pub use inventory;
pub use libtest_mimic::{Arguments, Failed};
pub use xsched_harness_macros::needs;

pub mod needs;
mod skipped;

use std::{collections::HashMap, env, process::ExitCode};

use libtest_mimic::Trial;

pub use self::needs::Need;
use self::skipped::Skipped;

/// A test that `#[needs(..)]` has registered.
#[doc(hidden)]
#[derive(Debug)]
pub struct Test {
    /// Its path, which begins with the crate.
    pub path: &'static str,
    /// Everything that it needs.
    pub needs: &'static [&'static Need],
    /// The function.
    pub run: fn(),
}

inventory::collect!(Test);

/// A test that is made when the program runs.
pub struct Case {
    /// As the runner shows it and filters by it.
    pub name: String,
    /// Everything that it needs.
    pub needs: Vec<&'static Need>,
    /// The test; a panic is a failure too.
    pub run: Box<dyn FnOnce() -> Result<(), Failed> + Send>,
}

impl Case {
    /// A test that fails by panicking.
    pub fn new(
        name: impl Into<String>,
        needs: &[&'static Need],
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        let run = Box::new(|| {
            run();
            Ok(())
        });
        Self { name: name.into(), needs: needs.to_vec(), run }
    }
}

/// The tests of this program that have `#[needs(..)]`, by name.
#[must_use]
pub fn registered() -> Vec<Case> {
    let mut cases: Vec<_> = inventory::iter::<Test>()
        .map(|test| {
            // Standard tests are named without their crate.
            let name = test.path.split_once("::").map_or(test.path, |(_, name)| name);
            Case::new(name, test.needs, test.run)
        })
        .collect();
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    cases
}

/// Runs, or lists, the tests of this program that have `#[needs(..)]`.
#[must_use]
pub fn main() -> ExitCode {
    run(&Arguments::from_args(), registered())
}

/// Runs, or lists, these tests.
#[must_use]
pub fn run(arguments: &Arguments, cases: Vec<Case>) -> ExitCode {
    // nextest sets this for lists, too: <https://nexte.st/docs/configuration/env-vars/>
    let is_in_nextest = env::var_os("NEXTEST_EXECUTION_MODE").is_some_and(|mode| mode == "process-per-test");
    // The needs have been probed for the list before nextest starts a process for one test.
    let is_chosen = is_in_nextest && !arguments.list;
    let (trials, skipped) = trials(cases, !is_chosen);
    if !is_chosen {
        skipped::report(arguments, &skipped);
    }
    libtest_mimic::run(arguments, trials).exit_code()
}

/// The tests for the runner, and those with an unmet need, which are ignored there. Each need is probed at most once.
fn trials(cases: Vec<Case>, probes: bool) -> (Vec<Trial>, Vec<Skipped>) {
    let mut reasons: HashMap<&'static str, Option<String>> = HashMap::new();
    let (mut trials, mut skipped) = (Vec::new(), Vec::new());
    for Case { name, needs, run } in cases {
        let mut unmet = needs.into_iter().filter(|_| probes).filter_map(|need| {
            let reason = reasons.entry(need.name).or_insert_with(need.missing).clone()?;
            Some((need.name, reason))
        });
        let unmet = unmet.next();
        trials.push(Trial::test(&name, run).with_ignored_flag(unmet.is_some()));
        skipped.extend(unmet.map(|(need, reason)| Skipped { need, reason, test: name }));
    }
    (trials, skipped)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static PROBES: AtomicUsize = AtomicUsize::new(0);
    static MET: Need = Need { name: "met", missing: || None };
    static UNMET: Need = Need {
        name: "unmet",
        missing: || {
            PROBES.fetch_add(1, Ordering::Relaxed);
            Some("absent".to_owned())
        },
    };

    fn cases() -> Vec<Case> {
        let case = |name: &str, needs: &[&'static Need]| Case::new(name, needs, || {});
        vec![case("a", &[]), case("b", &[&MET, &UNMET]), case("c", &[&MET]), case("d", &[&UNMET])]
    }

    #[test]
    fn tests_with_an_unmet_need_are_ignored_and_each_need_is_probed_once() {
        let (trials, skipped) = trials(cases(), true);
        let ignored: Vec<_> = trials.iter().map(Trial::has_ignored_flag).collect();
        assert_eq!(ignored, [false, true, false, true]);
        let skipped: Vec<_> = skipped.iter().map(|one| (one.need, &*one.reason, &*one.test)).collect();
        assert_eq!(skipped, [("unmet", "absent", "b"), ("unmet", "absent", "d")]);
        assert_eq!(PROBES.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_chosen_test_runs_without_probes() {
        let (trials, skipped) = trials(cases(), false);
        assert!(!trials.iter().any(Trial::has_ignored_flag));
        assert!(skipped.is_empty());
    }
}
