//! Launches that a process with the shim records itself: the timeline has the same calls as with probes alone.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, shim};
use xsched_tests::serving::Serving;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, Running, run, xsched_ctl};

const FOLDER: &str = "XSCHED_SOCKET_DIR";

/// Rounds of each of the program's three threads.
const ROUNDS: usize = 800;

/// Which arguments of calls are read, as a condition of SQL. There are many, so not all tests read them. Times differ from run to run.
const ARGUMENTS: &str = "a.key not glob '*_ns'";
const NO_ARGUMENTS: &str = "false";

/// Arguments of a call that its process's events say.
const SCHEDULING: [&str; 2] = ["debug.verdict", "debug.rule"];

/// Launches of a round.
const LAUNCHES: usize = 5;

/// One argument of a call.
#[derive(Debug, Deserialize)]
struct Argument {
    id: u64,
    ts: u64,
    dur: i64,
    thread: String,
    name: String,
    category: String,
    depth: u32,
    key: Option<String>,
    value: Option<String>,
}

/// A call without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    name: String,
    category: String,
    depth: u32,
    arguments: BTreeMap<String, String>,
}

impl Call {
    /// Without what only one of two recordings has of its scheduling: events may come late or be lost in either.
    fn like(&self, other: &Self) -> Self {
        let mut call = self.clone();
        call.arguments.retain(|key, _| !SCHEDULING.contains(&&**key) || other.arguments.contains_key(key));
        call
    }
}

/// What a recording has.
struct Recording {
    /// By thread, in the order of time.
    threads: BTreeMap<String, Vec<Call>>,
    durations_ns: Vec<i64>,
    /// Launches that processes have recorded themselves.
    own: usize,
    outcome: Outcome,
}

impl Recording {
    /// The threads' names, without their processes, and calls: processes are not in the same order in each recording.
    fn by_length(&self) -> Vec<(&str, &[Call])> {
        let name = |thread: &'_ String| thread.split_once(" of ").map_or(0, |(name, _)| name.len());
        let mut all: Vec<_> =
            self.threads.iter().map(|(thread, calls)| (&thread[..name(thread)], calls.as_slice())).collect();
        all.sort_by_key(|(name, calls)| (*name, calls.len()));
        all
    }

    fn launches(&self) -> usize {
        let calls = self.threads.values().flatten();
        calls.filter(|call| call.category == "hip.launch").count()
    }
}

/// A command that records the program under this controller, with these options of `trace`.
fn command(serving: &Serving, trace: &Path, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(trace).args(options).arg("--").arg(xsched_tests::artifacts::xsched_ctl());
    command
        .args(["run", "--require-controller", "--shim"])
        .arg(shim())
        .arg("--")
        .arg(app("own_calls"))
        .args(arguments);
    // Long enough for the tracer to learn the program's walks.
    command.env("OWN_CALLS_PAUSE_US", "2000");
    command.env(FOLDER, serving.folder()).env("HIP_SIM_NULL", "1").env("XSCHED_CTL_LOG", "info");
    command
}

fn record(serving: &Serving, options: &[&str], program: &[&str], arguments: &str) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.perfetto");
    let outcome = run(&mut command(serving, &trace, options, program));
    assert_eq!(outcome.code, 0, "{}{}", outcome.stderr, serving.log());
    read(&trace, outcome, arguments)
}

fn read(trace: &Path, outcome: Outcome, arguments: &str) -> Recording {
    let mut sql = Sql::open(trace).unwrap();
    sql.assert_clean();
    let rows: Vec<Argument> = sql
        .query_as(&format!(
            "with processes as (select upid, dense_rank() over (order by upid) - 1 as number from thread where upid is not null group by upid)
             select s.id, s.ts, s.dur, coalesce(t.name, '-') || ' of ' || coalesce(p.number, 0) as thread, s.name, s.category, s.depth,
                a.key, a.display_value as value
             from slice s join thread_track k on s.track_id = k.id join thread t using (utid) left join processes p using (upid)
             left join args a on {arguments} and a.arg_set_id = s.arg_set_id
             where s.category glob 'hip.*' order by s.ts, s.id",
        ))
        .unwrap();
    let own = own_calls(&outcome);
    let mut recording = Recording { threads: BTreeMap::new(), durations_ns: Vec::new(), own, outcome };
    // By thread: handles and addresses, which differ from run to run, by the order in which they come.
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut last_id, mut last_ts) = (None, BTreeMap::new());
    for row in rows {
        let Argument { id, ts, dur, thread, name, category, depth, key, value } = row;
        let calls = recording.threads.entry(thread.clone()).or_default();
        if last_id.replace(id) != Some(id) {
            let begun = format!("{name} {id} of {category} at {ts} for {dur}, depth {depth}");
            if let Some((before, earlier)) = last_ts.insert(thread.clone(), (ts, begun.clone())) {
                assert!(
                    before < ts,
                    "{thread} is in order: {earlier}, then {begun}\n{}",
                    recording.outcome.stderr
                );
            }
            recording.durations_ns.push(dur);
            calls.push(Call { name, category, depth, arguments: BTreeMap::new() });
        }
        if let (Some(key), Some(value)) = (key, value) {
            let known = names.entry(thread).or_default();
            calls.last_mut().unwrap().arguments.insert(key, without_addresses(&value, known));
        }
    }
    recording
}

/// Launches that processes have recorded themselves.
fn own_calls(outcome: &Outcome) -> usize {
    let count = |line: &str| line.split_once("processes have recorded ")?.1.split(' ').next()?.parse().ok();
    outcome.stderr.lines().find_map(count).unwrap_or(0)
}

/// A text with the number of each address in place of it.
fn without_addresses(text: &str, known: &mut Vec<String>) -> String {
    if !text.starts_with("0x") {
        return text.to_owned();
    }
    let index = known.iter().position(|one| one == text).unwrap_or_else(|| {
        known.push(text.to_owned());
        known.len() - 1
    });
    format!("address {index}")
}

#[track_caller]
fn check_complete(recording: &Recording) {
    let said = &recording.outcome.stderr;
    assert!(!said.contains("calls lost"), "{said}");
}

#[track_caller]
fn check_same(probed: &Recording, own: &Recording) {
    assert_eq!(probed.own, 0, "{}", probed.outcome.stderr);
    let (probed, others) = (probed.by_length(), own.by_length());
    assert_eq!(probed.len(), others.len());
    for ((thread, calls), (other_thread, others)) in probed.into_iter().zip(others) {
        assert_eq!((thread, calls.len()), (other_thread, others.len()));
        for (index, (call, other)) in calls.iter().zip(others).enumerate() {
            assert_eq!(call.like(other), other.like(call), "call {index} of {thread}");
        }
    }
    assert!(own.durations_ns.iter().all(|&duration_ns| (0..1_000_000_000).contains(&duration_ns)));
}

#[needs(ROOT)]
fn calls_that_a_process_records_itself_are_those_of_the_probes() {
    let serving = Serving::start("").unwrap();
    let rounds = ROUNDS.to_string();
    let probed = record(&serving, &["--probe-all"], &[&rounds], ARGUMENTS);
    let own = record(&serving, &[], &[&rounds], ARGUMENTS);
    check_complete(&probed);
    check_complete(&own);
    // Each thread's graph has three more.
    assert_eq!(probed.launches(), 3 * (ROUNDS * LAUNCHES + 3));
    check_same(&probed, &own);
    // The first ones come before the process has joined and its walks are known.
    assert!(own.own * 10 > own.launches(), "{} of {}: {}", own.own, own.launches(), own.outcome.stderr);
}

#[needs(ROOT)]
fn a_forked_child_and_an_executed_program_record_their_own_calls() {
    let serving = Serving::start("").unwrap();
    for (then, launches) in [("fork", 3 * 3 * (300 * LAUNCHES + 3)), ("exec", 2 * 3 * (300 * LAUNCHES + 3))] {
        let probed = record(&serving, &["--probe-all"], &["300", then], NO_ARGUMENTS);
        let own = record(&serving, &[], &["300", then], NO_ARGUMENTS);
        check_complete(&probed);
        check_complete(&own);
        // The child makes some more, which may be refused.
        assert!(probed.launches() >= launches, "{then}: {}", probed.launches());
        let counts = |recording: &Recording| -> Vec<(String, usize)> {
            let threads = recording.by_length().into_iter();
            threads.map(|(thread, calls)| (thread.to_owned(), calls.len())).collect()
        };
        assert_eq!(counts(&probed), counts(&own), "{then}");
        assert!(own.own > 0, "{then}: {}", own.outcome.stderr);
    }
}

/// The process's own memory is filled to a half, the probes' ring after that.
#[needs(ROOT)]
fn every_call_that_is_lost_while_the_tracer_is_stopped_is_counted() {
    let serving = Serving::start("").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.perfetto");
    let outcome = run(&mut command(&serving, &trace, &["--ring-size", "1M"], &["300", "stop"]));
    let (count, own) = (number(&mut Sql::open(&trace).unwrap(), LAUNCH_COUNT) as usize, own_calls(&outcome));
    let lost: usize = outcome.stderr.lines().filter_map(lost_calls).sum();
    assert!(lost > 0, "nothing was lost, so this test shows nothing: {}", outcome.stderr);
    // Some of the lost calls are no launches.
    let made = 3 * (300 * LAUNCHES + 3) + 43_000;
    assert!((made..=made + 8).contains(&(count + lost)), "{count} and {lost}: {}", outcome.stderr);
    assert!(own > 10_000, "{}", outcome.stderr);
}

const LAUNCH_COUNT: &str = "select count(*) as n from slice where category = 'hip.launch'";

/// The count in the message `incomplete: N calls lost: …`.
fn lost_calls(line: &str) -> Option<usize> {
    line.strip_prefix("incomplete: ")?.split_once(" calls lost")?.0.parse().ok()
}

/// The first tracer leaves all calls to the probes as soon as it learns of the other.
#[needs(ROOT)]
fn a_second_tracer_sees_the_calls_that_the_first_one_sees() {
    let serving = Serving::start("").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one.perfetto"), folder.path().join("other.perfetto"));
    let mut first = Running::start(&mut command(&serving, &one, &[], &["4000"]));
    first.wait_for_stderr("writes scheduling events");
    thread::sleep(Duration::from_millis(200));
    let mut second = xsched_ctl(["trace", "--all", "-o"]);
    let mut second = Running::start(second.arg(&other).env(FOLDER, serving.folder()));
    second.wait_for_stderr("recording every process");
    first.wait_for_stderr("another recorder");
    let told = clock_gettime(ClockId::Boottime);
    let from_ns = told.tv_sec * 1_000_000_000 + told.tv_nsec;
    let outcome = first.finish();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    drop(second.interrupt());
    let since = format!("{LAUNCH_COUNT} and ts > {from_ns}");
    let [seen, seen_by_other] = [&one, &other].map(|trace| number(&mut Sql::open(trace).unwrap(), &since));
    assert!(seen > 1000, "the second came too late");
    // Probes take the time one after the other: calls at the very time may be on different sides.
    assert!(seen.abs_diff(seen_by_other) <= 3, "{seen} {seen_by_other}");
}

fn number(sql: &mut Sql, query: &str) -> u64 {
    sql.query(query).unwrap()[0]["n"].as_u64().unwrap_or(0)
}

fn main() -> ExitCode {
    xsched_harness::main()
}
