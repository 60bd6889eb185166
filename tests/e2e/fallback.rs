//! Kernels without `uprobe_multi`: one perf event for each probe gives the same timeline, except for the calls that this mode
//! leaves out.

use std::process::ExitCode;

use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::app;
use xsched_tests::tracer::{TracedCall, calls, run, xsched_ctl};

#[needs(ROOT)]
fn perf_events_record_the_same_calls() {
    let dir = tempfile::tempdir().unwrap();
    let [mut auto, perf_events] = ["auto", "perf-events"].map(|kind| {
        let trace = dir.path().join(kind);
        let outcome = run(xsched_ctl(["trace", "--uprobes", kind, "-o"])
            .arg(&trace)
            .arg("--")
            .arg(app("two_libraries"))
            .args(["--launches", "60"]));
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_eq!(outcome.stderr.contains("are not recorded"), kind == "perf-events", "{}", outcome.stderr);
        calls(&trace).unwrap()
    });
    assert!(auto.iter().filter(|call| call.category == "hip.launch").count() == 60);
    let is_left_out = |call: &TracedCall| matches!(call.category.as_str(), "hip.memory" | "hip.event");
    assert!(auto.iter().any(is_left_out));
    auto.retain(|call| !is_left_out(call));
    assert_eq!(auto, perf_events);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
