//! Losses are counted: calls made are calls recorded plus calls lost.

use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use aya::maps::{HashMap, Map, MapData};
use serde_json::Value;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::hip_sim;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{run, xsched_ctl};

/// Calls HIP once, and then many times; with `stops`, these while the tracer is stopped.
const BESIDE_A_TRACER: &str = "
import ctypes, os, signal, sys
hip = ctypes.CDLL(sys.argv[1])
hip.hipStreamQuery(None)
if sys.argv[2] == 'stops': os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(20000): hip.hipStreamQuery(None)
os.kill(os.getppid(), signal.SIGCONT)
";

/// The calls in progress of a process that ends are found by their keys, while other processes call.
#[needs(ROOT)]
fn keys_of_a_map_are_all_found_while_others_come_and_go() {
    const THERE: u64 = 1000;
    const COMING: u64 = 2000;
    let fd = xsched_bpf::sys::create_lru_map(8, 8, 1 << 16).unwrap();
    let open = || -> HashMap<MapData, u64, u64> {
        let data = MapData::from_fd(fd.as_fd().try_clone_to_owned().unwrap()).unwrap();
        Map::LruHashMap(data).try_into().unwrap()
    };
    let mut map = open();
    (0..THERE).for_each(|key| map.insert(key, 0, 0).unwrap());
    let is_over = AtomicBool::new(false);
    let rounds: Vec<Vec<u64>> = std::thread::scope(|scope| {
        for thread in 1..=3 {
            let (mut map, is_over) = (open(), &is_over);
            scope.spawn(move || {
                for key in (thread * COMING..(thread + 1) * COMING).cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    map.insert(key, 0, 0).unwrap();
                    map.remove(&key).unwrap();
                }
            });
        }
        let rounds = (0..100).map(|_| xsched_bpf::keys(&map)).collect();
        is_over.store(true, Ordering::Relaxed);
        rounds
    });
    for (round, keys) in rounds.iter().enumerate() {
        let there = keys.iter().filter(|key| **key < THERE).count();
        assert_eq!(there as u64, THERE, "round {round}");
    }
    assert!(rounds.iter().any(|keys| keys.len() as u64 > THERE), "others were there");
}

#[needs(ROOT)]
fn every_call_lost_from_a_small_ring_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let record = |ring_size: &str, stops: &str| {
        let mut command = xsched_ctl(["trace", "--ring-size", ring_size, "-o"]);
        command.arg(&trace).args(["--", "python3", "-c", BESIDE_A_TRACER]);
        command.arg(hip_sim(6).join("libamdhip64.so.6")).arg(stops).env("HIP_SIM_NULL", "1");
        let outcome = run(&mut command);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome
    };
    let number = |sql: &mut Sql, query: &str| sql.query(query).unwrap()[0]["n"].as_i64().unwrap_or(0);
    let calls = |sql: &mut Sql| number(sql, "select count(*) as n from slice where category glob 'hip.*'");

    // A ring that is large enough gives the number of calls.
    let outcome = record("64M", "");
    assert!(!outcome.stderr.contains("calls lost"), "{}", outcome.stderr);
    let mut sql = Sql::open(&trace).unwrap();
    let made = calls(&mut sql);
    assert_eq!(number(&mut sql, "select count(*) as n from slice where name = 'hipStreamQuery'"), 20_001);

    let outcome = record("64K", "stops");
    let mut sql = Sql::open(&trace).unwrap();
    let lost = number(
        &mut sql,
        "select cast(max(value) as int) as n from counter c join track t on c.track_id = t.id
         where t.name = 'lost events'",
    );
    assert!(lost > 0, "nothing was lost, so this test shows nothing: {}", outcome.stderr);
    assert_eq!(calls(&mut sql) + lost, made);
    assert!(outcome.stderr.contains(&format!("incomplete: {lost} calls lost")), "{}", outcome.stderr);
    let line = outcome.stderr.lines().find(|line| line.contains("calls lost")).unwrap();
    assert!(line.contains(" (CPU "), "{line}");
    // The counts by cause and processor have the same sum.
    let report = run(xsched_ctl(["report", "--json"]).arg(&trace));
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["lost"], lost);
    let on_processors: i64 = report["losses_by_cpu"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| part["cause"].as_str().unwrap().starts_with("calls lost"))
        .map(|part| part["count"].as_i64().unwrap())
        .sum();
    assert_eq!(on_processors, lost, "{report}");
}

/// Stops the tracer, makes more calls than it reads at once, some with stacks that are new to it, and ends; then the tracer
/// continues.
const BESIDE_A_STOPPED_TRACER: &str = "
import ctypes, os, signal, subprocess, sys
hip = ctypes.CDLL(sys.argv[1])
call = lambda: hip.hipStreamQuery(None)
call()
os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(20000): call()
sorted([2, 1], key=lambda number: call())
discard = subprocess.DEVNULL
subprocess.Popen(['sh', '-c', 'sleep 1; kill -CONT %d' % os.getppid()], stdout=discard, stderr=discard)
";

#[needs(ROOT)]
fn records_that_are_pending_when_the_command_ends_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(&trace).args(["--", "python3", "-c", BESIDE_A_STOPPED_TRACER]);
    // Without tables, records contain copies of stacks.
    let cache = dir.path().join("tables");
    let outcome = run(command.arg(hip_sim(6).join("libamdhip64.so.6")).env("XSCHED_CTL_CACHE", cache));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut sql = Sql::open(&trace).unwrap();
    let calls = sql.query("select count(*) as n from slice where name = 'hipStreamQuery'").unwrap();
    assert_eq!(calls[0]["n"], 20_003, "{}", outcome.stderr);
}

/// Stops the tracer, calls HIP with six hundred stacks that are new to it, and lets it continue.
const WITH_MANY_STACKS: &str = "
import ctypes, os, signal, sys
sys.setrecursionlimit(10000)
hip = ctypes.CDLL(sys.argv[1])
call = lambda: hip.hipStreamQuery(None)
call()
def down(depth):
    call()
    if depth: list(map(down, [depth - 1]))
os.kill(os.getppid(), signal.SIGSTOP)
down(599)
os.kill(os.getppid(), signal.SIGCONT)
";

/// The tracer is late by some milliseconds, too, where all processors are busy.
#[needs(ROOT)]
fn unread_stacks_of_a_late_tracer_fit_into_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(&trace).args(["--", "python3", "-c", WITH_MANY_STACKS]);
    command.arg(hip_sim(6).join("libamdhip64.so.6")).env("HIP_SIM_NULL", "1");
    // Without tables, records contain copies of stacks.
    let outcome = run(command.env("XSCHED_CTL_CACHE", dir.path().join("tables")));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut sql = Sql::open(&trace).unwrap();
    let calls = sql.query("select count(*) as n from slice where name = 'hipStreamQuery'").unwrap();
    assert_eq!(calls[0]["n"], 601, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("without a chain"), "{}", outcome.stderr);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
