//! The simulated runtime passes its dispatch tables to a tool as ROCm does: which tool gets them, when, and which calls it sees.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use xsched_tests::artifacts::{app, app_command, hip_sim};

/// Variables that name a tool.
const LIBRARY: &str = "ROCPROFILER_REGISTER_LIBRARY";
const ENABLED: &str = "ROCPROFILER_REGISTER_ENABLED";
const FORCE_LOAD: &str = "ROCPROFILER_REGISTER_FORCE_LOAD";

const TEXT: &str = "programs print text";

/// The report of the tool of `tests/apps/table`.
#[derive(Debug, Default)]
struct Report {
    /// `NAME VERSION INSTANCE SIZE`, in the order of arrival.
    tables: Vec<String>,
    /// `NAME VERSION COUNT SIZE` of tables that a registration library was given.
    registered: Vec<String>,
    /// Calls by table, instance and function.
    calls: BTreeMap<(String, u64, &'static str), u64>,
}

impl Report {
    /// Calls of a function of the runtime table.
    fn calls(&self, instance: u64, function: &'static str) -> u64 {
        self.calls.get(&("hip".to_owned(), instance, function)).copied().unwrap_or(0)
    }
}

/// Name of the function in a table's entry.
fn function(table: &str, index: &str) -> &'static str {
    let column = if table == "hip" { "runtime" } else { "compiler" };
    let lines = include_str!("../data/hip-api.tsv").lines();
    lines
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .find(|columns| columns[0] == column && columns[1] == index)
        .unwrap_or_else(|| panic!("no entry {index} in {table}"))[2]
}

fn read(report: &Path) -> Report {
    let mut read = Report::default();
    for line in fs::read_to_string(report).unwrap_or_default().lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["register", ..] => read.registered.push(line["register ".len()..].to_owned()),
            ["table", ..] => read.tables.push(line["table ".len()..].to_owned()),
            ["calls", table, instance, index, count] => {
                let number = |text: &str| text.parse().expect("the tool writes numbers");
                let key = (table.to_owned(), number(instance), function(table, index));
                read.calls.insert(key, number(count));
            }
            _ => panic!("not a line of the tool: {line}"),
        }
    }
    read
}

struct Run {
    folder: TempDir,
    command: Command,
}

impl Run {
    fn new(program: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let mut command = app_command(program, arguments);
        command.env("TABLE_TOOL_REPORT", folder.path().join("report"));
        for variable in [LIBRARY, ENABLED, FORCE_LOAD, "ROCP_TOOL_LIBRARIES", "LD_PRELOAD"] {
            command.env_remove(variable);
        }
        Self { folder, command }
    }

    fn with(mut self, variable: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    /// The program's last line, the tool's report, and stderr.
    #[track_caller]
    fn finish(mut self) -> (String, Report, String) {
        let output = self.command.output().expect("it was built");
        let error = String::from_utf8(output.stderr).expect(TEXT);
        assert!(output.status.success(), "{} {error}", output.status);
        let text = String::from_utf8(output.stdout).expect(TEXT);
        let last = text.trim_end().rsplit([',', '\n']).next().unwrap_or_default().trim().to_owned();
        (last, read(&self.folder.path().join("report")), error)
    }
}

fn tool() -> PathBuf {
    app("libtable_tool.so")
}

fn library(major: u32) -> PathBuf {
    hip_sim(major).join(format!("libamdhip64.so.{major}"))
}

#[test]
fn a_preloaded_tool_sees_every_call_of_a_compiled_program() {
    let run = Run::new("vector_add", &["--launches", "100"]).with("LD_PRELOAD", tool());
    let (last, report, error) = run.finish();
    assert_eq!((last.as_str(), error.as_str()), ("ok", ""));
    // Compiled code registers itself first; each table is passed at its first call.
    assert_eq!(report.tables, ["hip_compiler 60500 0 80", "hip 60500 0 3824"]);
    assert_eq!(report.calls(0, "hipLaunchKernel"), 100);
    assert_eq!(report.calls(0, "hipMalloc"), 3);
    let compiler = |function| report.calls.get(&("hip_compiler".to_owned(), 0, function)).copied();
    assert_eq!(compiler("__hipRegisterFatBinary"), Some(1));
    assert_eq!(compiler("__hipPushCallConfiguration"), Some(100));
}

#[test]
fn a_tool_sees_calls_that_bind_no_symbol() {
    let library = library(7);
    let run = Run::new("table_client", &["calls", "50", library.to_str().unwrap()]);
    let (last, report, _) = run.with("LD_PRELOAD", tool()).finish();
    assert_eq!(last, "ok");
    assert_eq!(report.tables, ["hip 70200 0 4144"]);
    assert_eq!(report.calls(0, "hipGetDeviceCount"), 50, "through dlsym");
    assert_eq!(report.calls(0, "hipGetDevice"), 50, "through hipGetProcAddress");
    assert_eq!(report.calls(0, "hipGetProcAddress"), 1);
}

#[test]
fn two_copies_are_two_instances() {
    let folder = tempfile::tempdir().unwrap();
    let copies = ["first.so", "second.so"].map(|name| {
        let path = folder.path().join(name);
        fs::copy(library(6), &path).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let run = Run::new("table_client", &["calls", "10", &copies[0], &copies[1]]);
    let (last, report, _) = run.with("LD_PRELOAD", tool()).finish();
    assert_eq!(last, "ok");
    assert_eq!(report.tables, ["hip 60500 0 3824", "hip 60500 1 3824"]);
    assert_eq!([0, 1].map(|instance| report.calls(instance, "hipGetDeviceCount")), [10, 10]);
}

#[test]
fn first_calls_of_many_threads_are_all_seen() {
    for _ in 0..10 {
        let library = library(6);
        let run = Run::new("table_client", &["threads", "8", library.to_str().unwrap()]);
        let (last, report, _) = run.with("LD_PRELOAD", tool()).finish();
        assert_eq!((last.as_str(), report.tables.len()), ("ok", 1));
        assert_eq!(report.calls(0, "hipGetDeviceCount"), 8);
    }
}

#[test]
fn the_environment_names_a_tool() {
    let run = || Run::new("vector_add", &["--launches", "5"]);
    for tool in [tool(), app("libtable_tool_receiver.so")] {
        let (last, report, error) = run().with(LIBRARY, &tool).finish();
        assert_eq!((last.as_str(), report.calls(0, "hipLaunchKernel"), error.as_str()), ("ok", 5, ""));
    }
    let refused = [(FORCE_LOAD, "0"), (ENABLED, "0"), (ENABLED, "off")];
    for (variable, value) in refused {
        let (last, report, _) = run().with(LIBRARY, tool()).with(variable, value).finish();
        assert_eq!((last.as_str(), report.tables.len()), ("ok", 0), "{variable}={value}");
    }
    let (_, report, _) = run().with("LD_PRELOAD", tool()).with(ENABLED, "0").finish();
    assert!(report.tables.is_empty(), "a visible tool is refused as well");
}

#[test]
fn an_incomplete_tool_gets_no_tables() {
    let run = |tool| Run::new("vector_add", &["--launches", "5"]).with("LD_PRELOAD", app(tool));
    let (last, report, error) = run("libtable_tool_receiver.so").finish();
    assert_eq!(
        (last.as_str(), report.tables.len(), error.as_str()),
        ("ok", 0, ""),
        "no registration library is loaded"
    );
    // With force the registration library is loaded, and visible.
    let (_, report, _) = run("libtable_tool_receiver.so").with(FORCE_LOAD, "1").finish();
    assert_eq!(report.calls(0, "hipLaunchKernel"), 5);
    // The genuine registration library aborts here.
    let (last, report, error) = run("libtable_tool_configure.so").finish();
    assert_eq!((last.as_str(), report.tables.len()), ("ok", 0));
    assert!(error.contains("where ROCm would abort: no `rocprofiler_set_api_table`"), "{error}");
}

#[test]
fn an_installed_registration_library_does_the_work() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(app("libtable_register.so"), folder.path().join("librocprofiler-register.so.0")).unwrap();
    let run = || Run::new("vector_add", &["--launches", "5"]).with("LD_LIBRARY_PATH", folder.path());
    let (last, report, error) = run().with("LD_PRELOAD", tool()).finish();
    assert_eq!((last.as_str(), error.as_str()), ("ok", ""));
    assert_eq!(report.registered, ["hip_compiler 60500 1 80", "hip 60500 1 3824"]);
    assert!(report.tables.is_empty(), "the library decides which tool gets them");
    let (_, report, _) = run().finish();
    assert!(report.registered.is_empty(), "it is not loaded without need");
}

#[test]
fn a_runtime_before_6_2_passes_no_tables() {
    let library = library(5);
    let run = Run::new("table_client", &["threads", "2", library.to_str().unwrap()]);
    let (last, report, error) = run.with("LD_PRELOAD", tool()).finish();
    assert_eq!((last.as_str(), report.tables.len(), error.as_str()), ("ok", 0, ""));
}

#[test]
fn without_a_tool_no_library_is_searched() {
    let mut run = Run::new("vector_add", &["--launches", "5"]).with("LD_DEBUG", "files");
    let output = run.command.output().unwrap();
    let trace = String::from_utf8_lossy(&output.stderr);
    assert!(trace.contains("libamdhip64.so.6"), "{trace}");
    assert!(!trace.contains("librocprofiler"), "{trace}");
}
