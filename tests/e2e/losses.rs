//! What is lost is counted: launches made are launches recorded plus launches lost.

use std::process::Command;

use serde_json::Value;
use xsched_tests::artifacts::{app, hip_sim};
use xsched_tests::privileged::may_trace;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{run, xsched_ctl};

const LAUNCHES: i64 = 60_000;

#[test]
fn a_ring_that_is_too_small_loses_nothing_uncounted() {
    if !may_trace("a_ring_that_is_too_small_loses_nothing_uncounted") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let launches = LAUNCHES.to_string();
    // At the lowest priority and on the program's own processors the tracer cannot keep up.
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(xsched_tests::artifacts::xsched_ctl());
    command.args(["trace", "--ring-size", "64K", "-o"]).arg(&trace);
    command.args(["--", "nice", "-n", "-19"]).arg(app("two_libraries")).args([
        "--launches",
        &launches,
        "--threads",
        "4",
    ]);
    let outcome = run(command.env("HIP_SIM_NULL", "1"));

    let mut sql = Sql::open(&trace).unwrap();
    let number = |sql: &mut Sql, query: &str| sql.query(query).unwrap()[0]["n"].as_i64().unwrap_or(0);
    let calls = number(&mut sql, "select count(*) as n from slice where category glob 'hip.*'");
    let lost = number(
        &mut sql,
        "select cast(max(value) as int) as n from counter c join track t on c.track_id = t.id
         where t.name = 'lost events'",
    );
    assert!(lost > 0, "nothing was lost, so this test shows nothing: {}", outcome.stderr);
    assert!(outcome.stderr.contains(&format!("incomplete: {lost} calls lost")), "{}", outcome.stderr);
    // By cause and processor they add up to the same.
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
    let line = outcome.stderr.lines().find(|line| line.contains("calls lost")).unwrap();
    assert!(line.contains(" (CPU "), "{line}");
    // The same program again, with a ring that holds everything, says how many calls it makes.
    let whole = dir.path().join("whole.perfetto");
    let outcome = run(xsched_ctl(["trace", "--ring-size", "256M", "-o"])
        .arg(&whole)
        .arg("--")
        .arg(app("two_libraries"))
        .args(["--launches", &launches, "--threads", "4"])
        .env("HIP_SIM_NULL", "1"));
    assert!(!outcome.stderr.contains("calls lost"), "{}", outcome.stderr);
    let mut sql = Sql::open(&whole).unwrap();
    let made = number(&mut sql, "select count(*) as n from slice where category glob 'hip.*'");
    assert_eq!(number(&mut sql, "select count(*) as n from slice where category = 'hip.launch'"), LAUNCHES);
    assert_eq!(calls + lost, made);
}

/// Stops the tracer, makes more calls than it reads at once, some with stacks that it has not seen, and ends; then the tracer
/// is let go on.
const BESIDE_A_STOPPED_TRACER: &str = "
import ctypes, os, signal, subprocess, sys
hip = ctypes.CDLL(sys.argv[1])
call = lambda: hip.hipStreamQuery(None)
call()
os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(20000): call()
sorted([2, 1], key=lambda number: call())
nobody = subprocess.DEVNULL
subprocess.Popen(['sh', '-c', 'sleep 1; kill -CONT %d' % os.getppid()], stdout=nobody, stderr=nobody)
";

#[test]
fn what_has_piled_up_when_the_command_ends_is_recorded() {
    if !may_trace("what_has_piled_up_when_the_command_ends_is_recorded") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(&trace).args(["--", "python3", "-c", BESIDE_A_STOPPED_TRACER]);
    // Without tables, stacks are sent as copies.
    let cache = dir.path().join("tables");
    let outcome = run(command.arg(hip_sim(6).join("libamdhip64.so.6")).env("XSCHED_CTL_CACHE", cache));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut sql = Sql::open(&trace).unwrap();
    let calls = sql.query("select count(*) as n from slice where name = 'hipStreamQuery'").unwrap();
    assert_eq!(calls[0]["n"], 20_003, "{}", outcome.stderr);
}
