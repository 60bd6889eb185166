//! Recordings that end by themselves, are compressed, or are kept in memory: the file is complete, and names the reason of its end.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{app, xsched_ctl as binary};
use xsched_tests::bpf_objects::BpfObjects;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Running, calls, run, wait_for_bytes, wait_until, xsched_ctl};

const MIB: u64 = 1 << 20;

fn size(trace: &Path) -> u64 {
    fs::metadata(trace).unwrap().len()
}

/// The instants `name` of a trace without faults: reasons and times.
fn instants(trace: &Path, name: &str) -> Vec<(String, i64)> {
    let mut sql = Sql::open(trace).unwrap();
    sql.assert_clean();
    instants_of(&mut sql, name)
}

fn instants_of(sql: &mut Sql, name: &str) -> Vec<(String, i64)> {
    let query = format!(
        "select extract_arg(arg_set_id, 'debug.reason') as reason, ts from slice where name = '{name}' order by ts"
    );
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = sql.query(&query).unwrap();
    rows.iter().map(|row| (text(&row["reason"]), row["ts"].as_i64().unwrap())).collect()
}

/// The clock of timelines.
fn boot_time_ns() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// `xsched-ctl report --json`.
fn report(trace: &Path) -> Value {
    let outcome = run(xsched_ctl(["report", "--json"]).arg(trace));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[needs(ROOT)]
fn a_recording_with_a_duration_ends_and_the_command_continues() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "--duration", "700ms", "-o"]);
    command.arg(&trace).arg("--").arg(app("vector_add")).args(["--seconds", "120", "--interval-us", "200"]);
    let mut tracer = Running::start(&mut command);
    let ready = tracer.wait_for_stdout("ready ");
    tracer.wait_for_stderr("recording ends: 700ms have passed; waiting");
    wait_until("its probes are gone", || BpfObjects::of_process(tracer.pid()).is_empty());
    let end_ns = boot_time_ns();
    // Long enough for more calls, which the recording must not contain.
    std::thread::sleep(Duration::from_millis(300));
    let program = ready.trim_start_matches("ready ").parse().ok().and_then(Pid::from_raw).unwrap();
    kill_process(program, Signal::TERM).unwrap();
    let outcome = tracer.finish();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.trim_end().ends_with("ok"), "{}", outcome.stdout);
    let ends = instants(&trace, "recording ends");
    assert_eq!(ends.len(), 1, "{ends:?}");
    let mut sql = Sql::open(&trace).unwrap();
    let calls = sql.query("select count(*) as n, max(ts) as last from slice where dur > 0").unwrap();
    assert!(calls[0]["n"].as_i64() > Some(0), "{calls:?}");
    assert!(calls[0]["last"].as_i64() < Some(end_ns), "{calls:?} after the end at {end_ns}");
}

#[needs(ROOT)]
fn no_file_exceeds_its_maximal_size() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["run.perfetto", "run.perfetto.gz"] {
        let trace = dir.path().join(name);
        let outcome = run(xsched_ctl(["trace", "--max-size", "1M", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(app("two_libraries"))
            .args(["--launches", "60000"]));
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert!(outcome.stdout.contains("60000 launches"), "{}", outcome.stdout);
        assert!(outcome.stderr.contains("its file has reached `--max-size`"), "{}", outcome.stderr);
        assert!(size(&trace) <= MIB, "{name}: {}", size(&trace));
        let ends = instants(&trace, "recording ends");
        assert_eq!(ends.len(), 1, "{name}: {ends:?}");
        assert_eq!(ends[0].0, "its file has reached `--max-size`");
        assert!(calls(&trace).unwrap().len() > 2000, "{name}");
    }
}

/// The tracer finds all calls at once, and the command ended: it was stopped meanwhile. The first run gets the runtime probed.
#[needs(ROOT)]
fn calls_that_do_not_fit_are_counted_when_the_command_has_ended() {
    const STOPPED: &str =
        r#"set -e; "$0" --launches 1; kill -STOP $PPID; "$0" --launches 20000; kill -CONT $PPID"#;
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut command = xsched_ctl(["trace", "--depth", "0", "--max-size", "1M", "-o"]);
    let outcome = run(command.arg(&trace).args(["--", "sh", "-c", STOPPED]).arg(app("two_libraries")));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("recording ends: its file has reached `--max-size`"),
        "{}",
        outcome.stderr
    );
    let ends = instants(&trace, "recording ends");
    assert_eq!(ends.iter().map(|end| &*end.0).collect::<Vec<_>>(), ["its file has reached `--max-size`"]);
    let left_out = outcome.stderr.lines().find_map(|line| line.strip_prefix("left out: "));
    let (left_out, of_what) =
        left_out.unwrap_or_else(|| panic!("{}", outcome.stderr)).split_once(' ').unwrap();
    assert_eq!(of_what, "calls, those to the driver included, that did not fit into `--max-size`");
    let (left_out, recorded) = (left_out.parse::<usize>().unwrap(), calls(&trace).unwrap().len());
    assert!(recorded > 2000 && recorded + left_out > 20_000, "{recorded}, {left_out}");
    assert_eq!(report(&trace)["counters"]["left_out.max_size"], left_out);
    assert!(size(&trace) <= MIB);
}

#[needs(ROOT)]
fn compressed_files_have_the_same_content() {
    let dir = tempfile::tempdir().unwrap();
    let record = |name: &str, options: &[&str]| {
        let trace = dir.path().join(name);
        let outcome = run(xsched_ctl(["trace", "-o"])
            .arg(&trace)
            .args(options)
            .arg("--")
            .arg(app("two_libraries"))
            .args(["--launches", "3000"]));
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        trace
    };
    let plain = record("f", &[]);
    let gzip = record("f.gz", &[]);
    let zstd = record("f.zst", &[]);
    let asked = record("f2", &["--compress", "gzip"]);
    let made = calls(&plain).unwrap();
    assert_eq!(calls(&gzip).unwrap(), made);
    assert_eq!(calls(&asked).unwrap(), made);
    // The engine of the tests is older than its support of Zstandard.
    let (whole, unpacked) = (report(&plain), report(&zstd));
    assert_eq!((&unpacked["calls"], &unpacked["launches"]), (&whole["calls"], &whole["launches"]));
    for file in [&gzip, &zstd] {
        assert!(size(file) * 3 < size(&plain), "{} of {}", size(file), size(&plain));
    }
}

#[needs(ROOT)]
fn killed_while_it_writes_a_compressed_file() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["run.gz", "run.zst"] {
        let trace = dir.path().join(name);
        let mut app = Running::start(Command::new(app("vector_add")).args(["--seconds", "120"]));
        app.wait_for_stdout("ready ");
        let tracer = Running::start(xsched_ctl(["trace", "--pid", &app.pid().to_string(), "-o"]).arg(&trace));
        wait_for_bytes(&trace, 100_000);
        tracer.signal(Signal::KILL);
        assert_eq!(tracer.finish().code, 137);
        app.signal(Signal::KILL);
        let report = report(&trace);
        assert!(report["calls"].as_u64() > Some(1000), "{report}");
    }
}

/// It is smaller than what is written at once.
#[needs(ROOT)]
fn a_small_disk_that_is_full_keeps_what_fitted() {
    for name in ["f", "f.gz"] {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join(name);
        // In a mount namespace of its own, whose end removes the small file system.
        let script = format!(
            "mount -t tmpfs -o size=128k none {dir} && {} trace -o {dir}/{name} -- {} --launches 60000
             code=$?; cp {dir}/{name} {copy} && exit $code",
            binary().display(),
            app("two_libraries").display(),
            dir = "/mnt",
            copy = copy.display(),
        );
        let outcome = run(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
        assert_eq!(outcome.code, 74, "{}", outcome.stderr);
        let said = format!("writing the trace to /mnt/{name} failed: No space left");
        assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("libdemo_kernels.so"), "the table is there: {}", outcome.stderr);
        assert!(outcome.stdout.contains("60000 launches"), "{}", outcome.stdout);
        assert!(size(&copy) > 100 << 10, "{}", size(&copy));
        assert!(calls(&copy).unwrap().len() > 500);
    }
}

/// Contents of a dump.
#[derive(Debug)]
struct Dump {
    size: u64,
    /// The reason for the dump.
    reason: Option<String>,
    slices: i64,
    first_ns: i64,
    processes: i64,
    /// Number of earlier calls that it does not contain.
    let_go: i64,
    /// Number of launches whose kernels have names.
    named: i64,
}

impl Dump {
    fn read(trace: &Path) -> Self {
        let mut sql = Sql::open(trace).unwrap();
        sql.assert_clean();
        let reason = instants_of(&mut sql, "dumped").pop().map(|(reason, _)| reason);
        let rows = sql
            .query(
                "select count(*) as n, min(ts) as first, count(distinct p.name) as names,
                    sum(extract_arg(s.arg_set_id, 'debug.let_go')) as let_go,
                    sum(extract_arg(s.arg_set_id, 'debug.kernel') glob 'void demo::*') as kernels
                 from slice s left join thread_track k on s.track_id = k.id left join thread t using (utid)
                    left join process p using (upid)",
            )
            .unwrap();
        let number = |name: &str| rows[0][name].as_i64().unwrap_or(0);
        Self {
            size: size(trace),
            reason,
            slices: number("n"),
            first_ns: number("first"),
            processes: number("names"),
            let_go: number("let_go"),
            named: number("kernels"),
        }
    }

    /// Whether it is the last part of a longer recording, has the maximal size, and starts after that time.
    fn is_last_part_after(&self, time_ns: i64) -> bool {
        self.let_go > 1000 && self.size > MIB / 2 && self.first_ns > time_ns
    }

    #[track_caller]
    fn assert_whole(&self, reason: &str) {
        assert_eq!(self.reason.as_deref(), Some(reason), "{self:?}");
        assert!(self.size <= MIB && self.slices > 2000 && self.named > 100, "{self:?}");
        assert_eq!(self.processes, 1, "{self:?}");
    }
}

#[needs(ROOT)]
fn the_last_part_is_dumped_when_asked_for_and_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = (0..).map(|number| match number {
        0 => dir.path().join("f"),
        _ => dir.path().join(format!("f.{number}")),
    });
    // The rate is low enough for the tracer on a slow machine.
    let mut command = Command::new(app("two_libraries"));
    let mut app = Running::start(command.args(["--seconds", "170", "--interval-us", "200"]));
    app.wait_for_stdout("ready ");
    let pid = app.pid().to_string();
    let mut command = xsched_ctl(["trace", "--pid", &pid, "--ring", "1M", "-o"]);
    let mut tracer = Running::start(command.arg(dir.path().join("f")));
    tracer.wait_for_stderr("recording process");
    // The time to record more than is kept depends on the machine, so dumps are requested until one is full.
    let mut before_ns = 0;
    for _ in 0..2 {
        wait_until("calls from before go, and are counted", || {
            tracer.signal(Signal::USR1);
            tracer.wait_for_stderr("dumped ");
            let dump = Dump::read(&files.next().unwrap());
            let is_last_part = dump.is_last_part_after(before_ns);
            if is_last_part {
                dump.assert_whole("SIGUSR1");
                before_ns = dump.first_ns;
            }
            is_last_part
        });
    }
    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    app.signal(Signal::KILL);
    let dump = Dump::read(&files.next().unwrap());
    dump.assert_whole("recording ends");
    assert!(dump.is_last_part_after(before_ns - 1), "{dump:?} and not after {before_ns}");
}

#[needs(ROOT)]
fn a_slow_launch_causes_one_dump() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("f");
    // Every launch is slower than a nanosecond.
    let outcome = run(xsched_ctl(["trace", "--ring", "2M", "--dump-on-slower", "1ns", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(app("vector_add"))
        .args(["--launches", "1000"]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("more slow launches came within 10 s"), "{}", outcome.stderr);
    let dumps = instants(&trace, "dumped");
    assert_eq!(dumps.len(), 1, "{dumps:?}");
    assert!(dumps[0].0.starts_with("hipLaunchKernel of "), "{dumps:?}");
    let both = instants(&dir.path().join("f.1"), "dumped");
    assert_eq!((both.len(), both[1].0.as_str()), (2, "recording ends"));
    assert!(!dir.path().join("f.2").exists());
}

#[needs(ROOT)]
fn a_request_for_a_dump_does_not_affect_a_recording_to_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    let mut app =
        Running::start(Command::new(app("vector_add")).args(["--seconds", "60", "--interval-us", "500"]));
    app.wait_for_stdout("ready ");
    let mut tracer = Running::start(xsched_ctl(["trace", "--pid", &app.pid().to_string(), "-o"]).arg(&trace));
    tracer.wait_for_stderr("recording process");
    tracer.signal(Signal::USR1);
    tracer.wait_for_stderr("there is nothing to dump: `--ring SIZE` keeps a recording");
    wait_for_bytes(&trace, 1);
    let outcome = tracer.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(calls(&trace).unwrap().len() > 50);
    app.signal(Signal::KILL);
}

#[needs(nothing)]
fn options_that_contradict_each_other() {
    for (options, message) in [
        (&["-o", "x.gz", "--compress", "zstd"][..], "`--compress` contradicts the ending .gz"),
        (&["--ring", "1M", "-o", "-"], "`--ring` writes files: name one with `-o FILE`"),
        (&["--dump-on-slower", "5ms"], "--ring"),
        (&["--ring", "1M", "--max-size", "1M"], "cannot be used with"),
        (&["--ring", "64M", "--dump-on-slower", "5ms", "--api", "copy"], "`--dump-on-slower` needs launches"),
        (&["--ring", "3"], "expected at least 1M"),
    ] {
        let outcome = run(xsched_ctl(["trace"]).args(options).args(["--", "true"]));
        assert_eq!(outcome.code, 64, "{options:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{options:?}: {}", outcome.stderr);
    }
    let outcome = run(&mut xsched_ctl(["attach", "--pid", "1", "--ring", "1M"]));
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("`--ring` needs `-o FILE`"), "{}", outcome.stderr);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
