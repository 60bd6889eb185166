//! The controller under a hostile peer, for as long as a test may take; `cargo xtask bench fuzz` goes on for longer.

use std::process::{Command, ExitCode};

use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::tracer::run;

#[needs(ROOT)]
fn a_hostile_peer_changes_nothing_for_others() {
    let mut fuzz = Command::new(env!("CARGO_BIN_EXE_bench-fuzz"));
    let outcome = run(fuzz.arg("--messages=10000"));
    // The seed is among what it says.
    assert_eq!(outcome.code, 0, "{}{}", outcome.stderr, outcome.stdout);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
