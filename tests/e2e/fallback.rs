//! Kernels without `uprobe_multi`: one perf event a probe gives the same timeline.

use xsched_tests::artifacts::app;
use xsched_tests::privileged::may_trace;
use xsched_tests::tracer::{calls, run, xsched_ctl};

#[test]
fn perf_events_record_the_same_calls() {
    if !may_trace("perf_events_record_the_same_calls") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let traces = ["auto", "perf-events"].map(|kind| {
        let trace = dir.path().join(kind);
        let outcome = run(xsched_ctl(["trace", "--uprobes", kind, "-o"])
            .arg(&trace)
            .arg("--")
            .arg(app("two_libraries"))
            .args(["--launches", "60"]));
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        calls(&trace).unwrap()
    });
    assert!(traces[0].iter().filter(|call| call.category == "hip.launch").count() == 60);
    assert_eq!(traces[0], traces[1]);
}
