//! Programs that call CUDA, on a simulated `libcuda`: the tracer sees them as it sees those that call HIP.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, cuda_shim, cuda_sim};
use xsched_tests::serving::Serving;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, Running, TracedCall, calls, run, wait_until, xsched_ctl};

const ROUNDS: usize = 50;

/// Records `cuda_calls --rounds 50` without losses.
fn trace(trace: &Path) -> Outcome {
    let outcome = run(xsched_ctl(["trace", "-o"])
        .arg(trace)
        .arg("--")
        .arg(app("cuda_calls"))
        .args(["--rounds", &ROUNDS.to_string()]));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ok\n"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
    outcome
}

/// Launches by function, library, kernel, grid and block.
fn launches(calls: &[TracedCall]) -> BTreeMap<[&str; 5], usize> {
    let mut counts = BTreeMap::new();
    for call in calls.iter().filter(|call| call.category == "cuda.launch") {
        let [library, kernel, grid, block] =
            [&call.library, &call.kernel, &call.grid, &call.block].map(|text| text.as_deref().unwrap_or("-"));
        *counts.entry([&call.name, library, kernel, grid, block]).or_insert(0) += 1;
    }
    counts
}

#[needs(ROOT)]
fn every_launch_has_its_library_kernel_grid_and_block() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.perfetto");
    let outcome = trace(&file);
    let calls = calls(&file).unwrap();
    let scale = "scale(unsigned int*, unsigned int)";
    // Two kernels were captured into the graph.
    let expected = BTreeMap::from([
        (["cuGraphLaunch", "cuda_calls", "-", "-", "-"], ROUNDS),
        (["cuLaunchKernel", "cuda_calls", "add", "4x2x1", "64x1x1"], ROUNDS + 1),
        (["cuLaunchKernel", "libgpu_kernels.so", scale, "4x1x1", "64x1x1"], ROUNDS + 1),
        (["cuLaunchKernelEx", "cuda_calls", "mix", "1x1x1", "256x1x1"], ROUNDS),
    ]);
    assert_eq!(launches(&calls), expected);
    assert!(calls.iter().all(|call| call.returned == Some(0)), "{calls:#?}");
    let totals = format!("{} CUDA calls, {} launches", calls.len(), 4 * ROUNDS + 2);
    assert!(outcome.stderr.contains(&totals), "{totals}: {}", outcome.stderr);

    let report = run(xsched_ctl(["report", "--by", "library,kernel"]).arg(&file));
    assert!(report.stdout.contains(&totals), "{}", report.stdout);
    assert!(
        report.stdout.contains("libgpu_kernels.so") && report.stdout.contains("add"),
        "{}",
        report.stdout
    );
}

#[needs(ROOT)]
fn copies_fills_chains_and_graphs_are_described() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.perfetto");
    trace(&file);
    let mut sql = Sql::open(&file).unwrap();
    sql.assert_clean();
    let mut count = |condition: &str| {
        let query = format!("select count(*) as n from slice where {condition}");
        sql.query(&query).unwrap()[0]["n"].as_u64().unwrap() as usize
    };
    let arg = |name: &str, value: &str| format!(" and extract_arg(arg_set_id, 'debug.{name}') = {value}");
    let bytes = arg("bytes", "1024");
    assert_eq!(count(&format!("name = 'cuMemcpyHtoD_v2' and category = 'cuda.copy'{bytes}")), 1);
    assert_eq!(count(&format!("name = 'cuMemcpyDtoHAsync_v2'{bytes}")), ROUNDS);
    assert_eq!(count(&format!("name = 'cuMemsetD8Async'{}", arg("count", "1024"))), ROUNDS + 1);
    assert_eq!(count("name = 'cuStreamSynchronize' and category = 'cuda.synchronize'"), ROUNDS);
    assert_eq!(count(&format!("name = 'cuModuleGetFunction'{}", arg("kernel", "'mix'"))), 1);
    // A fill and two kernels.
    let nodes = arg("nodes", "3") + &arg("kernels", "2");
    assert_eq!(count(&format!("name = 'cuGraphLaunch'{nodes}")), ROUNDS);
    let chain = arg("chain", "'libgpu_kernels.so < libgpu_blas.so < cuda_calls < libc.so.6 < cuda_calls'");
    assert_eq!(count(&format!("name = 'cuLaunchKernel'{chain}")), ROUNDS + 1);
}

/// Random suspensions, in an order that the seed gives.
fn suspended(command: &mut Command, program: &Path, log: &Path) {
    let text = |name: &str, value: &Path| format!("{name}={}", value.display());
    command.args(["--", "env", "XSCHED_TEST_SUSPEND=random:3:5000"]);
    command.args([text("LD_PRELOAD", &cuda_shim()), text("XSCHED_LOG", log)]).arg(program);
}

/// How many calls were deferred.
fn deferred(log: &Path) -> usize {
    let log = fs::read_to_string(log).unwrap_or_default();
    let line = log.lines().find_map(|line| line.strip_suffix(" calls that were deferred"));
    line.map_or(0, |count| count.trim().parse().expect("the tracer counts"))
}

/// The calls that the shim adds are not the program's, and each deferred one is shown once, where the program made it.
#[needs(ROOT)]
fn deferred_calls_are_shown_as_the_program_made_them() {
    const ROUNDS: &str = "300";
    let dir = tempfile::tempdir().unwrap();
    let (native, file, log) =
        (dir.path().join("native.perfetto"), dir.path().join("run.perfetto"), dir.path().join("log"));
    let rounds = ["--rounds", ROUNDS];
    let alone = run(xsched_ctl(["trace", "-o"]).arg(&native).arg("--").arg(app("cuda_calls")).args(rounds));
    assert_eq!(alone.code, 0, "{}", alone.stderr);
    let mut command = xsched_ctl(["trace", "-o"]);
    suspended(command.arg(&file), &app("cuda_calls"), &log);
    let outcome = run(command.args(rounds));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ok\n"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
    assert!(deferred(&log) > 100, "{}", fs::read_to_string(&log).unwrap());

    let (alone, seen) = (calls(&native).unwrap(), calls(&file).unwrap());
    assert_eq!(launches(&seen), launches(&alone));
    // Other calls, too, with their libraries, bytes and results.
    assert_eq!(seen, alone);
    let mut sql = Sql::open(&file).unwrap();
    let chain = "libgpu_kernels.so < libgpu_blas.so < cuda_calls < libc.so.6 < cuda_calls";
    let chains = sql
        .query(&format!(
            "select count(*) as n from slice where name = 'cuLaunchKernel'
             and extract_arg(arg_set_id, 'debug.chain') = '{chain}'"
        ))
        .unwrap();
    assert_eq!(chains[0]["n"].as_u64(), Some(301), "each by its whole chain");
}

/// Calls by thread and function; how often a thread asks whether a stream is done depends on the device.
fn by_thread(trace: &Path) -> Vec<Vec<(String, usize)>> {
    let mut sql = Sql::open(trace).expect("the recording loads");
    let counts: Vec<Count> = sql
        .query_as(
            "select utid, slice.name as name, count(*) as calls
             from slice join thread_track on slice.track_id = thread_track.id
             where category glob 'cuda.*' and slice.name != 'cuStreamQuery'
             group by utid, slice.name order by utid, slice.name",
        )
        .expect("the query is right");
    let mut threads = BTreeMap::<u64, Vec<_>>::new();
    for Count { utid, name, calls } in counts {
        threads.entry(utid).or_default().push((name, calls));
    }
    let mut threads: Vec<_> = threads.into_values().collect();
    threads.sort();
    threads
}

#[derive(Debug, serde::Deserialize)]
struct Count {
    utid: u64,
    name: String,
    calls: usize,
}

/// Launches in all ways, graphs, fills and copies on streams of two threads.
#[needs(ROOT)]
fn deferred_calls_are_shown_on_the_threads_that_made_them() {
    let dir = tempfile::tempdir().unwrap();
    let (native, file, log) =
        (dir.path().join("native.perfetto"), dir.path().join("run.perfetto"), dir.path().join("log"));
    let program = cuda_sim().join("cuda_deferred");
    let random = ["random", "3", "3000"];
    let alone =
        run(with_twins(&mut xsched_ctl(["trace", "-o"])).arg(&native).arg("--").arg(&program).args(random));
    assert_eq!(alone.code, 0, "{}", alone.stderr);
    let mut command = xsched_ctl(["trace", "-o"]);
    suspended(with_twins(&mut command).arg(&file), &program, &log);
    let outcome = run(command.args(random));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "ready\nwrong 0\n"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("incomplete"), "{}", outcome.stderr);
    assert!(deferred(&log) > 300, "{}", fs::read_to_string(&log).unwrap());
    let (alone, seen) = (by_thread(&native), by_thread(&file));
    assert_eq!(alone.len(), 3);
    assert_eq!(seen, alone);
}

/// With the functions that the simulator runs as kernels.
fn with_twins(command: &mut Command) -> &mut Command {
    command.env("HIP_SIM_TWINS", cuda_sim().join("libcuda_twins.so"))
}

/// Handles from before the recording have no name until the process asks for it.
#[needs(ROOT)]
fn kernels_of_a_running_process_get_their_names_when_it_asks_for_them() {
    let mut program = Running::start(Command::new(app("cuda_calls")).arg("--ask"));
    program.wait_for_stdout("ready ");
    let mut tracer =
        Running::start(&mut xsched_ctl(["attach", "--pid", &program.pid().to_string(), "--interval", "0.5"]));
    let attached = tracer.wait_for_stderr("attached to process");
    assert!(attached.ends_with("libcuda.so.1"), "{attached}");
    let unnamed = tracer.wait_for_stdout("0x");
    assert!(unnamed.trim_start().starts_with("0x"), "{unnamed}");
    program.signal(Signal::USR1);
    tracer.wait_for_stdout("mix ");
    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for name in ["libgpu_kernels.so", "cuda_calls", "add ", " CUDA calls, "] {
        assert!(outcome.stdout.contains(name), "{name}: {}", outcome.stdout);
    }
    assert!(outcome.stderr.contains("launches show addresses for kernels"), "{}", outcome.stderr);
    program.signal(Signal::TERM);
    let stdout = program.finish().stdout;
    assert!(stdout.ends_with("ok\n"), "{stdout}");
}

/// The shim asks for them when a recording begins, of a process that asks for none itself.
#[needs(ROOT)]
fn kernels_of_a_running_process_with_the_shim_get_their_names_by_it() {
    let controller = Serving::start("").expect("a controller starts");
    let folder = ("XSCHED_SOCKET_DIR", controller.folder());
    let mut command = Command::new(app("cuda_calls"));
    let mut program =
        Running::start(command.arg("--ask").env("LD_PRELOAD", cuda_shim()).env(folder.0, folder.1));
    program.wait_for_stdout("ready ");
    wait_until("the process has joined", || {
        let doctor = run(xsched_ctl(["doctor", "--pid", &program.pid().to_string()]).env(folder.0, folder.1));
        doctor.stdout.contains("controller   joined")
    });
    let pid = program.pid().to_string();
    let mut attach = xsched_ctl(["attach", "--pid", &pid, "--interval", "0.5"]);
    let mut tracer = Running::start(attach.env(folder.0, folder.1));
    for name in ["mix ", "add ", "scale "] {
        tracer.wait_for_stdout(name);
    }
    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    program.signal(Signal::TERM);
    let stdout = program.finish().stdout;
    assert!(stdout.ends_with("ok\n"), "{stdout}");
}

#[needs(ROOT)]
fn doctor_lists_the_processes_that_use_cuda() {
    let mut program = Running::start(Command::new(app("cuda_calls")).arg("--ask"));
    program.wait_for_stdout("ready ");
    let outcome = run(&mut xsched_ctl(["doctor"]));
    let line = outcome.stdout.lines().find(|line| line.starts_with("CUDA ")).unwrap();
    assert!(line.contains(&format!("{} ", program.pid())) && line.contains("libcuda.so.1"), "{line}");
}

fn main() -> ExitCode {
    xsched_harness::main()
}
