//! The field kit on the simulated runtimes: what it reports, what it refuses, and what it leaves behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::{ROOT, XTASK};
use xsched_tests::artifacts::{clients, cuda_sim, hip_sim, linked_client, shim};
use xsched_tests::browser;
use xsched_tests::needs::{BROWSER, HIPRTC, LINKED_CLIENT};
use xsched_tests::serving::Serving;
use xsched_tests::tracer::{Outcome, run, wait_until, xsched_ctl};

/// A PyTorch whose `randn` fails, as far as the ladder gets.
const BROKEN_TORCH: &str = "
import types
__version__ = '0.0.broken'
class cuda:
    is_available = staticmethod(lambda: True)
    synchronize = staticmethod(lambda: None)
class Ones:
    cpu = sum = lambda self: self
    item = lambda self: 4
nn = None
def set_num_threads(count): pass
def manual_seed(seed): pass
def ones(*extents, device): return Ones()
def randn(*extents, device): raise RuntimeError('HIP error: invalid device function')
";

/// A device of its own, and folders: one for the report, and one in which the kit makes its own.
struct Node {
    folder: TempDir,
    device: String,
    libraries: PathBuf,
}

impl Node {
    fn new(test: &str, libraries: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder, device: format!("field-{test}-{}", std::process::id()), libraries }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn kit(&self, options: &str) -> Command {
        let mut command = xsched_ctl(["field", "-o"]);
        command.arg(self.path("report")).arg("--shim").arg(shim()).args(options.split(' '));
        self.set_up(&mut command);
        command
    }

    fn set_up(&self, command: &mut Command) {
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("HIP_SIM_SHARED", &self.device)
            .env("HIP_SIM_TWINS", cuda_sim().join("libcuda_twins.so"))
            .env("HIP_SIM_DURATIONS", "field_burn=arg0ns@100%,field_*=1us")
            .env("TMPDIR", self.path("tmp"))
            .env("XSCHED_SOCKET_DIR", self.path("no-controller"));
    }

    fn report(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("report.json")).unwrap()).unwrap()
    }

    /// Nothing but the report and what the test made.
    #[track_caller]
    fn is_clean(&self) {
        let names = |folder: &Path| -> Vec<_> {
            let mut names: Vec<_> =
                fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&self.path("tmp")), [""; 0], "the kit's folder is gone");
        let others = ["python3", "torch"];
        let mut left = names(self.folder.path());
        left.retain(|name| !others.iter().any(|other| name == other));
        assert_eq!(left, ["report.html", "report.json", "tmp"]);
    }
}

/// The rows of a step.
#[track_caller]
fn rows<'a>(report: &'a Value, step: &str) -> &'a [Value] {
    let steps = report["steps"].as_array().unwrap();
    let found = steps.iter().find(|found| found["step"] == step);
    found.unwrap_or_else(|| panic!("no step {step} in {report:#}"))["rows"].as_array().unwrap()
}

#[track_caller]
fn verdict<'a>(report: &'a Value, step: &str) -> (&'a str, &'a str) {
    let steps = report["steps"].as_array().unwrap();
    let found = steps.iter().find(|found| found["step"] == step).unwrap_or_else(|| panic!("no step {step}"));
    (found["verdict"].as_str().unwrap(), found["reason"].as_str().unwrap_or(""))
}

/// What was measured, with the mode of each row.
fn measured<'a>(rows: &'a [Value], kind: &str) -> Vec<(&'a str, &'a str)> {
    let of_kind = rows.iter().filter(|row| row.get(kind).is_some());
    of_kind.map(|row| (row["what"].as_str().unwrap(), row["mode"].as_str().unwrap())).collect()
}

#[track_caller]
fn succeeds(outcome: &Outcome) {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

/// Without PyTorch and libraries, as on a node with the runtime alone: the client runs in every mode, and the rest is skipped.
#[needs(ROOT)]
fn a_bare_hip_node_is_measured_in_every_mode() {
    let node = Node::new("hip", hip_sim(6));
    succeeds(&run(&mut node.kit("--quick --steps client,blas,torch,recording --python /no/such/python3")));
    let report = node.report();
    assert_eq!(report["cut"], Value::Null);
    assert_eq!(verdict(&report, "client"), ("done", ""), "{report:#}");
    let modes: Vec<_> = measured(rows(&report, "client"), "value").iter().map(|(_, mode)| *mode).collect();
    assert_eq!(modes, ["native", "scheduled", "compat"]);
    let (word, reason) = verdict(&report, "blas");
    assert!(word == "skipped" && reason.contains("libhipblas"), "{word}: {reason}");
    let (word, reason) = verdict(&report, "torch");
    assert!(word == "skipped" && reason.contains("no Python"), "{word}: {reason}");
    assert_eq!(verdict(&report, "recording"), ("done", ""), "{report:#}");
    let recording = report["steps"][3]["texts"][0]["text"].as_str().unwrap();
    assert!(recording.contains("field_burn") && recording.contains("hipModuleLaunchKernel"), "{recording}");
    let fact =
        |name: &str| report["machine"].as_array().unwrap().iter().find(|fact| fact["name"] == name).unwrap();
    assert_eq!(fact("kernels")["value"], "code objects of the kit");
    // Neither the folder of this test nor the host's name.
    let (json, html) = (node.path("report.json"), node.path("report.html"));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for file in [json, html] {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(node.folder.path().to_str().unwrap()), "{}", file.display());
        let is_telling = host.len() > 2 && host != "localhost";
        assert!(!is_telling || !text.contains(&format!("{host} ")), "{}: {host}", file.display());
    }
    node.is_clean();
}

/// Urgent requests beside a batch job, with the whole controller between them.
#[needs(ROOT)]
fn a_cuda_node_is_measured_natively_and_scheduled() {
    let node = Node::new("cuda", cuda_sim());
    succeeds(&run(&mut node.kit("--quick --steps preemption,convolution --modes native,scheduled")));
    let report = node.report();
    assert_eq!(verdict(&report, "preemption"), ("done", ""), "{report:#}");
    let rows = rows(&report, "preemption");
    for row in rows.iter().filter_map(|row| row.get("figure")) {
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!(number("n") > 0.0 && number("min") > 0.0, "{row}");
        assert!(
            number("min") <= number("p50")
                && number("p50") <= number("p99")
                && number("p99") <= number("max"),
            "{row}"
        );
    }
    assert_eq!(measured(rows, "figure").len(), 4, "{rows:#?}");
    assert_eq!(measured(rows, "value").len(), 2, "the batch job's part of the device");
    let (word, reason) = verdict(&report, "convolution");
    assert!(word == "skipped" && reason.contains("MIOpen"), "{word}: {reason}");
    node.is_clean();
}

#[needs(XTASK)]
fn the_first_call_of_pytorch_that_fails_is_named() {
    let node = Node::new("torch", hip_sim(6));
    fs::create_dir(node.path("torch")).unwrap();
    fs::write(node.path("torch/__init__.py"), BROKEN_TORCH).unwrap();
    let mut kit = node.kit("--quick --steps torch --modes native");
    succeeds(&run(kit.env("PYTHONPATH", node.folder.path())));
    let report = node.report();
    let (word, reason) = verdict(&report, "torch");
    assert_eq!(word, "failed", "{report:#}");
    assert!(
        reason.starts_with("randn on the device, native: RuntimeError: HIP error: invalid device function"),
        "{reason}"
    );
    let rows = rows(&report, "torch");
    assert_eq!(measured(rows, "value"), [("tensor on the device and back", "native")]);
    assert_eq!(rows.len(), 2, "nothing after the first failure: {rows:#?}");
    node.is_clean();
}

/// ROCm's libraries on a machine with NVIDIA's GPU, as images of PyTorch have them.
#[needs(XTASK)]
fn a_runtime_without_a_device_does_not_hide_the_other() {
    let node = Node::new("both", hip_sim(6));
    let libraries = |folders: [PathBuf; 2]| std::env::join_paths(folders).unwrap();
    fs::create_dir(node.path("torch")).unwrap();
    let stub = node.path("torch/libamdhip64.so.6");
    let source = "int hipInit(unsigned flags) { return 101; }";
    let names =
        ["RuntimeGetVersion", "GetDeviceCount", "DeviceGetName", "DeviceTotalMem", "DeviceGetAttribute"];
    let more =
        ["ModuleLoadData", "ModuleGetFunction", "ModuleLaunchKernel", "Malloc", "MemsetD32", "MemcpyDtoH"];
    let last = [
        "StreamCreateWithFlags",
        "StreamSynchronize",
        "EventCreateWithFlags",
        "EventRecord",
        "EventSynchronize",
    ];
    let others =
        names.iter().chain(&more).chain(&last).map(|name| format!("int hip{name}(void) {{ return 101; }}"));
    fs::write(node.path("torch/stub.c"), others.fold(source.to_owned(), |text, line| text + "\n" + &line))
        .unwrap();
    succeeds(&run(Command::new("clang-19")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&stub)
        .arg(node.path("torch/stub.c"))));
    let mut kit = node.kit("--quick --steps client --modes native");
    succeeds(&run(kit.env("LD_LIBRARY_PATH", libraries([node.path("torch"), cuda_sim()]))));
    let report = node.report();
    assert_eq!(verdict(&report, "client"), ("done", ""), "{report:#}");
    for file in ["report.html", "report.json"] {
        fs::remove_file(node.path(file)).unwrap();
    }
    // Neither: both answers are there.
    let mut kit = node.kit("--quick --steps client --modes native");
    succeeds(&run(kit.env("LD_LIBRARY_PATH", libraries([node.path("torch"), node.path("tmp")]))));
    let report = node.report();
    let (word, reason) = verdict(&report, "client");
    assert!(word == "skipped" && reason.contains("HIP: Init failed with 101; CUDA: "), "{word}: {reason}");
    node.is_clean();
}

/// The kit has no code object for this one. HIPRTC is Debian's, and compiles in earnest.
#[needs(HIPRTC)]
fn an_unknown_processor_gets_its_kernels_from_hiprtc() {
    let node = Node::new("hiprtc", hip_sim(6));
    let libraries = std::env::join_paths([hip_sim(6), clients().join("hiprtc")]).unwrap();
    let mut kit = node.kit("--quick --steps client --modes native");
    succeeds(&run(kit.env("LD_LIBRARY_PATH", libraries).env("HIP_SIM_ARCH", "gfx1010")));
    let report = node.report();
    assert_eq!(verdict(&report, "client"), ("done", ""), "{report:#}");
    let fact =
        |name: &str| report["machine"].as_array().unwrap().iter().find(|fact| fact["name"] == name).unwrap();
    assert_eq!(fact("kernels")["value"], "compiled by HIPRTC on this node");
    assert_eq!(fact("runtime library")["value"], "<path>/libamdhip64.so.6");
}

/// The same programs, linked with the runtime by `hip-runtime-sys`: with the shim and without.
#[needs(LINKED_CLIENT)]
fn a_client_that_is_linked_with_the_runtime_computes_the_same() {
    let node = Node::new("linked", hip_sim(6));
    let client = |shim: Option<&Path>| {
        let mut command = Command::new(linked_client());
        node.set_up(command.args(["steps", "launches=500", "wait=false"]));
        command.envs(shim.map(|shim| ("LD_PRELOAD", shim)));
        let outcome = run(&mut command);
        succeeds(&outcome);
        let result: Value =
            serde_json::from_str(outcome.stdout.trim().strip_prefix("@field ").unwrap()).unwrap();
        assert_eq!(
            result["result"]["values"][0],
            serde_json::json!(["launches", 500.0]),
            "{}",
            outcome.stdout
        );
    };
    client(None);
    client(Some(&shim()));
}

/// The kit, and its standard error as far as a test has not read it.
fn start(kit: &mut Command) -> (Child, BufReader<ChildStderr>) {
    let mut child = kit.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (child, stderr)
}

/// All processes that use the node's device: it is named in their environment.
fn users_of(device: &str) -> Vec<String> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let uses = |process: &String| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == format!("HIP_SIM_SHARED={device}").as_bytes())
    };
    processes.filter(uses).collect()
}

#[needs(XTASK)]
fn an_interrupted_kit_leaves_a_report_and_no_process_of_its_own() {
    let node = Node::new("cut", hip_sim(6));
    // Another process on the same device.
    let mut other = Command::new("sleep").arg("600").env("HIP_SIM_SHARED", &node.device).spawn().unwrap();
    let (mut kit, stderr) = start(&mut node.kit("--quick --steps preemption,gate --modes native"));
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("beside one batch job")), "it came so far");
    // This test's, the kit, and two of its clients.
    wait_until("the batch job runs", || users_of(&node.device).len() >= 4);
    let begun = Instant::now();
    kill_process(Pid::from_child(&kit), Signal::INT).unwrap();
    let said: Vec<_> = lines.collect();
    let status = kit.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{said:#?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(users_of(&node.device), [other.id().to_string()], "the other process lives, the kit's do not");
    other.kill().unwrap();
    other.wait().unwrap();
    let report = node.report();
    assert!(report["cut"].as_str().unwrap().contains("Ctrl-C"), "{report:#}");
    assert_eq!(verdict(&report, "preemption").0, "cut");
    assert!(!measured(rows(&report, "preemption"), "figure").is_empty(), "what was done is there");
    let page = fs::read_to_string(node.path("report.html")).unwrap();
    assert!(page.contains("This report is cut: interrupted after"), "the page says so, too");
    node.is_clean();
}

#[needs(XTASK)]
fn a_killed_kit_leaves_its_last_report_and_no_process() {
    let node = Node::new("killed", hip_sim(6));
    let (mut kit, stderr) = start(&mut node.kit("--quick --steps client,preemption --modes native"));
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("beside one batch job")), "it came so far");
    wait_until("the batch job runs", || users_of(&node.device).len() >= 3);
    kit.kill().unwrap();
    kit.wait().unwrap();
    wait_until("the kernel ends its children", || users_of(&node.device).is_empty());
    let report = node.report();
    assert_eq!(report["cut"], "the kit was killed, or still runs");
    assert_eq!(verdict(&report, "client"), ("done", ""));
}

/// An interpreter that floods both of its outputs, and then ends.
#[needs(XTASK)]
fn a_child_that_floods_costs_no_memory() {
    use std::os::unix::fs::PermissionsExt as _;

    let node = Node::new("flood", hip_sim(6));
    let python = node.path("python3");
    fs::write(
        &python,
        "#!/bin/sh\nhead -c 500000000 /dev/zero >&2\nhead -c 500000000 /dev/zero\necho broken >&2\nexit 3\n",
    )
    .unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = node.kit("--quick --steps gate --modes native --python");
    let (mut kit, stderr) = start(command.arg(&python));
    let pid = kit.id();
    let mut most_kb = 0;
    let mut lines = stderr.lines().map_while(Result::ok);
    for line in lines.by_ref() {
        most_kb = most_kb.max(peak_kb(pid));
        if line.contains("done, ") {
            break;
        }
    }
    lines.for_each(drop);
    assert!(kit.wait().unwrap().success());
    // The command alone has about 60 MB in a build for tests.
    assert!((1..150_000).contains(&most_kb), "{most_kb} kB");
    let report = node.report();
    let python = report["machine"].as_array().unwrap().iter().find(|fact| fact["name"] == "Python").unwrap();
    let why = python["value"].as_str().unwrap();
    assert!(
        why.contains("ended with status 3") && why.ends_with("broken") && why.len() < 20_000,
        "{}",
        why.len()
    );
    assert!(fs::metadata(node.path("report.html")).unwrap().len() < 1 << 20);
    node.is_clean();
}

/// The most memory that a process has had so far.
fn peak_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

#[needs(ROOT)]
fn beside_a_controller_the_kit_refuses_and_leaves_nothing() {
    let node = Node::new("refused", hip_sim(6));
    let controller = Serving::start_without_bpf("").unwrap();
    let mut kit = node.kit("--quick --modes native");
    let outcome = run(kit.env("XSCHED_SOCKET_DIR", controller.folder()));
    assert_eq!(outcome.code, 69, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("a controller is running (process "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: end it first"), "{}", outcome.stderr);
    assert!(!node.path("report.json").exists());
    // The shim in the kit itself.
    let outcome = run(node.kit("--quick --modes native").env("LD_PRELOAD", shim()));
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
}

/// `sections`: the machine, and one for each step.
fn shows(page: &Path, sections: usize) {
    let output = browser::script("field.py").arg(page).arg(sections.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[needs(BROWSER)]
fn a_browser_shows_the_report_and_asks_for_nothing() {
    let node = Node::new("page", hip_sim(6));
    succeeds(&run(&mut node.kit("--quick --steps preemption,blas --modes native")));
    shows(&node.path("report.html"), 3);
}

/// A whole report of a node with an H200.
#[needs(BROWSER)]
fn a_browser_shows_the_report_of_a_real_gpu() {
    shows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/field-h200.html"), 12);
}
