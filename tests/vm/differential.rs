//! Random HIP programs on AMD's own runtime do the same while they are suspended: those of `tests/differential` that ROCm 5.2 can
//! do.

use std::env;
use std::process::Command;

use xsched_harness::needs;
use xsched_harness::needs::VM;

use crate::recording::{host, program, run};
use crate::{preload, summary};

/// Programs, unless `XSCHED_TEST_SEEDS` says how many. Each takes a second.
const PROGRAMS: u64 = 40;

/// Programs are short.
const SUSPENDED: [&str; 2] = ["random:1:5000", "random:2:1000"];

fn client(words: &[&str]) -> Command {
    let client = host("differential-5");
    assert!(client.exists(), "the host has not got AMD's runtime (`cargo xtask setup` gets what is needed)");
    let mut command = program("differential-5");
    command.args(words).env("DIFFERENTIAL_REPERTOIRE", "rocm-5.2");
    command
}

/// Runs programs natively and suspended; returns what the client says of each.
#[track_caller]
fn do_the_same_while_suspended(words: &[&str]) -> String {
    let plain = run(&mut client(words));
    assert_eq!(plain.code, 0, "{}{}", plain.stdout, plain.stderr);
    for suspended in SUSPENDED {
        let mut command = client(words);
        preload(&mut command, Some(suspended));
        let other = run(&mut command);
        let summary = summary();
        let pairs = plain.stdout.lines().zip(other.stdout.lines());
        let differ: Vec<_> = pairs.filter(|(plain, other)| plain != other).collect();
        assert!(differ.is_empty(), "{suspended}: {differ:?}: {summary}");
        assert_eq!(other.code, 0, "{suspended}: {}{summary}", other.stderr);
        assert!(summary.contains("  deferred\n"), "{suspended}: {summary}");
        assert!(summary.ends_with("trouble\n               0  none\n"), "{suspended}: {summary}");
    }
    plain.stdout
}

#[needs(VM)]
fn random_programs_do_the_same_while_they_are_suspended() {
    let count = env::var("XSCHED_TEST_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(PROGRAMS);
    let said = do_the_same_while_suspended(&["seeds", "0", &count.to_string()]);
    assert_eq!(said.lines().count() as u64, count, "{said}");
}

/// The simulated runtime does not refuse them.
#[needs(VM)]
fn boxes_that_the_runtime_refuses_are_refused_at_once_while_their_stream_is_suspended() {
    let file = host("a_box_that_rocm_5_refuses.txt");
    do_the_same_while_suspended(&["repeat", &file.to_string_lossy(), "20"]);
}
