//! The shim intercepts by dispatch tables if the runtime has them, else by symbols, and never by both for one call.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use xsched_tests::artifacts::{app, app_command, hip_sim, shim};

const LIBRARY: &str = "ROCPROFILER_REGISTER_LIBRARY";
const ENABLED: &str = "ROCPROFILER_REGISTER_ENABLED";

struct Run {
    folder: TempDir,
    command: Command,
}

/// Result of a run.
struct Outcome {
    /// The program's last line.
    last: String,
    stderr: String,
    /// The shim's summary.
    summary: String,
    /// The report of the tool of `tests/apps/table`.
    tool: String,
}

impl Run {
    fn new(program: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let mut command = app_command(program, arguments);
        command.env("XSCHED_LOG", folder.path().join("log"));
        command.env("TABLE_TOOL_REPORT", folder.path().join("tool"));
        for variable in
            [LIBRARY, ENABLED, "ROCPROFILER_REGISTER_FORCE_LOAD", "ROCP_TOOL_LIBRARIES", "LD_PRELOAD"]
        {
            command.env_remove(variable);
        }
        Self { folder, command }
    }

    fn with(mut self, variable: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    fn preloaded(self) -> Self {
        self.with("LD_PRELOAD", shim())
    }

    #[track_caller]
    fn finish(mut self) -> Outcome {
        let output = self.command.output().expect("it was built");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{} {stderr}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.trim_end().rsplit([',', '\n']).next().unwrap_or_default().trim().to_owned();
        let read = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        Outcome { last, stderr, summary: read("log"), tool: read("tool") }
    }
}

impl Outcome {
    /// Calls of a function that the shim counted.
    fn calls(&self, function: &str) -> u64 {
        self.count(&format!("  {function} ("))
    }

    /// The number in the line of the summary with this text.
    fn count(&self, text: &str) -> u64 {
        let line = self.summary.lines().find(|line| line.contains(text));
        line.map_or(0, |line| {
            line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a line begins with its count")
        })
    }

    /// Entries of the runtime's table that the tool saw called.
    fn tool_calls(&self, index: usize) -> u64 {
        let line = self.tool.lines().find(|line| line.starts_with(&format!("calls hip 0 {index} ")));
        line.map_or(0, |line| line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a count"))
    }

    #[track_caller]
    fn assert_launches(&self, launches: u64) {
        assert_eq!((self.last.as_str(), self.stderr.as_str()), ("ok", ""));
        assert_eq!(self.calls("hipLaunchKernel"), launches, "{}", self.summary);
        assert_eq!(self.count("kernels, "), launches, "hooks ran once a launch: {}", self.summary);
        assert_eq!(self.calls("hipMalloc"), 3, "{}", self.summary);
        assert_eq!(self.calls("__hipRegisterFatBinary"), 1, "{}", self.summary);
        assert_eq!(self.calls("__hipPushCallConfiguration"), launches, "{}", self.summary);
        assert!(self.summary.ends_with("trouble\n               0  none\n"), "{}", self.summary);
    }
}

fn tool() -> PathBuf {
    app("libtable_tool.so")
}

fn library(major: u32) -> String {
    hip_sim(major).join(format!("libamdhip64.so.{major}")).to_str().expect("a path in UTF-8").to_owned()
}

fn both(first: &Path, second: &Path) -> String {
    format!("{}:{}", first.display(), second.display())
}

/// `hipLaunchKernel` in the runtime's table.
const LAUNCH_ENTRY: usize = 214;
/// `hipGetDeviceCount` there.
const COUNT_ENTRY: usize = 103;

#[test]
fn each_way_of_interception_sees_every_call_once() {
    let run = || Run::new("vector_add", &["--launches", "100"]);
    run().preloaded().finish().assert_launches(100);
    run().with(LIBRARY, shim()).finish().assert_launches(100);
    // Without tables, by symbols.
    run().preloaded().with(ENABLED, "0").finish().assert_launches(100);
    // Both are requested.
    run().preloaded().with(LIBRARY, shim()).finish().assert_launches(100);
}

#[test]
fn threads_that_start_together_are_seen_once() {
    for _ in 0..5 {
        let outcome = Run::new("table_client", &["threads", "8", &library(6)]).preloaded().finish();
        assert_eq!((outcome.last.as_str(), outcome.calls("hipGetDeviceCount")), ("ok", 8));
    }
}

#[test]
fn calls_that_bind_no_symbol_are_seen() {
    let client = ["calls", "50", &library(7)];
    for run in [
        Run::new("table_client", &client).preloaded(),
        Run::new("table_client", &client).with(LIBRARY, shim()),
    ] {
        let outcome = run.finish();
        assert_eq!(outcome.last, "ok");
        assert_eq!(outcome.calls("hipGetDeviceCount"), 50, "through dlsym: {}", outcome.summary);
        assert_eq!(outcome.calls("hipGetDevice"), 50, "through hipGetProcAddress: {}", outcome.summary);
        assert_eq!(outcome.calls("hipGetProcAddress"), 1, "{}", outcome.summary);
    }
}

#[test]
fn runtime_copies_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let copies: Vec<_> = (0..6)
        .map(|n| {
            let path = folder.path().join(format!("libamdhip64-{n}.so.6"));
            fs::copy(library(6), &path).unwrap();
            path.to_str().unwrap().to_owned()
        })
        .collect();
    let arguments: Vec<_> = ["calls", "10"].into_iter().chain(copies.iter().map(String::as_str)).collect();
    let outcome = Run::new("table_client", &arguments).preloaded().finish();
    assert_eq!((outcome.last.as_str(), outcome.calls("hipGetDeviceCount")), ("ok", 40));
    // The shim has four slots for copies; calls of further copies work, but are not intercepted.
    assert_eq!(outcome.count("runtime copies without a place"), 2, "{}", outcome.summary);
}

#[test]
fn a_profiler_before_or_after_the_shim_sees_every_call_too() {
    let run = || Run::new("vector_add", &["--launches", "100"]);
    let outcome = run().with("LD_PRELOAD", both(&shim(), &tool())).finish();
    outcome.assert_launches(100);
    assert_eq!(outcome.tool_calls(LAUNCH_ENTRY), 100, "{}", outcome.tool);

    // The tool is named in a variable: the shim passes the tables on to it.
    let outcome = run().preloaded().with(LIBRARY, tool()).finish();
    outcome.assert_launches(100);
    assert_eq!(outcome.tool_calls(LAUNCH_ENTRY), 100, "{}", outcome.tool);

    // A tool that does not know of others keeps the tables; the shim uses symbols.
    let outcome = run().with("LD_PRELOAD", both(&tool(), &shim())).finish();
    outcome.assert_launches(100);
    assert_eq!(outcome.tool_calls(LAUNCH_ENTRY), 100, "{}", outcome.tool);
}

/// A copy of the tool, or of another library, under a name of AMD's.
fn named(folder: &Path, name: &str, library: &str) -> String {
    let path = folder.join(name);
    fs::copy(app(library), &path).expect("the library was built");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// As the profilers of PyTorch and JAX come.
#[test]
fn a_profiler_in_a_plugins_scope_gets_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let profiler = named(folder.path(), "librocprofiler-sdk.so.1", "libtable_tool.so");
    let outcome = Run::new("table_client", &["plugin", "50", &profiler, &library(6)]).preloaded().finish();
    assert_eq!(
        (outcome.last.as_str(), outcome.calls("hipGetDeviceCount")),
        ("ok", 50),
        "{}",
        outcome.summary
    );
    assert_eq!(outcome.tool_calls(COUNT_ENTRY), 50, "{}", outcome.tool);
}

#[test]
fn a_profiler_that_starts_late_gets_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    named(folder.path(), "librocprofiler-register.so.0", "libtable_register.so");
    let profiler = named(folder.path(), "librocprofiler-sdk.so.1", "libtable_tool.so");
    let run = Run::new("table_client", &["late", "50", &profiler, &library(6)]).preloaded();
    let outcome = run.with("LD_LIBRARY_PATH", folder.path()).with("TABLE_REGISTER_OFFERS", "1").finish();
    assert_eq!(
        (outcome.last.as_str(), outcome.calls("hipGetDeviceCount")),
        ("ok", 100),
        "{}",
        outcome.summary
    );
    assert_eq!(outcome.tool_calls(COUNT_ENTRY), 50, "{}", outcome.tool);
}

/// Two libraries that register at the same moment: AMD's library refuses the second, and the runtime does not ask again.
#[test]
fn a_copy_whose_registration_is_refused_is_seen_by_its_symbols() {
    let folder = tempfile::tempdir().unwrap();
    named(folder.path(), "librocprofiler-register.so.0", "libtable_register.so");
    let refused = |program: &str, arguments: &[&str]| {
        let path = format!("{}:{}", folder.path().display(), hip_sim(6).display());
        let run = Run::new(program, arguments).preloaded().with("LD_LIBRARY_PATH", path);
        run.with("TABLE_REGISTER_BUSY", "1").finish()
    };
    refused("vector_add", &["--launches", "100"]).assert_launches(100);
    let outcome = refused("table_client", &["calls", "50", &library(6)]);
    assert_eq!(
        (outcome.last.as_str(), outcome.calls("hipGetDeviceCount")),
        ("ok", 50),
        "{}",
        outcome.summary
    );
    assert_eq!(outcome.calls("hipGetDevice"), 50, "through hipGetProcAddress: {}", outcome.summary);
}

/// The loader does not search AMD's folder, but AMD's library does.
#[test]
fn a_requested_profiler_is_found_beside_amds_registration_library() {
    let folder = tempfile::tempdir().unwrap();
    let register = named(folder.path(), "librocprofiler-register.so.0", "libtable_register.so");
    named(folder.path(), "librocprofiler-sdk.so", "libtable_tool.so");
    let run = Run::new("vector_add", &["--launches", "100"]).with("ROCP_TOOL_LIBRARIES", "/some/tool.so");
    let outcome = run.with("LD_PRELOAD", both(&shim(), Path::new(&register))).finish();
    outcome.assert_launches(100);
    assert_eq!(outcome.tool_calls(LAUNCH_ENTRY), 100, "{}", outcome.tool);
}

#[test]
fn disabled_means_no_entry_is_replaced() {
    let outcome =
        Run::new("vector_add", &["--launches", "100"]).preloaded().with("XSCHED_DISABLE", "1").finish();
    assert_eq!(outcome.last, "ok");
    assert_eq!(outcome.count("kernels, "), 0);
    assert_eq!(outcome.calls("hipLaunchKernel"), 100, "by symbols: {}", outcome.summary);
}

#[test]
fn a_runtime_without_tables_is_intercepted_by_symbols() {
    let outcome = Run::new("vector_add", &["--launches", "100"])
        .preloaded()
        .with("LD_LIBRARY_PATH", hip_sim(5))
        .finish();
    assert_eq!(outcome.last, "ok");
    assert_eq!(outcome.calls("hipLaunchKernel"), 100);
}

#[test]
fn functions_of_a_runtime_without_tables_are_found_by_name_in_the_shim() {
    // hipGetProcAddress came with 5.7, so the table of a newer runtime is refused instead.
    let library = library(6);
    let run = Run::new("table_client", &["calls", "50", &library]).preloaded().with(ENABLED, "0");
    let outcome = run.finish();
    assert_eq!(outcome.last, "ok");
    assert_eq!(outcome.calls("hipGetDeviceCount"), 50, "by dlsym: {}", outcome.summary);
    assert_eq!(outcome.calls("hipGetDevice"), 50, "by hipGetProcAddress: {}", outcome.summary);
}
