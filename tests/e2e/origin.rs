//! Origins of calls: requests for verdicts as the shim's, from call chains with the names of AMD's libraries, to the real controller.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xsched_harness::needs;
use xsched_harness::needs::{NAMESPACES, ROOT};
use xsched_protocol::verdict::{RULE_DOMAIN, Subject};
use xsched_tests::arbiter::Peer;
use xsched_tests::artifacts::app;
use xsched_tests::tracer::xsched_ctl;

/// Longer than any step takes that succeeds.
const LONG: Duration = Duration::from_mins(1);

/// Libraries of `tests/apps/origin_chain`.
const LIBRARIES: [&str; 7] = [
    "libtorch_hip.so",
    "libhipblas.so",
    "libhipblaslt.so",
    "librocblas.so",
    "libMIOpen.so.1",
    "librccl.so.1",
    "libffi.so.8",
];

fn peer_program() -> String {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    built.join("origin-peer").to_str().unwrap().to_owned()
}

fn library(name: &str) -> PathBuf {
    app("origin_chain").join(name)
}

/// A controller in a folder of its own; dropping it ends it.
struct Controller {
    folder: TempDir,
    child: Child,
}

impl Controller {
    fn start(rules: &str) -> Self {
        Self::start_with(rules, &[])
    }

    fn start_with(rules: &str, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("rules.toml");
        fs::write(&file, rules).unwrap();
        let config = folder.path().join("config.toml");
        // The path is relative to the configuration.
        fs::write(&config, "rules = \"rules.toml\"\n").unwrap();
        let mut serve = xsched_ctl(["serve", "--config"]);
        serve.arg(&config).args(options).env("XSCHED_SOCKET_DIR", folder.path());
        serve.stdout(Stdio::null()).stderr(fs::File::create(folder.path().join("log")).unwrap());
        let mut controller = Self { child: serve.spawn().unwrap(), folder };
        let begin = Instant::now();
        while !controller.folder.path().join("shim.sock").exists() {
            assert!(begin.elapsed() < LONG, "the controller does not come up: {}", controller.log());
            std::thread::sleep(Duration::from_millis(10));
            // Another controller may still be ending.
            if matches!(controller.child.try_wait(), Ok(Some(_))) {
                controller.child = serve.spawn().unwrap();
            }
        }
        controller
    }

    fn wait(&self, is_so: impl Fn() -> bool, what: &str) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < LONG, "the controller did not {what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn folder(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn set_rules(&self, rules: &str) {
        fs::write(self.folder.path().join("rules.toml"), rules).unwrap();
    }

    fn hang_up(&self) {
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
    }

    /// A process that has joined and loaded libraries.
    fn peer(&self, libraries: &[&str]) -> Peer {
        self.welcome(Peer::application(&peer_program()), libraries)
    }

    fn welcome(&self, mut peer: Peer, libraries: &[&str]) -> Peer {
        assert_eq!(peer.ask(&format!("join {}", self.folder())), "page", "{}", self.log());
        for name in libraries {
            assert_eq!(peer.ask(&format!("load {}", library(name).display())), "loaded");
        }
        peer
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        let mut command = xsched_ctl(arguments);
        let output = command.env("XSCHED_SOCKET_DIR", self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let begin = Instant::now();
        while begin.elapsed() < LONG && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A launch, without a kernel or with one.
fn launch(kernel: Option<u32>) -> u64 {
    let api = xsched_abi::PROBES.iter().position(|probe| probe.name == "hipLaunchKernel").unwrap();
    Subject::new(api as u16, kernel).0
}

/// Asks from a chain, outermost first; returns the verdict without its time.
fn ask(peer: &mut Peer, chain: &str) -> String {
    let answer = peer.ask(&format!("ask {} {chain}", launch(None)));
    answer.split(" us ").next().unwrap().to_owned()
}

#[needs(ROOT)]
fn verdicts_follow_the_whole_chain() {
    let controller = Controller::start("");
    let mut peer = controller.peer(&LIBRARIES);
    let deep = "libtorch_hip.so libhipblas.so libhipblaslt.so libhipblas.so libtorch_hip.so libMIOpen.so.1";
    assert_eq!(ask(&mut peer, &format!("{deep} librocblas.so")), "Schedule 0 kept rule 0");
    assert_eq!(ask(&mut peer, &format!("{deep} librccl.so.1")), "NeverSuspend 0 kept rule 1");
    assert_eq!(
        ask(&mut peer, &format!("{deep} libMIOpen.so.1:find libtorch_hip.so libMIOpen.so.1")),
        "Passthrough 0 asked rule 8"
    );
    assert_eq!(ask(&mut peer, &format!("{deep} libMIOpen.so.1")), "Schedule 0 asked rule 0");
    let explained = controller.ctl(&["rules", "explain", "--pid", &peer.pid().to_string()]);
    assert!(
        explained.contains("hipLaunchKernel by librccl.so.1: never-suspend\n  by default:"),
        "{explained}"
    );
    assert!(explained.contains("libMIOpen.so.1:miopenFindConvolutionForwardAlgorithm < "), "{explained}");
    let json = controller.ctl(&["rules", "explain", "--json", "--pid", &peer.pid().to_string()]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sites"].as_array().unwrap().len(), 4, "{json:#}");
    for site in json["sites"].as_array().unwrap() {
        // At least seven libraries, and the program.
        assert!(site["chain"].as_array().unwrap().len() > 7 && site["whole"] == true, "{site:#}");
    }
}

#[needs(ROOT)]
fn every_verdict_is_right_where_return_addresses_do_not_suffice() {
    let controller = Controller::start("");
    let mut peer = controller.peer(&LIBRARIES);
    let outcome = peer.ask("storm 300000 77");
    let numbers: Vec<u64> =
        outcome.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let [count, right, wrong_by_return_address, kept] = numbers[..] else { panic!("{outcome}") };
    assert_eq!((count, right), (300_000, 300_000), "{outcome}: {}", controller.log());
    assert!(wrong_by_return_address > 10_000 && kept > 100_000, "{outcome}");
}

#[needs(ROOT)]
fn rules_change_while_processes_run() {
    let controller = Controller::start("");
    let mut peer = controller.peer(&["librocblas.so", "libhipblas.so"]);
    let before = generation(&mut peer);
    assert_eq!(ask(&mut peer, "libhipblas.so librocblas.so"), "Schedule 0 kept rule 0");
    controller.set_rules("[[rule]]\nlibrary = 'librocblas*'\naction = 'passthrough'\nlevel = 2\n");
    controller.hang_up();
    let before = wait_for_other(&mut peer, before);
    assert_eq!(ask(&mut peer, "libhipblas.so librocblas.so"), "Passthrough 2 kept rule 1");
    // Invalid rules change nothing.
    controller.set_rules("[[rule]]\nlibary = 'librocblas*'\naction = 'schedule'\n");
    controller.wait(|| controller.log().contains("did you mean `library`?"), "report the mistake");
    assert_eq!(ask(&mut peer, "libhipblas.so librocblas.so"), "Passthrough 2 kept rule 1");
    // The controller reads the file without a signal, too.
    controller.set_rules("profile = 'compat'\n");
    wait_for_other(&mut peer, before);
    assert_eq!(ask(&mut peer, "librocblas.so libhipblas.so"), "Passthrough 0 kept rule 1");
}

fn generation(peer: &mut Peer) -> u64 {
    peer.ask("generation").parse().unwrap()
}

/// Waits until cached verdicts become invalid.
fn wait_for_other(peer: &mut Peer, before: u64) -> u64 {
    let begin = Instant::now();
    loop {
        let now = generation(peer);
        if now != before {
            return now;
        }
        assert!(begin.elapsed() < LONG, "the generation does not change");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[needs(ROOT)]
fn libraries_kernels_and_processes_come_and_go() {
    let controller = Controller::start("[[rule]]\nkernel = 'gemm*'\naction = 'passthrough'\n");
    let mut peer = controller.peer(&["librccl.so.1", "librocblas.so"]);
    // Another library at the same address.
    for _ in 0..3 {
        assert_eq!(ask(&mut peer, "librccl.so.1"), "NeverSuspend 0 kept rule 2");
        let before: u64 = peer.ask("generation").parse().unwrap();
        assert_eq!(peer.ask("unload librccl.so.1"), "unloaded");
        assert_eq!(peer.ask(&format!("load {}", library("libtorch_hip.so").display())), "loaded");
        assert!(peer.ask("generation").parse::<u64>().unwrap() > before);
        assert_eq!(ask(&mut peer, "libtorch_hip.so"), "Schedule 0 kept rule 0");
        assert_eq!(peer.ask("unload libtorch_hip.so"), "unloaded");
        assert_eq!(peer.ask(&format!("load {}", library("librccl.so.1").display())), "loaded");
    }
    // Kernels by their numbers.
    assert_eq!(peer.ask("kernel 7 gemm_f16"), "sent");
    assert_eq!(peer.ask("kernel 8 copy"), "sent");
    let mut of_kernel = |id| {
        let answer = peer.ask(&format!("ask {} librocblas.so", launch(Some(id))));
        answer.split(" us ").next().unwrap().to_owned()
    };
    assert_eq!(
        (of_kernel(7).as_str(), of_kernel(8).as_str()),
        ("Passthrough 0 kept rule 1", "Schedule 0 kept rule 0")
    );
    // Another thread, and a child process.
    let answer = peer.ask(&format!("ask-in-thread {} librccl.so.1", launch(None)));
    assert!(answer.starts_with("NeverSuspend 0 kept rule 2"), "{answer}");
    assert_eq!(peer.ask("ask-in-child librccl.so.1"), "silence");
    // The same process, another program.
    assert_eq!(peer.ask("exec"), "ready");
    let mut peer = controller.welcome(peer, &["librccl.so.1"]);
    assert_eq!(ask(&mut peer, "librccl.so.1"), "NeverSuspend 0 kept rule 2");
    let pid = peer.pid();
    drop(peer);
    let gone = || {
        let mut explain = xsched_ctl(["rules", "explain", "--pid", &pid.to_string()]);
        !explain.env("XSCHED_SOCKET_DIR", controller.folder.path()).output().unwrap().status.success()
    };
    controller.wait(gone, "forget a process that has ended");
}

#[needs(ROOT)]
fn a_library_declares_the_domain_of_its_calls() {
    let controller = Controller::start("");
    let mut peer = controller.peer(&["libhipblas.so", "librocblas.so", "libtorch_hip.so"]);
    assert_eq!(ask(&mut peer, "libtorch_hip.so libhipblas.so librocblas.so"), "Schedule 0 kept rule 0");
    let before = generation(&mut peer);
    assert_eq!(peer.ask(&format!("domain {} 1", library("libhipblas.so").display())), "sent");
    wait_for_other(&mut peer, before);
    let domain = format!("NeverSuspend 0 asked rule {RULE_DOMAIN}");
    assert_eq!(ask(&mut peer, "libtorch_hip.so libhipblas.so librocblas.so"), domain);
    assert_eq!(ask(&mut peer, "libtorch_hip.so librocblas.so"), "Schedule 0 asked rule 0");
}

#[needs(ROOT, NAMESPACES)]
fn a_process_of_another_pid_namespace_is_answered() {
    let controller = Controller::start("");
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("contained");
    fs::write(
        &script,
        format!("#!/bin/sh\nexec unshare --mount --pid --fork --mount-proc {}\n", peer_program()),
    )
    .unwrap();
    let made = Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    assert!(made.success());
    let mut peer =
        controller.welcome(Peer::application(script.to_str().unwrap()), &["librccl.so.1", "libtorch_hip.so"]);
    assert_eq!(ask(&mut peer, "libtorch_hip.so librccl.so.1"), "NeverSuspend 0 kept rule 1");
}

#[needs(ROOT)]
fn a_process_without_a_token_report_gets_the_rules() {
    let controller = Controller::start("# own rules\n");
    let mut peer = Peer::application(&peer_program());
    assert_eq!(peer.ask(&format!("join-without-token {}", controller.folder())), "rules # own rules");
    let alone = Controller::start_with("# others\n", &["--no-bpf"]);
    let mut peer = Peer::application(&peer_program());
    assert_eq!(peer.ask(&format!("join {}", alone.folder())), "rules # others");
    alone.set_rules("# now these\n");
    assert_eq!(peer.ask("verdict-source"), "rules # now these");
}

fn main() -> ExitCode {
    xsched_harness::main()
}
