//! The shim's fast path makes no system call and no allocation while no stream is suspended, or none that concerns the call. What a
//! deferred call takes is no memory of the application's.
//! `tests/apps/fast_path` counts both in the calling thread, on a runtime that makes neither.

use std::collections::BTreeMap;
use std::process::ExitCode;

use xsched_harness::needs;
use xsched_tests::artifacts::{app_command, shim};
use xsched_tests::needs::SYSCALL_DISPATCH;
use xsched_tests::tracer::run;

/// Of one function: calls, calls that made a system call, allocations.
type Counts = (u64, u64, u64);

/// Runs the program on a runtime in null mode.
fn counted(arguments: &[&str], environment: &[(&str, &str)]) -> BTreeMap<String, Counts> {
    let mut command = app_command("fast_path", arguments);
    for variable in ["LD_PRELOAD", "ROCPROFILER_REGISTER_LIBRARY", "ROCPROFILER_REGISTER_ENABLED"] {
        command.env_remove(variable);
    }
    let outcome = run(command.env("HIP_SIM_NULL", "1").envs(environment.iter().copied()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    let line = |line: &str| {
        let (name, counts) = line.split_once(' ').expect("a name and counts");
        let mut counts = counts.split(' ').map(|count| count.parse().expect("a count"));
        let mut next = || counts.next().expect("three counts");
        (name.to_owned(), (next(), next(), next()))
    };
    outcome.stdout.lines().map(line).collect()
}

#[needs(SYSCALL_DISPATCH)]
fn calls_make_no_system_call_and_allocate_nothing() {
    let shim = shim();
    let shim = shim.to_str().expect("a path in UTF-8");
    let alone = counted(&[], &[]);
    // The counters work: they see the program's own system call and allocation in each round, and none of the runtime.
    assert_eq!(alone["control"], (1000, 1000, 1000));
    for function in ["hipGetDevice", "hipLaunchKernel", "hipMemsetAsync", "hipStreamSynchronize"] {
        assert_eq!(alone[function], (1000, 0, 0), "{function} of the runtime itself");
    }
    for environment in [
        &[("LD_PRELOAD", shim)][..],
        &[("LD_PRELOAD", shim), ("ROCPROFILER_REGISTER_ENABLED", "0")],
        &[("ROCPROFILER_REGISTER_LIBRARY", shim)],
    ] {
        assert_eq!(counted(&[], environment), alone, "{environment:?}");
    }
}

#[needs(SYSCALL_DISPATCH)]
fn a_deferred_launch_takes_no_memory_of_the_applications() {
    let shim = shim();
    let shim = shim.to_str().expect("a path in UTF-8");
    for environment in [
        &[("LD_PRELOAD", shim), ("XSCHED_TEST_SUSPEND", "held:2000")][..],
        &[("ROCPROFILER_REGISTER_LIBRARY", shim), ("XSCHED_TEST_SUSPEND", "held:2000")],
    ] {
        let held = counted(&["held"], environment);
        let (calls, with_system_calls, allocations) = held["hipLaunchKernel"];
        // Memory of the shim's own holds it. Where the launch worker was interrupted while it took some, the C library gives it.
        assert!(allocations < calls / 20, "it lies between the application's own: {held:?}");
        assert!(with_system_calls < calls / 2, "each of them wakes a thread: {held:?}");
    }
}

#[needs(SYSCALL_DISPATCH)]
fn a_launch_beside_a_suspended_stream_makes_no_system_call_and_allocates_nothing() {
    let shim = shim();
    let shim = shim.to_str().expect("a path in UTF-8");
    let suspended = ("XSCHED_TEST_SUSPEND", "held-stream:60000");
    for environment in [
        &[("LD_PRELOAD", shim), ("ROCPROFILER_REGISTER_ENABLED", "0"), suspended][..],
        &[("ROCPROFILER_REGISTER_LIBRARY", shim), suspended],
    ] {
        let beside = counted(&["beside"], environment);
        assert_eq!(beside["hipLaunchKernel"], (1000, 0, 0));
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
