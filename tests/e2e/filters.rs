//! Filters: all calls that pass are recorded, and the others are counted.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::app;
use xsched_tests::sql::Sql;
use xsched_tests::tracer::{Outcome, Running, TracedCall, calls, run, xsched_ctl};

/// Records `two_libraries` with further options.
fn record(trace: &Path, launches: &str, options: &[&str]) -> Outcome {
    let mut command = xsched_ctl(["trace", "-o"]);
    command.arg(trace).args(options).arg("--").arg(app("two_libraries")).args(["--launches", launches]);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("calls lost"), "{}", outcome.stderr);
    outcome
}

/// The last value of a counter of the whole trace.
fn counter(trace: &Path, name: &str) -> usize {
    let query = format!(
        "select cast(max(value) as int) as n from counter c join track t on c.track_id = t.id where t.name = '{name}'"
    );
    let rows = Sql::open(trace).unwrap().query(&query).unwrap();
    rows[0]["n"].as_u64().unwrap_or(0) as usize
}

fn launches(calls: &[TracedCall]) -> usize {
    calls.iter().filter(|call| call.category == "hip.launch").count()
}

#[needs(ROOT)]
fn functions_by_category_and_glob() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    record(&trace, "300", &["--api", "launch,hipMemcpy*,!hipModuleLaunch*"]);
    let calls = calls(&trace).unwrap();
    assert_eq!(launches(&calls), 200);
    assert!(calls.iter().any(|call| call.name == "hipMemcpyAsync"));
    let is_wanted = |call: &TracedCall| call.name == "hipLaunchKernel" || call.name.starts_with("hipMemcpy");
    assert!(calls.iter().all(is_wanted), "{calls:#?}");
    // The filter excludes the functions that name kernels; the names are known all the same.
    assert!(
        calls.iter().any(|call| call.kernel.as_deref().is_some_and(|name| name.starts_with("void demo::")))
    );
    record(&trace, "300", &["--api", "hipModuleLaunchKernel"]);
    let calls = xsched_tests::tracer::calls(&trace).unwrap();
    assert!(calls.iter().all(|call| call.kernel.as_deref() == Some("module_step")), "{calls:#?}");
    assert_eq!(calls.len(), 100);
}

#[needs(ROOT)]
fn libraries_and_kernels_by_glob() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    record(&trace, "300", &[]);
    let all = calls(&trace).unwrap().len();

    let outcome = record(&trace, "300", &["--library", "libdemo_*", "--library", "!libdemo_blas*"]);
    let kept = calls(&trace).unwrap();
    assert!(kept.iter().all(|call| call.library.as_deref() == Some("libdemo_kernels.so")), "{kept:#?}");
    assert_eq!(launches(&kept), 100);
    let left_out = counter(&trace, "left_out.library");
    assert_eq!(kept.len() + left_out, all);
    assert!(outcome.stderr.contains(&format!("left out: {left_out} calls of other")), "{}", outcome.stderr);

    record(&trace, "300", &["--kernel", "demo::*", "--kernel", "!*scale_add*"]);
    let kept = calls(&trace).unwrap();
    assert_eq!((launches(&kept), counter(&trace, "left_out.kernel") + kept.len()), (50, all));
}

#[needs(ROOT)]
fn launches_that_are_left_out_do_not_count_as_nameless() {
    let dir = tempfile::tempdir().unwrap();
    // The program looks its kernels up before the recording starts.
    let mut command = Command::new(app("two_libraries"));
    let mut app = Running::start(command.args(["--seconds", "120", "--interval-us", "200"]));
    app.wait_for_stdout("ready ");
    let pid = app.pid().to_string();
    let nameless = |options: &[&str]| {
        let mut trace = xsched_ctl(["trace", "--pid", &pid, "--duration", "300ms", "-o"]);
        let outcome = run(trace.arg(dir.path().join("run.perfetto")).args(options));
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stderr.contains("launches show addresses for kernels")
    };
    assert!(nameless(&[]));
    assert!(!nameless(&["--library", "libno_such.so"]));
    app.signal(Signal::KILL);
}

#[needs(ROOT)]
fn short_calls_are_left_out_in_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    record(&trace, "3000", &[]);
    let all = calls(&trace).unwrap().len();
    record(&trace, "3000", &["--min-duration", "100us"]);
    let kept = calls(&trace).unwrap();
    let left_out = counter(&trace, "left_out.min_duration");
    assert_eq!(kept.len() + left_out, all);
    assert!(left_out > all / 2, "most calls return sooner, however busy the machine: {left_out} of {all}");
    let shorter = Sql::open(&trace)
        .unwrap()
        .query("select name from slice where category glob 'hip.*' and dur < 100000")
        .unwrap();
    assert!(shorter.is_empty(), "{shorter:?}");
}

#[needs(ROOT)]
fn launches_are_drawn_at_random_and_the_others_counted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("run.perfetto");
    record(&trace, "3000", &["--sample", "10"]);
    let kept = calls(&trace).unwrap();
    assert_eq!(launches(&kept) + counter(&trace, "left_out.sample"), 3000);
    // 300 are expected; 150 are nine standard deviations away.
    assert!((150..450).contains(&launches(&kept)), "{}", launches(&kept));
    // The program alternates between three kernels; each of them is drawn.
    for kernel in ["module_step", "direct_step(", "void demo::kernels::mix<"] {
        let is_drawn =
            |call: &TracedCall| call.kernel.as_deref().is_some_and(|name| name.starts_with(kernel));
        assert!(kept.iter().any(is_drawn), "{kernel}");
    }
    // All other calls are recorded.
    assert!(kept.iter().any(|call| call.name == "hipMemsetAsync"));
}

#[needs(nothing)]
fn mistakes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.toml");
    std::fs::write(&rules, "[origin]\ntransparant = []\n").unwrap();
    let rules = rules.to_str().unwrap();
    for (options, code, message) in [
        (&["--api", "lanch"][..], 64, "did you mean `launch`?"),
        (&["--api", "cuda*"], 64, "no traced function matches `cuda*`"),
        (&["--api", "launch,!launch"], 64, "asked for and excluded at once"),
        (&["--api", "copy", "--sample", "4"], 64, "`--sample` needs launches, which `--api` excludes"),
        (&["--kernel", "a", "--kernel", "!a"], 64, "`--kernel`: `a` is asked for and excluded at once"),
        (&["--sample", "0"], 64, "--sample"),
        (&["--min-duration", "5"], 64, "time unit needed"),
        (&["--rules", "/no/such/file"], 66, "cannot read /no/such/file"),
        (&["--rules", rules], 65, "line 2: there is no key `transparant`; did you mean `transparent`?"),
    ] {
        let outcome = run(xsched_ctl(["trace"]).args(options).args(["--", "true"]));
        assert_eq!(outcome.code, code, "{options:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{options:?}: {}", outcome.stderr);
    }
}

#[needs(ROOT)]
fn rules_give_the_origin_of_a_launch() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, rules) = (dir.path().join("run.perfetto"), dir.path().join("rules.toml"));
    let origins = |trace: &Path| {
        let rows = Sql::open(trace)
            .unwrap()
            .query(
                "select extract_arg(arg_set_id, 'debug.origin') as origin, count(*) as n from slice
                 where category = 'hip.launch' group by 1 order by 1",
            )
            .unwrap();
        let pair = |row: &serde_json::Value| {
            (row["origin"].as_str().unwrap().to_owned(), row["n"].as_i64().unwrap())
        };
        rows.iter().map(pair).collect::<Vec<_>>()
    };
    record(&trace, "300", &[]);
    assert_eq!(origins(&trace), [("libdemo_kernels.so".to_owned(), 100), ("two_libraries".to_owned(), 200)]);
    // libdemo_blas.so calls libdemo_kernels.so, which launches.
    std::fs::write(&rules, "[origin]\nalso_transparent = [\"libdemo_kernels*\"]\n").unwrap();
    record(&trace, "300", &["--rules", rules.to_str().unwrap()]);
    assert_eq!(origins(&trace), [("libdemo_blas.so".to_owned(), 100), ("two_libraries".to_owned(), 200)]);
    // Filters use the origin too.
    record(
        &trace,
        "300",
        &["--rules", rules.to_str().unwrap(), "--library", "libdemo_blas.so", "--api", "launch"],
    );
    assert_eq!(origins(&trace), [("libdemo_blas.so".to_owned(), 100)]);
}

fn main() -> ExitCode {
    xsched_harness::main()
}
