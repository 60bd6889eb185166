//! AMD's own driver and HIP runtime on a stand-in GPU: properties that the simulated runtime cannot show. `cargo xtask test
//! --vm` runs this program in virtual machines; elsewhere its tests are skipped.
//!
//! The stand-in executes shaders by `tests/gcn3`, and the processor is emulated: no test checks times.

mod copies;
mod differential;
mod origin;
mod preemption;
mod recording;
mod rocm6;
mod scheduling;
mod sharer;
mod timed;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::process::{Command, ExitCode};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use recording::{Outcome, Recording, Slice, host, run};
use rustix::io::{FdFlags, fcntl_setfd};
use scheduling::{Controller, PATIENCE};
use xsched_arbiter::{Arbiter, ArbiterError, Times};
use xsched_harness::needs;
use xsched_harness::needs::VM;
use xsched_protocol::arbiter_page::{Report, Word, device_key};
use xsched_tests::arbiter::Peer;

/// The same program twice: with the tracer's default mechanisms, and with its fallbacks for older kernels. strace sees the
/// same system calls of the same process.
static CHOSEN: LazyLock<Recording> = LazyLock::new(|| Recording::of("chosen", &[], "streams"));
static FALLBACK: LazyLock<Recording> = LazyLock::new(|| {
    Recording::of("fallback", &["--uprobes", "perf-events", "--driver", "tracepoint"], "streams")
});

/// Slices by name.
fn counts<'a>(slices: impl Iterator<Item = &'a Slice>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for slice in slices {
        *counts.entry(slice.name.as_str()).or_insert(0) += 1;
    }
    counts
}

#[needs(VM)]
fn doctor_finds_the_gpu_and_the_drivers_functions() {
    let outcome = run(Command::new(host("xsched-ctl")).arg("doctor"));
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for expected in ["GPU          ok       1 of AMD", "driver calls ok       seen at the driver's own"] {
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
}

#[needs(VM)]
fn driver_calls_are_those_that_strace_sees() {
    for recording in [&*CHOSEN, &*FALLBACK] {
        let traced = recording.driver_calls_by_command();
        assert!(traced.values().sum::<usize>() > 150, "{traced:?}");
        assert_eq!(traced, recording.straced_by_command(), "{}", recording.name);
    }
}

#[needs(VM)]
fn driver_calls_have_their_arguments_and_errors() {
    for recording in [&*CHOSEN, &*FALLBACK] {
        let calls: Vec<_> = recording.driver().collect();
        assert!(calls.iter().all(|call| call.text("device").is_some()), "{calls:#?}");
        let queues: Vec<_> = calls.iter().filter(|call| call.name == "AMDKFD_IOC_CREATE_QUEUE").collect();
        assert!(!queues.is_empty());
        for queue in queues {
            assert_eq!(
                (queue.text("device").as_deref(), queue.number("return")),
                (Some("/dev/kfd"), Some(0))
            );
            assert!(queue.number("ring_size").is_some_and(|size| size >= 4096), "{queue:?}");
            assert!(queue.number("queue_id").is_some() && queue.number("gpu_id") != Some(0), "{queue:?}");
        }
        // ROCm 5 tries a command that the drivers of distributions do not have.
        let refused = calls.iter().find(|call| call.name == "AMDKFD_IOC_DBG_TRAP_DEPRECATED");
        assert_eq!(refused.and_then(|call| call.text("error")).as_deref(), Some("ENOTTY"));
    }
}

#[needs(VM)]
fn queues_are_joined_to_the_streams_they_were_made_for() {
    for recording in [&*CHOSEN, &*FALLBACK] {
        let create = recording.hip().find(|call| call.name == "hipStreamCreate");
        let create = create.expect("the program creates a stream");
        let stream = create.text("result").expect("the stream has a handle");
        let queues: Vec<_> = recording
            .driver()
            .filter(|call| {
                call.name == "AMDKFD_IOC_CREATE_QUEUE" && call.text("stream").as_ref() == Some(&stream)
            })
            .collect();
        assert_eq!(queues.len(), 1, "{:#?}", recording.driver().collect::<Vec<_>>());
        // Within the call, on the same thread.
        assert!(queues[0].thread == create.thread && create.encloses(queues[0]), "{create:?} {queues:?}");
        assert!(create.number("queue").is_some());
        assert_eq!(create.number("queue"), queues[0].number("queue_id"));
        // The call on that stream has it too.
        let copy = recording
            .hip()
            .find(|call| call.name == "hipMemcpyAsync")
            .expect("the program copies on the stream");
        assert_eq!(copy.number("queue"), create.number("queue"));
        // The first copy has created the null stream's queue.
        assert!(recording.driver().any(|call| call.text("stream").as_deref() == Some("null")));
    }
}

#[needs(VM)]
fn both_kinds_of_probes_see_the_same_hip_calls() {
    let chosen = counts(CHOSEN.hip());
    for (name, count) in
        [("hipMemcpy", 2), ("hipStreamCreate", 1), ("hipMemcpyAsync", 1), ("hipStreamSynchronize", 1)]
    {
        assert_eq!(chosen.get(name), Some(&count), "{chosen:?}");
    }
    let fallback = counts(FALLBACK.hip());
    for (name, count) in &fallback {
        assert_eq!(chosen.get(name), Some(count), "{name}");
    }
    assert!(fallback.contains_key("hipMemcpyAsync"), "{fallback:?}");
}

#[needs(VM)]
fn nothing_is_lost_or_late() {
    for recording in [&*CHOSEN, &*FALLBACK] {
        assert_eq!(recording.code, 0, "{}", recording.stderr);
        assert!(!recording.stderr.contains(" lost"), "{}", recording.stderr);
        assert!(!recording.stderr.contains("may be missing"), "{}", recording.stderr);
    }
}

#[needs(VM)]
fn a_kernel_compiled_at_run_time_has_its_name() {
    let recording = Recording::of("compiled", &[], "compiled");
    assert_eq!(recording.code, 0, "{}", recording.stderr);
    let launches: Vec<_> = recording.hip().filter(|call| call.category == "hip.launch").collect();
    assert_eq!(launches.len(), 1, "{launches:?}");
    assert_eq!(launches[0].text("kernel").as_deref(), Some("saxpy"));
    assert_eq!(launches[0].text("library").as_deref(), Some("compiled"));
    assert_eq!(launches[0].text("grid").as_deref(), Some("4x1x1"));
}

#[needs(VM)]
fn the_shim_does_not_change_the_output() {
    let plain = run(&mut recording::program("streams"));
    let preloaded = run(recording::program("streams").env("LD_PRELOAD", host("libxsched_shim.so")));
    assert!(plain.stdout.contains("the copy is right"), "{}{}", plain.stdout, plain.stderr);
    assert_eq!((plain.code, plain.stdout), (preloaded.code, preloaded.stdout), "{}", preloaded.stderr);
}

/// Has the command run with the shim, suspended if requested.
fn preload(command: &mut Command, suspended: Option<&str>) {
    let log = host("shim.log");
    let _ = fs::remove_file(&log); // from an earlier run
    command.env("LD_PRELOAD", host("libxsched_shim.so")).env("XSCHED_LOG", &log);
    if let Some(suspended) = suspended {
        command.env("XSCHED_TEST_SUSPEND", suspended);
    }
}

/// The shim's summary of the command that has ended.
fn summary() -> String {
    fs::read_to_string(host("shim.log")).unwrap_or_else(|error| format!("no summary: {error}"))
}

/// Runs the program with the shim, suspended if requested; returns its outcome and the shim's summary.
fn with_shim(program: &str, suspended: Option<&str>) -> (Outcome, String) {
    let mut command = recording::program(program);
    preload(&mut command, suspended);
    let outcome = run(&mut command);
    (outcome, summary())
}

#[needs(VM)]
fn queues_do_the_same_while_they_are_suspended_at_random() {
    let plain = run(&mut recording::program("queues"));
    assert_eq!(plain.code, 0, "{}{}", plain.stdout, plain.stderr);
    assert!(plain.stdout.contains("round 11: ") && plain.stdout.contains("thread 1: "), "{}", plain.stdout);

    // The processor is emulated: few suspensions in a second are many for the program.
    let suspended = ["random:1:500", "random:2:2000", "random:3:500", "held:20"];
    for suspended in [None].into_iter().chain(suspended.map(Some)) {
        let (outcome, summary) = with_shim("queues", suspended);
        let said = |outcome: &Outcome| (outcome.code, outcome.stdout.clone());
        assert_eq!(said(&outcome), said(&plain), "{suspended:?}: {}{summary}", outcome.stderr);
        assert!(summary.contains("kernels, created streams"), "launches do not come by the shim: {summary}");
        assert_eq!(summary.contains("  deferred\n"), suspended.is_some(), "{suspended:?}: {summary}");
        assert!(summary.ends_with("trouble\n               0  none\n"), "{suspended:?}: {summary}");
    }
}

/// What `computes` prints if every result of every kernel is right; the digest was computed on the host.
const COMPUTED: &str = "\
saxpy: 1024 of 1024 results are right
streams: 1024 of 1024 results and 16 of 16 counts are right, digest 0797c880
private memory: 1024 of 1024 results are right
memset: 1024 of 1024 bytes are right
";

/// What `numbers` prints if rocRAND's kernels generate the documented sequences.
const NUMBERS: &str = "\
philox: 4096 of 4096 numbers are right
sobol: 4096 of 4096 numbers are right
";

/// How programs whose results are checked are suspended: by seeds and rates.
const SUSPENDED: [&str; 6] =
    ["random:1:500", "random:2:2000", "random:3:500", "random:4:1000", "random:5:4000", "held:20"];

/// Runs a program natively and with the shim, suspended in all ways. It prints the same each time, and begins with what is expected.
fn says_the_same_while_suspended(program: &str, expected: &str, launches: &str) {
    commands_say_the_same_while_suspended(|| recording::program(program), expected, launches, &SUSPENDED);
}

/// The same for a command and some ways. Its launches come by what the summary calls `launches`.
fn commands_say_the_same_while_suspended(
    command: impl Fn() -> Command,
    expected: &str,
    launches: &str,
    ways: &[&str],
) {
    let plain = run(&mut command());
    assert!(plain.code == 0 && plain.stdout.starts_with(expected), "{}{}", plain.stdout, plain.stderr);
    for suspended in [None].into_iter().chain(ways.iter().copied().map(Some)) {
        let mut command = command();
        preload(&mut command, suspended);
        let outcome = run(&mut command);
        let summary = summary();
        let said = (outcome.code, outcome.stdout.as_str());
        assert_eq!(said, (0, plain.stdout.as_str()), "{suspended:?}: {}{summary}", outcome.stderr);
        assert!(summary.contains(launches), "launches do not come by the shim: {summary}");
        assert_eq!(summary.contains("  deferred\n"), suspended.is_some(), "{suspended:?}: {summary}");
        assert!(summary.ends_with("trouble\n               0  none\n"), "{suspended:?}: {summary}");
    }
}

#[needs(VM)]
fn kernels_compute_the_same_natively_and_while_they_are_suspended() {
    says_the_same_while_suspended("computes", COMPUTED, "kernels, created streams");
}

#[needs(VM)]
fn rocrands_numbers_are_the_documented_ones_natively_and_while_suspended() {
    assert!(
        host("librocrand.so.1").exists(),
        "the host has no rocRAND (`cargo xtask setup` gets what is needed)"
    );
    says_the_same_while_suspended("numbers", NUMBERS, "kernels, legacy null stream");
}

#[needs(VM)]
fn the_arbiters_programs_notice_reports_and_the_end_of_a_process() {
    let mut arbiter = Arbiter::programs(&Times::default()).unwrap();
    arbiter.heartbeat();
    let peer = host("arbiter-peer");
    let mut application = Peer::application(peer.to_str().expect("the path is UTF-8"));
    let shim = arbiter.search(application.pid()).unwrap().run().unwrap().probe().unwrap();
    let token = arbiter.expect(shim).unwrap();
    application.ask(&format!("report {} 0 {token}", Report::Join as u64));
    let owner = arbiter.joined(token).expect("the BPF program notices the report");
    let claim = arbiter.open(owner, device_key(0, 1, 0, 0), 4).unwrap().claim;
    application.report(Report::Ready, claim);
    assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 4);
    arbiter.set_level(claim, 1).unwrap();
    assert_eq!(arbiter.page().load(Word::ready(0)), 1 << 1);
    application.kill();
    assert_eq!(arbiter.page().load(Word::ready(0)), 0);
    assert!(matches!(arbiter.open(owner, device_key(0, 1, 0, 0), 4), Err(ArbiterError::OwnerGone)));
    arbiter.end();
}

/// This makes it possible for the arbiter to stop a device without waking a process.
#[needs(VM)]
fn the_runtime_registers_gate_pages() {
    let mut programs = Arbiter::programs(&Times::default()).unwrap();
    let mut memory = Arbiter::in_memory(&Times::default()).unwrap();
    let mut command = recording::program("registers");
    let pages = [&mut programs, &mut memory].map(|arbiter| {
        let owner = arbiter.speak_for(std::process::id());
        arbiter.open(owner, device_key(0, 1, 0, 0), 4).unwrap().gate.unwrap()
    });
    for page in &pages {
        // The program inherits the descriptor with this number.
        fcntl_setfd(page, FdFlags::empty()).unwrap();
        command.arg(page.as_raw_fd().to_string());
    }
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    for number in [1, 2] {
        let read = format!("page {number}: 1, then 2\n");
        assert!(outcome.stdout.contains(&read), "{}", outcome.stdout);
    }
    programs.end();
}

#[needs(VM)]
fn the_controllers_programs_give_verdicts_by_call_chain() {
    let folder = std::env::temp_dir().join("origin");
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("log");
    let mut serve = Command::new(host("xsched-ctl"));
    serve.arg("serve").env("XSCHED_SOCKET_DIR", &folder).stderr(fs::File::create(&log).unwrap());
    let _serve = Controller(serve.spawn().unwrap());
    let begin = Instant::now();
    while !folder.join("shim.sock").exists() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut peer = Peer::application(host("origin-peer").to_str().unwrap());
    assert_eq!(
        peer.ask(&format!("join {}", folder.display())),
        "page",
        "{}",
        fs::read_to_string(&log).unwrap()
    );
    for library in ["libtorch_hip.so", "librccl.so.1"] {
        assert_eq!(peer.ask(&format!("load {}", host(library).display())), "loaded");
    }
    for (chain, expected) in [
        ("libtorch_hip.so librccl.so.1 libtorch_hip.so librccl.so.1", "NeverSuspend 0 kept rule 1"),
        ("librccl.so.1 libtorch_hip.so", "Schedule 0 kept rule 0"),
    ] {
        let answer = peer.ask(&format!("ask 0 {chain}"));
        assert!(answer.starts_with(expected), "{chain}: {answer}");
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
