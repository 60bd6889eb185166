//! The controller under a hostile peer, for as long as a test may take; `cargo xtask bench fuzz` goes on for longer.

use std::process::Command;

use xsched_tests::privileged::may_trace;
use xsched_tests::tracer::run;

#[test]
fn a_hostile_peer_changes_nothing_for_others() {
    if !may_trace("a_hostile_peer_changes_nothing_for_others") {
        return;
    }
    let mut fuzz = Command::new(env!("CARGO_BIN_EXE_bench-fuzz"));
    let outcome = run(fuzz.arg("--messages=10000"));
    // The seed is among what it says.
    assert_eq!(outcome.code, 0, "{}{}", outcome.stderr, outcome.stdout);
}
