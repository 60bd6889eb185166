//! Call chains: the tracer's equal those of the compiler's own unwinder inside the program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by its panic")]

use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::Signal;
use serde::Deserialize;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, hip_sim, module, python};
use xsched_tests::call_stacks::call_stacks;
use xsched_tests::needs::HIP_PYTHON;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, Running, run, xsched_ctl};
use xsched_tests::witness::{chains_of, common, traced_chains, witnessed_chains};

#[derive(Deserialize)]
struct Row {
    chain: String,
    calls: u64,
}

/// The calls of one library with one chain.
#[derive(Debug, Deserialize, PartialEq)]
struct Caller {
    library: String,
    chain: String,
    calls: u64,
}

/// Runs `deep_chain` under the tracer, with its table cache beside the trace.
fn trace_deep_chain(trace: &Path, arguments: &[&str]) -> Outcome {
    let mut command = xsched_ctl(["trace", "--ring-size", "64M", "--chain-frames", "address", "-o"]);
    command.arg(trace).arg("--").arg(app("deep_chain")).args(arguments);
    run(command.env("XSCHED_CTL_CACHE", trace.with_extension("tables")).env("HIP_SIM_NULL", "1"))
}

/// The same with the tables of a first run: on a busy machine, building them takes longer than calls wait.
fn trace_deep_chain_again(trace: &Path, first: &[&str], arguments: &[&str]) -> Outcome {
    assert_eq!(trace_deep_chain(trace, first).code, 0);
    trace_deep_chain(trace, arguments)
}

#[needs(ROOT)]
fn every_frame_of_seven_libraries_is_where_the_compilers_unwinder_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let outcome = trace_deep_chain_again(&trace, &["12"], &["2400"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (traced, incomplete) = traced_chains(&trace).unwrap();
    let witnessed = witnessed_chains(&outcome.stdout);
    assert!(witnessed.len() >= 6, "signals and depths make several chains: {witnessed:x?}");
    assert_eq!((incomplete, traced), (0, witnessed), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn of_a_hundred_thousand_calls_at_most_one_in_a_thousand_lacks_its_chain_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let outcome = trace_deep_chain_again(&trace, &["12"], &["100000"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (traced, incomplete) = traced_chains(&trace).unwrap();
    let witnessed = witnessed_chains(&outcome.stdout);
    let same = common(&traced, &witnessed);
    assert!(same >= 99_900, "{same} chains are the same\n{}", outcome.stderr);
    // No chain is wrong, and every incomplete chain is counted.
    assert!(traced.keys().all(|chain| witnessed.contains_key(chain)), "{traced:x?}\n{witnessed:x?}");
    let counted: u64 = outcome.stderr.lines().filter_map(incomplete_calls).sum();
    assert_eq!(counted, 100_000 - same, "{incomplete} chains are not whole\n{}", outcome.stderr);
}

/// Launches of hip-python: its calls come out of an interpreter without frame pointers, through generated C.
const PYTHON_LAUNCHES: u64 = 100_000;

/// Maximal number of recordings.
const ATTEMPTS: usize = 10;

#[needs(ROOT, HIP_PYTHON)]
fn of_a_hundred_thousand_launches_of_hip_python_at_most_one_in_a_thousand_lacks_its_chain() {
    let (python, module) = (python(), module());
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let launches = |count: u64| {
        let mut command = xsched_ctl(["trace", "--ring-size", "64M", "--chain-frames", "address", "-o"]);
        command.arg(&trace).args(["--", "env"]);
        command.arg(format!("LD_PRELOAD={}", app("libdeep_launches.so").display())).arg(&python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/clients/hip_python/launches.py"));
        command.arg(&module).arg(count.to_string());
        command.env("LD_LIBRARY_PATH", hip_sim(6)).env("HIP_SIM_NULL", "1");
        run(command.env("XSCHED_CTL_CACHE", dir.path().join("tables")))
    };
    // The first run builds the tables, which on a busy machine takes longer than calls wait.
    assert_eq!(launches(9).code, 0);
    // On a busy machine, too many calls may come before the tables are read.
    for attempt in 1.. {
        let outcome = launches(PYTHON_LAUNCHES);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let (traced, incomplete) = chains_of(&trace, "hipModuleLaunchKernel").unwrap();
        let witnessed = witnessed_chains(&outcome.stdout);
        assert_eq!(witnessed.values().sum::<u64>(), PYTHON_LAUNCHES);
        assert!(witnessed.len() >= 7, "most ways differ in their frames: {witnessed:x?}");
        let same = common(&traced, &witnessed);
        println!("{same} of {PYTHON_LAUNCHES} chains are the same, {} different ones", witnessed.len());
        assert!(traced.keys().all(|chain| witnessed.contains_key(chain)), "{traced:x?}\n{witnessed:x?}");
        // The count may include other calls than launches.
        let counted: u64 = outcome.stderr.lines().filter_map(incomplete_calls).sum();
        assert!(counted >= PYTHON_LAUNCHES - same, "{incomplete} chains are not whole\n{}", outcome.stderr);
        if same >= PYTHON_LAUNCHES - PYTHON_LAUNCHES / 1000 {
            break;
        }
        assert!(attempt < ATTEMPTS, "{same} chains are the same\n{}", outcome.stderr);
    }
}

/// The count in a final message about missing calls, or incomplete chains.
fn incomplete_calls(line: &str) -> Option<u64> {
    let (count, what) = line.strip_prefix("incomplete: ")?.split_once(' ')?;
    let is_of_calls = ["chains end", "calls lost", "calls recorded with their"];
    is_of_calls.iter().any(|words| what.starts_with(words)).then(|| count.parse().ok())?
}

#[needs(ROOT)]
fn libraries_loaded_alternately_at_one_address_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let [small, large] = ["libdeep_plugin_small.so", "libdeep_plugin_large.so"];
    let arguments = ["400", app(small).to_str().unwrap(), app(large).to_str().unwrap()].map(str::to_owned);
    let arguments = arguments.each_ref().map(String::as_str);
    let outcome = trace_deep_chain_again(&trace, &["2", arguments[1], arguments[2]], &arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (traced, incomplete) = traced_chains(&trace).unwrap();
    assert_eq!((incomplete, traced), (0, witnessed_chains(&outcome.stdout)), "{}", outcome.stderr);
    let mut sql = Sql::open(&trace).unwrap();
    let libraries: Vec<Caller> = sql
        .query_as(
            "select extract_arg(arg_set_id, 'debug.library') as library,
                extract_arg(arg_set_id, 'debug.chain') as chain, count(*) as calls
             from slice where name = 'hipStreamSynchronize' group by 1, 2 order by 1",
        )
        .unwrap();
    let expected = [large, small].map(|library| Caller {
        library: library.to_owned(),
        chain: format!("{library} < deep_chain < libc.so.6 < deep_chain"),
        calls: 200,
    });
    assert_eq!(libraries, expected);
}

#[needs(ROOT)]
fn chains_of_a_process_that_ends_while_its_tables_are_built_are_complete() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    // It ends before the first table can be ready.
    let outcome = trace_deep_chain(&trace, &["12"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (traced, incomplete) = traced_chains(&trace).unwrap();
    assert_eq!((incomplete, traced), (0, witnessed_chains(&outcome.stdout)), "{}", outcome.stderr);
}

/// Runs `large_frames` under the tracer without tables of earlier runs, so its stacks are copied at first.
fn trace_large_frames(arguments: [&str; 3]) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "--chain-frames", "address", "-o"]);
    command.arg(&trace).arg("--").arg(app("large_frames")).args(arguments);
    let outcome = run(command.env("XSCHED_CTL_CACHE", "off").env("HIP_SIM_NULL", "1"));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (traced, incomplete) = traced_chains(&trace).unwrap();
    assert_eq!((incomplete, traced), (0, witnessed_chains(&outcome.stdout)), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn chains_through_a_frame_of_64_kib_are_whole_while_tables_are_built() {
    trace_large_frames(["12", "64", "used"]);
    trace_large_frames(["12", "64", "unused"]);
}

#[needs(ROOT)]
fn chains_through_a_frame_of_200_kib_are_whole_while_tables_are_built() {
    trace_large_frames(["12", "200", "used"]);
}

/// Copies of the whole stacks would take more space than the ring buffer has, and than copies may that wait for tables.
#[needs(ROOT)]
fn two_thousand_deep_stacks_that_differ_are_all_walked_when_their_tables_are_built() {
    trace_large_frames(["2000", "64", "used"]);
}

#[needs(ROOT)]
fn a_depth_limit_cuts_chains_and_counts_none_as_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "--depth", "3", "-o"]);
    command.arg(&trace).arg("--").arg(app("deep_chain")).arg("100");
    let outcome = run(command.env("HIP_SIM_NULL", "1"));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let expected = ["deep_7", "deep_6", "compare", "…"].map(str::to_owned).to_vec();
    assert_eq!(call_stacks(&trace, "hipStreamSynchronize").unwrap(), [(expected, 100)].into());
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

/// Calls HIP from Python, through `ctypes`, from functions that call each other in several ways.
const PYTHON: &str = "
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
def leaf(): hip.hipStreamSynchronize(None)
def deep(n): leaf() if n == 0 else deep(n - 1)
def mapped(): list(map(lambda _: leaf(), [0]))
def sorting(): sorted([0], key=lambda _: leaf() or 0)
ways = [leaf, lambda: deep(5), mapped, sorting, lambda: deep(12)]
for call in range(int(sys.argv[2])): ways[call % len(ways)]()
";

#[needs(ROOT)]
fn chains_through_python_reach_its_main_function() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, script) = (dir.path().join("run.perfetto"), dir.path().join("calls.py"));
    std::fs::write(&script, PYTHON).unwrap();
    let record = || {
        let mut command = xsched_ctl(["trace", "-o"]);
        command.arg(&trace).args(["--", "python3"]).arg(&script);
        command.arg(hip_sim(6).join("libamdhip64.so.6")).arg("20000");
        command.env("HIP_SIM_NULL", "1").env("XSCHED_CTL_CACHE", dir.path().join("tables"));
        let outcome = run(&mut command);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome
    };
    // On a slow machine, building the tables takes longer than calls wait; each run finds the tables of earlier runs.
    let mut outcome = record();
    for _ in 0..9 {
        if !outcome.stderr.contains("in a file whose unwind table was not ready") {
            break;
        }
        outcome = record();
    }
    let mut sql = Sql::open(&trace).unwrap();
    let rows: Vec<Row> = sql
        .query_as(
            "select extract_arg(arg_set_id, 'debug.chain') as chain, count(*) as calls
             from slice where name = 'hipStreamSynchronize' group by 1",
        )
        .unwrap();
    let whole: u64 = rows
        .iter()
        .filter(|row| row.chain.contains("_ctypes") && !row.chain.ends_with('…'))
        .map(|row| row.calls)
        .sum();
    let all: u64 = rows.iter().map(|row| row.calls).sum();
    assert!(all == 20_000 && whole >= 19_980, "{whole} of {all}\n{}", outcome.stderr);
}

/// The chains of `generated_code`'s calls.
#[derive(Debug, Deserialize, PartialEq)]
struct Generated {
    libraries: String,
    #[serde(skip)]
    functions: String,
    /// Whether frames were found behind generated code.
    passes: Option<i64>,
    calls: u64,
}

/// A busy process launches from more places than can be copied while tables are missing. So it is probed when they are there.
#[needs(ROOT)]
fn a_process_that_is_attached_to_is_probed_once_its_tables_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = generated_code("frame-pointer", &[]);
    let mut tracer = xsched_ctl(["trace", "--pid", &program.pid().to_string(), "-o"]);
    tracer.arg(dir.path().join("run.perfetto")).env("XSCHED_CTL_CACHE", "off");
    let mut tracer = Running::start(tracer.env("XSCHED_CTL_LOG", "debug"));
    tracer.wait_for_stderr("recording process");
    program.signal(Signal::USR1);
    program.wait_for_stdout("done");
    let outcome = tracer.interrupt();
    program.signal(Signal::TERM);
    assert_eq!(program.finish().code, 0);
    let lines: Vec<_> = outcome.stderr.lines().collect();
    let place = |said: &str| lines.iter().position(|line| line.contains(said));
    let probed = place("probed").expect("the runtime is probed");
    let tables = |lines: &[&str]| lines.iter().filter(|line| line.contains("unwind table")).count();
    assert!(place("prepared chains").is_some_and(|prepared| prepared < probed), "{}", outcome.stderr);
    // The C library, the loader, the program, the runtime and what these need.
    assert!(tables(&lines[..probed]) > 5, "{}", outcome.stderr);
    assert_eq!(tables(&lines[probed..]), 0, "{}", outcome.stderr);
}

/// The program, which makes its calls once it gets `SIGUSR1`.
fn generated_code(kind: &str, options: &[&str]) -> Running {
    let mut command = Command::new(app("generated_code"));
    let mut program = Running::start(command.args([kind, "100"]).args(options).env("HIP_SIM_NULL", "1"));
    program.wait_for_stdout("ready");
    program
}

/// Traces `generated_code`, which runs until all calls are recorded; returns its chains and the tracer's output.
fn trace_generated_code(kind: &str, options: &[&str]) -> (Vec<Generated>, Outcome) {
    trace_and_log(kind, options, "warn")
}

/// The same, with what xsched-ctl is to log.
fn trace_and_log(kind: &str, options: &[&str], log: &str) -> (Vec<Generated>, Outcome) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let record = || {
        let mut program = generated_code(kind, options);
        let mut tracer = xsched_ctl(["trace", "--pid", &program.pid().to_string(), "-o"]);
        tracer.arg(&trace).env("XSCHED_CTL_CACHE", dir.path().join("tables")).env("XSCHED_CTL_LOG", log);
        let mut tracer = Running::start(&mut tracer);
        tracer.wait_for_stderr("recording process");
        program.signal(Signal::USR1);
        program.wait_for_stdout("done");
        let outcome = tracer.interrupt();
        program.signal(Signal::TERM);
        assert_eq!(program.finish().code, 0);
        outcome
    };
    // The first run builds the tables, which on a busy machine takes longer than calls wait.
    record();
    let outcome = record();
    let mut sql = Sql::open(&trace).unwrap();
    let mut chains: Vec<Generated> = sql
        .query_as(
            "select extract_arg(arg_set_id, 'debug.chain') as libraries,
                extract_arg(arg_set_id, 'debug.chain_through_generated_code') as passes,
                count(*) as calls
             from slice where name = 'hipStreamSynchronize' group by 1, 2",
        )
        .unwrap();
    let stacks = call_stacks(&trace, "hipStreamSynchronize").unwrap();
    assert_eq!(stacks.len(), chains.len(), "{stacks:?} {chains:?}");
    for (chain, functions) in chains.iter_mut().zip(stacks.into_keys()) {
        chain.functions = functions.join(" < ");
    }
    (chains, outcome)
}

/// The chains of `generated_code`'s calls reach the outermost frame; `inner` names the innermost frames.
fn continue_behind_generated_code(kind: &str, options: &[&str], inner: &str) {
    let (chains, outcome) = trace_generated_code(kind, options);
    let [chain] = &chains[..] else { panic!("{chains:?}\n{}", outcome.stderr) };
    let own = if inner.starts_with("leaf") { "generated_code < " } else { "" };
    assert_eq!(
        chain.libraries,
        format!("{own}[generated] < generated_code < libc.so.6 < generated_code"),
        "{}",
        outcome.stderr
    );
    assert!(chain.functions.starts_with(&format!("{inner} < through < main < ")), "{chain:?}");
    assert!(chain.functions.ends_with(" < _start"), "{chain:?}");
    assert_eq!((chain.passes, chain.calls), (Some(1), 100), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn chains_continue_behind_generated_code_with_a_frame_pointer() {
    continue_behind_generated_code("frame-pointer", &[], "leaf < [[generated]]");
}

#[needs(ROOT)]
fn generated_code_has_the_names_of_its_perf_map() {
    continue_behind_generated_code("frame-pointer", &["named"], "leaf < step of:generated code");
}

#[needs(ROOT)]
fn generated_code_may_be_the_immediate_caller() {
    continue_behind_generated_code("direct", &["named"], "step of:generated code");
}

#[needs(ROOT)]
fn chains_continue_behind_generated_code_with_an_epilogue_nearby() {
    continue_behind_generated_code("epilogue", &[], "leaf < [[generated]]");
}

#[needs(ROOT)]
fn chains_continue_behind_generated_code_in_a_memory_file() {
    continue_behind_generated_code("frame-pointer", &["memfd"], "leaf < [[generated]]");
}

#[needs(ROOT)]
fn generated_code_in_a_memory_file_has_the_names_of_its_perf_map() {
    continue_behind_generated_code("direct", &["named", "memfd"], "step of:generated code");
}

#[needs(ROOT)]
fn chains_continue_behind_large_frames_of_generated_code() {
    continue_behind_generated_code("large-frame", &[], "leaf < [[generated]]");
}

#[needs(ROOT)]
fn chains_continue_behind_generated_code_without_a_frame_pointer() {
    continue_behind_generated_code("no-frame-pointer-epilogue", &[], "leaf < [[generated]]");
}

#[needs(ROOT)]
fn a_chain_ends_at_generated_code_that_keeps_its_callers_frame_pointer() {
    let (chains, outcome) = trace_and_log("no-frame-pointer", &["named"], "warn,bpf=debug");
    let ended = Generated {
        libraries: "generated_code < [generated] < …".to_owned(),
        functions: "leaf < step of:generated code < …".to_owned(),
        passes: None,
        calls: 100,
    };
    assert_eq!(chains, [ended], "{}", outcome.stderr);
    assert!(outcome.stderr.contains("100 chains end in generated code"), "{}", outcome.stderr);
    // The programs say so, too, if they are asked.
    let says_so =
        |line: &str| line.contains("DEBUG bpf: process ") && line.ends_with(": chains end in generated code");
    assert!(outcome.stderr.lines().any(says_so), "{}", outcome.stderr);
}

#[needs(ROOT)]
fn a_process_with_a_hundred_libraries_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    // A hundred libraries with other names, before the program's own.
    let copies: Vec<String> = (0..100)
        .map(|number| {
            let copy = dir.path().join(format!("libcopy_{number}.so"));
            std::fs::copy(app("libdeep_observe.so"), &copy).unwrap();
            copy.display().to_string()
        })
        .collect();
    let mut program = Running::start(
        Command::new(app("vector_add"))
            .args(["--seconds", "30", "--interval-us", "1000"])
            .env("LD_PRELOAD", copies.join(":")),
    );
    program.wait_for_stdout("ready");
    let pid = program.pid().to_string();
    let mut watcher = Running::start(
        xsched_ctl(["attach", "--pid", &pid, "--interval", "0.1"]).env("XSCHED_CTL_CACHE", "off"),
    );
    watcher.wait_for_stdout("vector_add");
    let outcome = watcher.interrupt();
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
