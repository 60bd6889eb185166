//! The controller under a hostile peer, in a short run; `cargo xtask bench fuzz` runs for longer.

use std::process::{Command, ExitCode};

use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::tracer::run;

#[needs(ROOT)]
fn a_hostile_peer_does_not_affect_other_processes() {
    let mut fuzz = Command::new(env!("CARGO_BIN_EXE_bench-fuzz"));
    let outcome = run(fuzz.arg("--messages=10000"));
    // The output contains the seed.
    assert_eq!(outcome.code, 0, "{}{}", outcome.stderr, outcome.stdout);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
