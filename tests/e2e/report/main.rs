//! `xsched-ctl report`: its numbers are those of the timeline, and it refuses other files. In `field.rs`: the reports of
//! `xsched-ctl field`.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod field;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::app;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, run, xsched_ctl};

fn record(trace: &Path) {
    let outcome = run(xsched_ctl(["trace", "-o"]).arg(trace).arg("--").arg(app("two_libraries")).args([
        "--launches",
        "3000",
        "--threads",
        "2",
    ]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

fn report(file: &Path, options: &[&str]) -> Outcome {
    run(xsched_ctl(["report"]).args(options).arg(file))
}

#[derive(Debug, Deserialize)]
struct Call {
    name: String,
    category: String,
    dur: u64,
    tid: u32,
    origin: Option<String>,
    kernel: Option<String>,
    stream: Option<String>,
}

fn traced(trace: &Path) -> Vec<Call> {
    Sql::open(trace)
        .unwrap()
        .query_as(
            "select s.name, category, dur, tid,
                extract_arg(arg_set_id, 'debug.origin') as origin,
                extract_arg(arg_set_id, 'debug.kernel') as kernel,
                extract_arg(arg_set_id, 'debug.stream') as stream
             from slice s join thread_track k on s.track_id = k.id join thread using (utid)
             where category glob 'hip.*'",
        )
        .unwrap()
}

/// Checks each row of one table against the calls that belong to it.
fn assert_rows(report: &Value, what: &str, calls: &[Call], name_of: impl Fn(&Call) -> Option<String>) {
    let rows = report["by"][what].as_array().unwrap();
    let mut counted = 0;
    for row in rows {
        let name = row["name"].as_str().unwrap();
        let mut durations: Vec<u64> =
            calls.iter().filter(|call| name_of(call).as_deref() == Some(name)).map(|call| call.dur).collect();
        durations.sort_unstable();
        counted += durations.len();
        assert_eq!(row["calls"], durations.len(), "{what} {name}");
        assert_eq!(row["total_ns"], durations.iter().sum::<u64>(), "{what} {name}");
        assert_eq!(row["max_ns"], *durations.last().unwrap(), "{what} {name}");
        for (field, percent) in [("p50_ns", 50), ("p99_ns", 99)] {
            let exact = durations[(durations.len() * percent).div_ceil(100) - 1] as f64;
            let shown = row[field].as_u64().unwrap() as f64;
            assert!((shown - exact).abs() <= exact * 0.002, "{what} {name} {field}: {shown}, not {exact}");
        }
    }
    assert_eq!(counted, calls.iter().filter(|call| name_of(call).is_some()).count(), "{what}");
}

#[needs(ROOT)]
fn its_numbers_are_those_of_the_timeline() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    record(&trace);
    let calls = traced(&trace);
    let outcome = report(&trace, &["--json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((json["calls"].as_u64(), json["launches"].as_u64()), (Some(calls.len() as u64), Some(3000)));
    assert_eq!((&json["is_whole"], &json["lost"]), (&Value::from(true), &Value::from(0)));
    assert_rows(&json, "api", &calls, |call| Some(call.name.clone()));
    assert_rows(&json, "library", &calls, |call| call.origin.clone());
    assert_rows(&json, "kernel", &calls, |call| {
        call.kernel.clone().filter(|_| call.category == "hip.launch")
    });
    let process = json["by"]["process"][0]["name"].as_str().unwrap();
    assert!(process.starts_with("two_libraries ("), "{process}");
    assert_rows(&json, "process", &calls, |_| Some(process.to_owned()));
    assert_rows(&json, "stream", &calls, |call| Some(format!("{} of {process}", call.stream.as_ref()?)));
    assert_rows(&json, "thread", &calls, |call| Some(format!("two_libraries ({}) of {process}", call.tid)));

    // The tables contain the same values in a shorter form.
    let text = report(&trace, &["--by", "kernel,thread", "--top", "2"]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    let tables: Vec<_> = text.stdout.split("\n\n").collect();
    assert_eq!(tables.len(), 3, "{}", text.stdout);
    assert!(tables[0].contains("3000 launches, 1 process"), "{}", text.stdout);
    assert!(
        tables[1].starts_with("kernel ") && tables[1].trim_end().ends_with("and 2 more"),
        "{}",
        text.stdout
    );
    assert!(tables[2].starts_with("thread "), "{}", text.stdout);
}

#[needs(ROOT)]
fn kernels_are_folded_in_tables_and_in_a_timeline_on_request() {
    const FULL: &str =
        "void demo::kernels::mix<unsigned int, 3>(unsigned int*, unsigned int const*, unsigned int)";
    const FOLDED: &str = "demo::kernels::mix<…>";
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    for (options, in_timeline) in [(&[][..], FULL), (&["--fold-templates"], FOLDED)] {
        // Patterns always match full names.
        let outcome = run(xsched_ctl(["trace", "--kernel", "*mix<unsigned*", "-o"])
            .arg(&trace)
            .args(options)
            .arg("--")
            .arg(app("two_libraries"))
            .args(["--launches", "30"]));
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(&format!("\n{FOLDED} ")), "{}", outcome.stderr);
        let kernels: HashSet<_> = traced(&trace).into_iter().filter_map(|call| call.kernel).collect();
        assert_eq!(kernels, HashSet::from([in_timeline.to_owned()]));
        for (options, shown) in [(&[][..], FOLDED), (&["--full-names"], in_timeline)] {
            let text = report(&trace, &[&["--by", "kernel"], options].concat());
            assert!(text.stdout.contains(&format!("\n{shown} ")), "{options:?}: {}", text.stdout);
        }
    }
}

#[needs(ROOT)]
fn truncated_and_damaged_files_are_reported_up_to_the_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, broken) = (dir.path().join("f"), dir.path().join("broken"));
    record(&trace);
    let bytes = fs::read(&trace).unwrap();
    // At the end of a packet, nothing shows that more packets followed.
    let cuts = [0, 1].map(|fewer| {
        fs::write(&broken, &bytes[..bytes.len() / 2 - fewer]).unwrap();
        report(&broken, &["--json"])
    });
    let cut = cuts.iter().find(|cut| !cut.stderr.is_empty()).unwrap_or(&cuts[0]);
    assert!(
        cut.code == 0 && cut.stderr.contains("was cut off: the report covers its first"),
        "{}",
        cut.stderr
    );
    let json: Value = serde_json::from_str(&cut.stdout).unwrap();
    assert_eq!(json["is_whole"], false);
    assert!((100..2900).contains(&json["launches"].as_u64().unwrap()), "{json}");

    fs::write(&broken, [&bytes[..], b"garbage", &bytes].concat()).unwrap();
    let damaged = report(&broken, &["--by", "api"]);
    assert_eq!(damaged.code, 65, "{}", damaged.stderr);
    assert!(damaged.stdout.contains("3000 launches"), "{}", damaged.stdout);
    assert!(damaged.stderr.contains(&format!("a packet at byte {}", bytes.len())), "{}", damaged.stderr);
}

#[needs(nothing)]
fn files_of_other_programs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f");
    // The last file is a packet that has only a time.
    for (bytes, message) in [
        (&b""[..], "is empty"),
        (b"hello\n", "is no Perfetto trace"),
        (
            b"\x1f\x8bnot gzip after all, and long enough",
            "is no Perfetto trace: failed to read the trace at byte 0",
        ),
        (b"\x0a\x02\x40\x01", "is a Perfetto trace without calls"),
    ] {
        fs::write(&file, bytes).unwrap();
        let outcome = report(&file, &[]);
        assert_eq!(outcome.code, 65, "{message}");
        assert_eq!(outcome.stdout, "");
        assert!(
            outcome.stderr.starts_with("xsched-ctl: ") && outcome.stderr.contains("\nhint: "),
            "{}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains(message), "{message}: {}", outcome.stderr);
    }
    let piped = run(xsched_ctl(["report", "-"]).stdin(Stdio::null()));
    assert!(piped.code == 65 && piped.stderr.contains("standard input is empty"), "{}", piped.stderr);
    let missing = report(Path::new("/no/such/file"), &[]);
    assert_eq!(missing.code, 66, "{}", missing.stderr);
    assert_eq!(report(&file, &["--by", "colour"]).code, 64);
}

#[needs(ROOT)]
fn a_recording_without_calls_has_no_tables() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("f");
    let outcome = run(xsched_ctl(["trace", "-o"]).arg(&trace).args(["--", "true"]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = report(&trace, &[]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(text.stdout.contains(": 0 calls, 0 launches"), "{}", text.stdout);
    assert!(text.stdout.contains("no call is in it"), "{}", text.stdout);
    assert!(!text.stdout.contains("p50"), "{}", text.stdout);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
