//! Random programs behave the same with and without the shim; see `tests/differential/README.md`.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;

use xsched_differential::campaign;
use xsched_differential::generate::generate;
use xsched_differential::mode::{Mode, Paths, Way};
use xsched_tests::artifacts;
use xsched_tests::small_controller::SmallController;

/// Programs for each mode. Nineteen modes: 3,800 programs.
const PROGRAMS: u64 = 200;
/// How often each program of the corpus runs, since its bug may depend on timing.
const CORPUS_RUNS: u32 = 20;

fn places() -> Paths {
    Paths::new(&artifacts::differential(), &artifacts::shim())
}

/// Runs programs of their own for each mode.
#[track_caller]
fn nothing_differs(mode: &Mode, first: u64) {
    nothing_differs_at(&places(), mode, first);
}

#[track_caller]
fn nothing_differs_at(places: &Paths, mode: &Mode, first: u64) {
    let findings = campaign::compare(mode, places, first..first + PROGRAMS);
    let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} of {PROGRAMS} programs:\n{}", findings.len(), texts.join("\n"));
}

macro_rules! modes {
    ($($name:ident, $suspended:ident, $treated:ident: $major:literal, $way:ident, $first:literal;)*) => {$(
        #[test]
        fn $name() {
            nothing_differs(&Mode::with_shim($major, Way::$way), $first);
        }

        #[test]
        fn $suspended() {
            nothing_differs(&Mode::with_shim($major, Way::$way).suspended($first), $first + 100_000);
        }

        #[test]
        fn $treated() {
            let mode = Mode::with_shim($major, Way::$way).suspended($first).with_random_verdicts($first);
            nothing_differs(&mode, $first + 200_000);
        }
    )*};
}

modes! {
    by_symbols_of_5, by_symbols_of_5_suspended, by_symbols_of_5_treated: 5, Symbols, 0;
    by_symbols_of_6, by_symbols_of_6_suspended, by_symbols_of_6_treated: 6, Symbols, 1000;
    by_the_table_of_6, by_the_table_of_6_suspended, by_the_table_of_6_treated: 6, Table, 2000;
    by_symbols_of_7, by_symbols_of_7_suspended, by_symbols_of_7_treated: 7, Symbols, 3000;
    by_the_table_of_7, by_the_table_of_7_suspended, by_the_table_of_7_treated: 7, Table, 4000;
}

#[test]
fn with_streams_scheduled_among_each_other() {
    nothing_differs(&Mode::with_shim(6, Way::Symbols).scheduled(), 301_000);
    nothing_differs(&Mode::with_shim(7, Way::Table).scheduled(), 303_000);
}

#[test]
fn beside_a_more_urgent_process() {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let controller = SmallController::start(folder.path()).expect("a socket can be made");
    controller.flap(1);
    let places = places().with_controller(folder.path());
    nothing_differs_at(&places, &Mode::with_shim(6, Way::Table).beside(), 401_000);
    nothing_differs_at(&places, &Mode::with_shim(7, Way::Symbols).with_random_verdicts(2).beside(), 403_000);
    assert!(controller.reports() > 0, "the programs reported to the controller");
}

/// Their launches take no lock while the other has no work.
#[test]
fn on_the_first_level_beside_a_process_that_is_before_it_at_times() {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let controller = SmallController::start(folder.path()).expect("a socket can be made");
    controller.keep_one_level();
    controller.flap(1);
    let places = places().with_controller(folder.path());
    nothing_differs_at(&places, &Mode::with_shim(6, Way::Table).beside(), 405_000);
    nothing_differs_at(&places, &Mode::with_shim(7, Way::Symbols).with_random_verdicts(2).beside(), 407_000);
    assert!(controller.reports() > 0, "the programs reported to the controller");
}

/// Bugs that were found once do not come back, in any mode.
#[test]
fn programs_of_the_corpus_do_the_same() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential/corpus");
    let entries = fs::read_dir(&corpus).expect("the corpus is part of the sources");
    let programs: Vec<_> = entries.map(|entry| entry.expect("the corpus can be listed").path()).collect();
    assert!(!programs.is_empty(), "no programs in {}", corpus.display());
    let mut found = Vec::new();
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let controller = SmallController::start(folder.path()).expect("a socket can be made");
    controller.flap(1);
    let places = places().with_controller(folder.path());
    for mode in Mode::all().into_iter().chain(Mode::scheduling()) {
        for program in &programs {
            if campaign::differs_in(program, &mode, &places, CORPUS_RUNS).expect("the program can be read") {
                found.push(format!("{} on {mode}", program.display()));
            }
        }
    }
    assert!(found.is_empty(), "these differ or fail: {found:#?}");
}

/// Planted bugs and variables for tests are compiled in only on request.
#[test]
fn the_released_shim_has_no_planted_bug_and_no_test_switch() {
    let has =
        |library: &[u8], text: &str| library.windows(text.len()).any(|window| window == text.as_bytes());
    let [tested, released] = [artifacts::shim(), artifacts::released_shim()]
        .map(|library| fs::read(library).expect("it was built"));
    assert!(has(&tested, "XSCHED_TEST_SUSPEND"), "variables can be found like this");
    assert!(has(&released, "XSCHED_DISABLE"), "in either of them");
    assert!(!has(&tested, "XSCHED_PLANTED_BUG"));
    assert!(!has(&released, "XSCHED_PLANTED_BUG") && !has(&released, "XSCHED_TEST_"));
}

/// Deferrable functions that no program calls, and why.
const IN_NO_PROGRAM: [(&str, &str); 4] = [
    ("hipHccModuleLaunchKernel", "runtimes have it by its name in C++"),
    ("hipMemMapArrayAsync", "no runtime has arrays without memory"),
    ("hipSignalExternalSemaphoresAsync", "semaphores are another interface's"),
    ("hipWaitExternalSemaphoresAsync", "semaphores are another interface's"),
];

/// The functions that the shim's list calls deferrable.
fn deferrable() -> BTreeSet<String> {
    let list = include_str!("../../shim/src/api.rs").lines();
    let lines = list.filter_map(|line| line.trim().strip_prefix("deferrable ")?.split_once(" fn "));
    lines.map(|(_, rest)| rest.split('(').next().expect("a piece of any text").to_owned()).collect()
}

/// Ranges of programs without those that end in a fault, after which a process is unusable.
fn without_faults(seeds: Range<u64>) -> Vec<Range<u64>> {
    let faults = seeds.clone().filter(|seed| generate(*seed).has_fault());
    let ends = faults.chain([seeds.end]);
    let mut start = seeds.start;
    ends.map(|end| std::mem::replace(&mut start, end + 1)..end).filter(|range| !range.is_empty()).collect()
}

/// The deferrable functions that a process called, according to the shim's counts.
fn called(mode: &Mode, seeds: &Range<u64>) -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let log = folder.path().join("summary");
    let words = [seeds.start.to_string(), (seeds.end - seeds.start).to_string()];
    let mut client = mode.command(&places(), &["seeds", &words[0], &words[1]]);
    let output = client.env("XSCHED_LOG", &log).output().expect("it was built");
    assert!(output.status.success(), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
    let summary = fs::read_to_string(log).expect("the shim has written it");
    let lines = summary.lines().filter(|line| line.ends_with(", deferrable)"));
    lines.map(|line| line.split_whitespace().nth(1).expect("count and name").to_owned()).collect()
}

/// Programs call every deferrable function, on at least one release.
#[test]
fn programs_call_every_deferrable_function() {
    let runs = without_faults(0..600);
    let modes = [5, 6, 7].map(|major| Mode::with_shim(major, Way::Symbols));
    let all = modes.iter().flat_map(|mode| runs.iter().flat_map(|seeds| called(mode, seeds)));
    let mut all: BTreeSet<_> = all.collect();
    all.extend(IN_NO_PROGRAM.map(|(name, _)| name.to_owned()));
    let odd: Vec<_> = all.symmetric_difference(&deferrable()).cloned().collect();
    assert!(odd.is_empty(), "called by no program, or by one despite the listed reason: {odd:?}");
}
