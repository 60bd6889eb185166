//! `XSCHED_SCHEDULER=LCL`: the shim schedules the streams of one process among each other, without a controller.

mod xsched_api;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::execution_log::{Execution, Timeline};
use xsched_tests::tracer::run;

/// Requests of the urgent stream, and kernels in each.
const REQUESTS: usize = 24;
const KERNELS: usize = 8;

/// Kernels that the other stream may have in flight when an urgent request comes.
const IN_FLIGHT: usize = 2;

/// A stream with a long backlog, and a stream of higher HIP priority with occasional requests.
const STREAMS: &str = "--us 400 --kernels 8 --requests 300 --ahead 16 \
                       --and --us 400 --kernels 8 --requests 24 --rate 40 --priority -1";

/// The device's kernels. The program checks that each ran once and in order.
fn executions(folder: &Path, variables: &[(&str, &str)]) -> Timeline {
    let log = folder.join("executions");
    let mut command = Command::new(app("sched_client"));
    command
        .args(STREAMS.split_whitespace())
        .env("LD_PRELOAD", shim())
        // A folder without a controller.
        .env("XSCHED_SOCKET_DIR", folder)
        .env("HIP_SIM_SHARED", "off")
        .env("HIP_SIM_DURATIONS", "device_step=arg1us")
        .env("HIP_SIM_EXECUTION_LOG", &log)
        .envs(variables.iter().copied());
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let said: Value =
        serde_json::from_str(outcome.stdout.lines().last().unwrap_or_default()).expect("it ends with JSON");
    assert_eq!(said["wrong"], 0, "{said}");
    let timeline = Timeline::read(&log).expect("the device has written its log");
    std::fs::remove_file(&log).expect("the log exists");
    timeline
}

/// For each request of the urgent stream: how many kernels of the other stream started between its launch and its completion.
fn overtaken_by(timeline: &Timeline) -> Vec<usize> {
    // Streams are numbered in the order of creation.
    let urgent = timeline.kernels().iter().map(|kernel| kernel.stream).max().expect("kernels have run");
    let (urgent, other): (Vec<&Execution>, Vec<_>) =
        timeline.kernels().iter().partition(|kernel| kernel.stream == urgent);
    assert_eq!((urgent.len(), other.len()), (REQUESTS * KERNELS, 300 * KERNELS));
    let requests = urgent.chunks(KERNELS).map(|request| {
        let (from_ns, to_ns) = (request[0].submitted_ns, request[KERNELS - 1].end_ns);
        other.iter().filter(|kernel| (from_ns..to_ns).contains(&kernel.start_ns)).count()
    });
    let mut counts: Vec<_> = requests.collect();
    counts.sort_unstable();
    counts
}

/// The median: while the machine does not run a thread in the middle of a request, the stream has no work.
fn usual(counts: &[usize]) -> usize {
    counts[counts.len() / 2]
}

#[test]
fn an_urgent_stream_preempts_the_others_of_its_process() {
    let folder = TempDir::new().unwrap();
    let counts = overtaken_by(&executions(folder.path(), &[("XSCHED_SCHEDULER", "LCL")]));
    assert!(usual(&counts) <= IN_FLIGHT, "kernels that started during each request: {counts:?}");
    let counts = overtaken_by(&executions(folder.path(), &[("XSCHED_SCHEDULER", "APP")]));
    assert!(usual(&counts) > IN_FLIGHT, "without a scheduler: {counts:?}");
}

#[test]
fn streams_share_the_device_by_another_policy() {
    let folder = TempDir::new().unwrap();
    let fair = [("XSCHED_SCHEDULER", "LCL"), ("XSCHED_POLICY", "CFS")];
    // All launches complete, in order.
    overtaken_by(&executions(folder.path(), &fair));
}
