//! Threads, libraries and programs that end while their work is deferred; and HIP events that other processes see.

use std::fs;
use std::time::{Duration, Instant};

use xsched_harness::needs;
use xsched_tests::artifacts::app;
use xsched_tests::tracer::{Outcome, run};

use crate::{python, suspended};

/// Runs a script alone and suspended, and compares the results; returns the suspended run's outcome and the shim's summary.
#[track_caller]
fn same_while_suspended(script: &str, arguments: &[&str]) -> (Outcome, String) {
    let command = || {
        let mut command = python(script);
        command.args(arguments);
        command
    };
    let log = tempfile::NamedTempFile::new().unwrap();
    let alone = run(&mut command());
    let with = run(&mut suspended(command(), log.path()));
    assert_eq!(alone.code, 0, "alone: {}", alone.stderr);
    assert_eq!((with.code, &with.stdout, &with.stderr), (0, &alone.stdout, &alone.stderr));
    let summary = fs::read_to_string(log.path()).unwrap();
    assert!(summary.ends_with("trouble\n               0  none\n"), "{summary}");
    (with, summary)
}

#[needs(nothing)]
fn a_thread_ends_while_its_work_is_deferred() {
    let script = "
memories = [new(hip.hipMalloc, size) for _ in range(4)]
PER_THREAD = ctypes.c_void_p(2)
def work(number):
    stream = new(hip.hipStreamCreate)
    for round in range(20):
        ok(hip.hipMemsetAsync(memories[number], round + number, size, stream))
        ok(hip.hipMemsetAsync(memories[number + 2], round + number, size, PER_THREAD))
for generation in range(40):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
ok(hip.hipDeviceSynchronize())
print([contents(memory) for memory in memories])";
    let (_, summary) = same_while_suspended(script, &[]);
    assert!(summary.contains("  deferred"), "nothing was suspended: {summary}");
}

#[needs(nothing)]
fn a_library_is_closed_while_its_kernels_are_deferred() {
    let script = "
import _ctypes
stream = new(hip.hipStreamCreate)
x, y = new(hip.hipMalloc, size), new(hip.hipMalloc, size)
ok(hip.hipMemset(x, 3, size)); ok(hip.hipMemset(y, 5, size))
for round in range(60):
    blas = ctypes.CDLL(sys.argv[2], os.RTLD_LOCAL)
    # The simulated runtime asks the loader for what a kernel does when it first runs, which must not be while it closes.
    ok(blas.demo_blas_mix(SIZE // 4, x, y, stream))
    ok(hip.hipStreamSynchronize(stream))
    for _ in range(1 + round % 7):
        ok(blas.demo_blas_mix(SIZE // 4, x, y, stream))
    _ctypes.dlclose(blas._handle)
ok(hip.hipStreamSynchronize(stream))
mapped = open('/proc/self/maps').read()
print(contents(y), 'libdemo_kernels' in mapped)";
    let blas = app("libdemo_blas.so").display().to_string();
    let (outcome, summary) = same_while_suspended(script, &[&blas]);
    assert!(summary.contains("  deferred"), "nothing was suspended: {summary}");
    assert!(outcome.stdout.ends_with("False\n"), "the library was not unloaded: {}", outcome.stdout);
}

#[needs(nothing)]
fn a_program_ends_while_its_kernels_are_deferred() {
    const HELD: Duration = Duration::from_mins(2);
    let script = "
stream = new(hip.hipStreamCreate)
x, y = new(hip.hipMalloc, size), new(hip.hipMalloc, size)
blas = ctypes.CDLL(sys.argv[2])
def deferred():
    # A kernel that is merely not over yet ends long before.
    until = time.monotonic() + 2
    while time.monotonic() < until:
        if hip.hipStreamQuery(stream) == 0: return False
        time.sleep(0.01)
    return True
# The thread that defers begins with the first call.
ok(blas.demo_blas_mix(SIZE // 4, x, y, stream))
while not deferred(): ok(blas.demo_blas_mix(SIZE // 4, x, y, stream))
print('deferred', flush=True)";
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = python(script);
    command.arg(app("libdemo_blas.so"));
    let mut command = suspended(command, log.path());
    command.env("XSCHED_TEST_SUSPEND", format!("held:{}", HELD.as_millis()));
    let started = Instant::now();
    let outcome = run(&mut command);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "deferred\n"), "{}", outcome.stderr);
    assert!(started.elapsed() < HELD / 2, "it waited to be resumed");
    let summary = fs::read_to_string(log.path()).unwrap();
    assert!(summary.contains("  deferred"), "{summary}");
}

/// Whether the shim defers what a program does 4,000 times, suspended at random.
#[track_caller]
fn defers(preparation: &str, repeated: &str) -> bool {
    let script = format!(
        "
stream, event, other = new(hip.hipStreamCreate), new(hip.hipEventCreate), new(hip.hipEventCreate)
memory = new(hip.hipMalloc, size)
def captured():
    ok(hip.hipStreamBeginCapture(stream, 0))
    ok(hip.hipMemsetAsync(memory, 7, size, stream))
    return new(lambda graph: hip.hipStreamEndCapture(stream, graph))
def instantiated(graph): return new(hip.hipGraphInstantiate, graph, None, None, ctypes.c_size_t(0))
{preparation}
for _ in range(4000):
    ok({repeated})
ok(hip.hipStreamSynchronize(stream))
print(hip.hipEventQuery(event))"
    );
    let (outcome, summary) = same_while_suspended(&script, &[]);
    assert_eq!(outcome.stdout, "0\n");
    let is_any = |texts: &[&str]| texts.iter().any(|text| summary.contains(text));
    assert!(is_any(&["waited in place", "waited for what was deferred", "  deferred"]), "{summary}");
    summary.contains("  deferred")
}

#[needs(nothing)]
fn events_that_other_processes_may_see_are_recorded_in_place() {
    let shares = |event| format!("hip.hipIpcGetEventHandle(ctypes.create_string_buffer(64), {event})");
    let record = "hip.hipEventRecord(event, stream)";
    assert!(defers("", record), "events of only this process are deferred");
    assert!(!defers(&shares("event"), record), "another process would not see a deferred record");
    assert!(defers(&shares("other"), record), "this event is still of only this process");
}

#[needs(nothing)]
fn graphs_are_deferred_unless_they_have_events_of_their_own() {
    let launch = "hip.hipGraphLaunch(executable, stream)";
    let alone = "graph = captured()
executable = instantiated(graph)";
    assert!(defers(alone, launch));
    let ordinary = format!("ok(hip.hipEventRecordWithFlags(event, stream, 0))\n{alone}");
    assert!(defers(&ordinary, launch), "the record is in no graph");
    let with_event = "graph = captured()
new(hip.hipGraphAddEventRecordNode, graph, None, ctypes.c_size_t(0), other)
executable = instantiated(graph)";
    assert!(!defers(with_event, launch), "the record concerns other streams");
    let within = "inner = captured()
new(hip.hipGraphAddEventRecordNode, inner, None, ctypes.c_size_t(0), other)
graph = new(hip.hipGraphCreate, 0)
new(hip.hipGraphAddChildGraphNode, graph, None, ctypes.c_size_t(0), inner)
executable = instantiated(graph)";
    assert!(!defers(within, launch), "a graph within has an event");
    let beside = format!("{with_event}\n{alone}");
    assert!(defers(&beside, launch), "only the other graph has an event");
}

#[needs(nothing)]
fn a_graph_that_waits_for_an_event_sees_its_deferred_record() {
    let script = "
working, copying = new(hip.hipStreamCreateWithFlags, 1), new(hip.hipStreamCreateWithFlags, 1)
event = new(hip.hipEventCreate)
source, target = new(hip.hipMalloc, size), new(hip.hipMalloc, size)
graph = new(hip.hipGraphCreate, 0)
wait = new(hip.hipGraphAddEventWaitNode, graph, None, ctypes.c_size_t(0), event)
new(hip.hipGraphAddMemcpyNode1D, graph, ctypes.byref(wait), ctypes.c_size_t(1), target, source, size, 3)
executable = new(hip.hipGraphInstantiate, graph, None, None, ctypes.c_size_t(0))
for value in range(400):
    ok(hip.hipMemsetAsync(source, value % 251, size, working))
    ok(hip.hipEventRecord(event, working))
    ok(hip.hipGraphLaunch(executable, copying))
    ok(hip.hipStreamSynchronize(copying))
    print(contents(target))
";
    same_while_suspended(script, &[]);
}

#[needs(nothing)]
fn work_on_a_stream_of_a_broken_capture_is_refused_and_other_work_deferred() {
    let script = "
hip.hipHostMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
stream, other, device, graph = new(hip.hipStreamCreate), new(hip.hipStreamCreate), new(hip.hipMalloc, size), ctypes.c_void_p()
host = ctypes.c_void_p()
ok(hip.hipHostMalloc(ctypes.byref(host), SIZE, 0))
ok(hip.hipStreamBeginCapture(stream, 0))
print('query', hip.hipStreamQuery(stream), 'ends', *[hip.hipStreamEndCapture(stream, ctypes.byref(graph)) for _ in range(2)])
codes = set()
for copy in range(2000):
    codes.add(hip.hipMemcpyAsync(device, host, size, 1, stream))
    ok(hip.hipMemsetAsync(device, copy % 256, size, other))
print('copies', codes)
ok(hip.hipStreamBeginCapture(stream, 0))
ok(hip.hipStreamEndCapture(stream, ctypes.byref(graph)))
ok(hip.hipMemcpyAsync(device, host, size, 1, stream))
ok(hip.hipStreamSynchronize(stream))
ok(hip.hipStreamDestroy(stream))
";
    let (outcome, summary) = same_while_suspended(script, &[]);
    assert_eq!(outcome.stdout, "query 900 ends 901 908\ncopies {901}\n");
    assert!(summary.contains("  deferred\n"), "{summary}");
}
