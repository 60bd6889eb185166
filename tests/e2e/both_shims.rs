//! What holds for each of the two shims, and for a process that has both: `xsched-ctl run` preloads both, the one for CUDA first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{cuda_shim, cuda_sim, hip_sim, shim};
use xsched_tests::serving::Serving;
use xsched_tests::tracer::{run, wait_until, xsched_ctl};

/// A process without a connection looks for a controller each second.
const LONGER_THAN_A_SECOND: Duration = Duration::from_millis(2500);

const CLIENT: &str = include_str!("both_shims/client.c");

/// The compiled program, and a folder.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = TempDir::new().expect("the temporary folder is writable");
        let (file, output) = (folder.path().join("client.c"), folder.path().join("client"));
        fs::write(&file, CLIENT).expect("the folder is new");
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../shim/include");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Werror", "-pthread", include, "-o"]).arg(&output).arg(&file);
        assert!(compiler.status().expect("a C compiler is installed").success());
        Self { folder }
    }

    /// The program in a mode, with these shims and runtimes.
    fn client(&self, mode: &str, shims: &[PathBuf], runtimes: &[&str]) -> Command {
        let mut client = Command::new(self.folder.path().join("client"));
        client.arg(mode);
        for runtime in runtimes {
            client.arg(runtime).arg(library(runtime));
        }
        let shims: Vec<_> = shims.iter().map(|shim| shim.display().to_string()).collect();
        client.env("LD_PRELOAD", shims.join(":")).env("XSCHED_LOG", self.folder.path().join("log"));
        client
    }
}

fn library(runtime: &str) -> PathBuf {
    match runtime {
        "hip" => hip_sim(7).join("libamdhip64.so.7"),
        _ => cuda_sim().join("libcuda.so.1"),
    }
}

fn both_shims() -> [PathBuf; 2] {
    [cuda_shim(), shim()]
}

/// A client of a controller, until it is dropped.
struct Running(Child);

impl Running {
    fn begin(client: &mut Command, folder: &Path) -> Self {
        client.env("XSCHED_SOCKET_DIR", folder).stdin(Stdio::piped());
        Self(client.spawn().expect("it was compiled just now"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("it is a child");
        assert!(thread::panicking() || status.success(), "{status}");
    }
}

/// What `list` says of all connections, by JSON.
fn connections(folder: &Path) -> Vec<Value> {
    let list = run(xsched_ctl(["list", "--json"]).env("XSCHED_SOCKET_DIR", folder));
    let list: Value = serde_json::from_str(&list.stdout).expect("it is JSON");
    list["processes"].as_array().expect("there is a list").clone()
}

fn claims(connection: &Value) -> usize {
    connection["queues"].as_array().map_or(0, Vec::len)
}

fn both_stay_joined(serving: &Serving) {
    let stage = Stage::new();
    let _client =
        Running::begin(&mut stage.client("stay", &both_shims(), &["hip", "cuda"]), serving.folder());
    let have_claims = || connections(serving.folder()).iter().map(claims).eq([1, 1]);
    wait_until("each shim has its claim", have_claims);
    let begin = Instant::now();
    while begin.elapsed() < LONGER_THAN_A_SECOND {
        assert!(have_claims(), "{:?}", connections(serving.folder()));
        thread::sleep(Duration::from_millis(50));
    }
}

#[needs(nothing)]
fn a_process_that_uses_two_runtimes_stays_joined_beside_both_without_programs() {
    both_stay_joined(&Serving::start_without_bpf("").expect("it starts"));
}

#[needs(ROOT)]
fn a_process_that_uses_two_runtimes_stays_joined_beside_both() {
    both_stay_joined(&Serving::start("").expect("it starts"));
}

#[needs(nothing)]
fn what_a_program_in_c_asks_for_reaches_the_shim_of_its_runtime() {
    let serving = Serving::start_without_bpf("").expect("it starts");
    let stage = Stage::new();
    for runtime in ["hip", "cuda"] {
        let mut client = stage.client("ask", &both_shims(), &[runtime]);
        let _client = Running::begin(&mut client, serving.folder());
        wait_until("it has its priority", || {
            let joined = connections(serving.folder());
            joined.iter().any(|one| one["parameters"]["priority"] == 40)
        });
    }
}

#[needs(nothing)]
fn a_shim_that_a_plugin_brings_stays_when_the_plugin_goes() {
    let stage = Stage::new();
    for shim in both_shims() {
        let outcome = run(stage.client("plugin", &[], &[]).arg(&shim));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "stays\n"), "{}", outcome.stderr);
    }
}

#[needs(nothing)]
fn a_process_without_memory_forks() {
    let stage = Stage::new();
    for (shim, runtime) in both_shims().into_iter().zip(["cuda", "hip"]) {
        for mode in ["fork", "fork-again"] {
            let with = run(&mut stage.client(mode, std::slice::from_ref(&shim), &[runtime]));
            let said = (with.code, with.stdout.as_str());
            assert_eq!(said, (0, "the child ended with 0\n"), "{runtime}, {mode}: {}", with.stderr);
        }
    }
}

fn main() -> ExitCode {
    xsched_harness::main()
}
