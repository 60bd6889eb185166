//! Pods of Kubernetes: their names, and what their annotations ask for. The container runtime is a stand-in; the cgroups are the
//! kernel's.

#![expect(clippy::unwrap_used, reason = "a test says by panicking what it could not do")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::needs::{KUBERNETES_MODELS, POD_CGROUPS, pod_cgroups};
use xsched_tests::sql::python;
use xsched_tests::tracer::{run, xsched_ctl};

use super::fixture::{Controller, Process};

const RUNTIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/serve/cri.py");

/// A container runtime, and the pods of its node.
struct Node {
    folder: tempfile::TempDir,
    runtime: Option<Child>,
    cgroups: Vec<PathBuf>,
}

impl Node {
    fn new() -> Self {
        let node = Self { folder: tempfile::tempdir().unwrap(), runtime: None, cgroups: Vec::new() };
        node.say(&json!([]));
        node
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("cri.sock")
    }

    /// What the runtime answers from now on.
    fn say(&self, pods: &Value) {
        let (file, next) = (self.folder.path().join("pods.json"), self.folder.path().join("next.json"));
        fs::write(&next, pods.to_string()).unwrap();
        fs::rename(next, file).unwrap();
    }

    fn start_runtime(&mut self) {
        let mut runtime = Command::new("python3")
            .args([Path::new(RUNTIME), &self.socket(), &self.folder.path().join("pods.json")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(runtime.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        self.runtime = Some(runtime);
    }

    fn stop_runtime(&mut self) {
        if let Some(mut runtime) = self.runtime.take() {
            runtime.kill().unwrap();
            runtime.wait().unwrap();
        }
    }

    fn controller(&self, more: &str) -> Controller {
        Controller::start(&format!("[kubernetes]\nsocket = '{}'\n{more}", self.socket().display()))
    }

    /// Puts a process into the cgroup of a container, as kubelet would make it.
    fn contain(&mut self, process: &Process, number: usize) {
        let pod = pod_cgroups().unwrap().join(format!("kubepods/burstable/pod{}", uid(number)));
        let cgroup = pod.join(id(number));
        fs::create_dir_all(&cgroup).unwrap();
        fs::write(cgroup.join("cgroup.procs"), process.id().to_string()).unwrap();
        self.cgroups.extend([cgroup, pod]);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_runtime();
        let root = pod_cgroups().unwrap().join("kubepods");
        let all = self.cgroups.drain(..).chain([root.join("burstable"), root]);
        let deadline = Instant::now() + Duration::from_secs(10);
        for cgroup in all {
            // The kernel empties a cgroup a moment after its processes have ended.
            while cgroup.exists() && fs::remove_dir(&cgroup).is_err() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn uid(number: usize) -> String {
    format!("0b3c1f6e-92a4-4a1e-8d7c-{number:012x}")
}

fn id(number: usize) -> String {
    format!("{number:064x}")
}

fn pod(number: usize, namespace: &str, annotations: &Value) -> Value {
    json!({"id": id(number), "namespace": namespace, "pod": format!("train-{number}"), "container": "main",
           "annotations": annotations})
}

/// Waits until the entry of a process is as wanted; returns it.
#[track_caller]
fn wait_for(controller: &Controller, process: &Process, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let listed = controller.listed(process);
        if wanted(&listed) {
            return listed;
        }
        assert!(Instant::now() < deadline, "{listed}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_named(listed: &Value) -> bool {
    listed["pod"].is_object()
}

#[needs(ROOT, POD_CGROUPS)]
fn annotations_hold_up_to_the_ceiling_of_their_namespace() {
    let mut node = Node::new();
    node.start_runtime();
    let mut controller = node.controller("[[ceiling]]\nnamespace = 'prod*'\nclass = 'high'\nshare = 100\n");
    let (mut online, mut greedy) = (controller.process_of(0), controller.process_of(0));
    node.contain(&online, 1);
    node.contain(&greedy, 2);
    let others = (3..200).map(|number| pod(number, "other", &json!({})));
    let wishes =
        json!({"xsched.dev/class": "high", "xsched.dev/weight": "70", "xsched.dev/slo": "p99 < 12ms"});
    let pods = [
        pod(1, "production", &wishes),
        pod(2, "team", &json!({"xsched.dev/class": "realtime", "xsched.dev/colour": "red"})),
    ];
    node.say(&pods.into_iter().chain(others).collect());
    for process in [&mut online, &mut greedy] {
        process.ask("connect");
        process.open(5);
    }
    let listed = wait_for(&controller, &online, is_named);
    assert_eq!(listed["pod"], json!({"namespace": "production", "name": "train-1", "container": "main"}));
    let parameters = &listed["parameters"];
    assert_eq!((&parameters["priority"], &parameters["weight"]), (&json!(100), &json!(70)), "{listed}");
    assert_eq!((&listed["from"], &listed["class"]), (&json!("pod"), &json!("high")));
    let listed = wait_for(&controller, &greedy, is_named);
    assert_eq!(listed["parameters"]["priority"], 49, "above the ceiling that holds without one: {listed}");
    assert!(online.level() < greedy.level());
    assert!(controller.say(&["list"]).contains("python3 (production/train-1/main)"));
    controller
        .process()
        .wait_for_stderr("pod team/train-2: annotation xsched.dev/colour: there is no such key");
    // Another process of a known container has its pod at once.
    let mut second = controller.process_of(0);
    node.contain(&second, 1);
    second.ask("connect");
    assert!(is_named(&controller.listed(&second)));
    // An order goes before the annotation.
    controller.say(&["set", "--pid", &online.id().to_string(), "--priority", "-5"]);
    assert_eq!(controller.listed(&online)["parameters"]["priority"], -5);
}

#[needs(ROOT, POD_CGROUPS)]
fn names_come_late_and_a_runtime_may_hang_die_and_return() {
    let mut node = Node::new();
    let mut controller = node.controller("");
    let mut process = controller.process_of(0);
    node.contain(&process, 1);
    process.ask("connect");
    process.open(5);
    controller.process().wait_for_stderr("pods have no names and their annotations no effect for now");
    // It accepts connections, and answers none.
    node.say(&json!("hang"));
    node.start_runtime();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        assert!(!is_named(&controller.listed(&process)));
        assert!(asked.elapsed() < Duration::from_secs(2), "the controller waited for the runtime");
    }
    node.stop_runtime();
    node.say(&json!([pod(2, "other", &json!({}))]));
    node.start_runtime();
    controller.process().wait_for_stderr("the container runtime answers again");
    assert!(!is_named(&controller.listed(&process)), "its container is not known yet");
    node.say(&json!([pod(1, "team", &json!({}))]));
    wait_for(&controller, &process, is_named);
}

#[needs(ROOT, POD_CGROUPS)]
fn only_those_that_may_see_a_process_see_its_pod() {
    let mut node = Node::new();
    node.say(&json!([pod(1, "team", &json!({}))]));
    node.start_runtime();
    let controller = node.controller("");
    let mut process = controller.process_of(0);
    node.contain(&process, 1);
    process.ask("connect");
    wait_for(&controller, &process, is_named);
    let mut stranger = controller.process_of(super::USER);
    let list = stranger.ask(r#"order {"verb":"list"}"#);
    assert!(!list.to_string().contains("train-1"), "{list}");
}

/// A folder of the repository.
fn deployed() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes")).to_owned()
}

#[needs(KUBERNETES_MODELS)]
fn manifests_match_the_published_schema() {
    let check = |files: &[PathBuf]| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/manifests.py");
        Command::new(python()).arg(script).args(files).output().unwrap()
    };
    let files =
        ["daemonset.yaml", "namespace.yaml", "examples/batch-job.yaml", "examples/online-service.yaml"];
    let output = check(&files.map(|name| deployed().join(name)));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    let text = fs::read_to_string(deployed().join("daemonset.yaml")).unwrap();
    fs::write(&wrong, text.replace("hostPID:", "hostPid:")).unwrap();
    assert!(!check(&[wrong]).status.success(), "the check sees an unknown field");
}

#[needs(nothing)]
fn the_deployed_configuration_is_valid() {
    let config = deployed().join("config.toml");
    let outcome = run(xsched_ctl(["serve", "--check", "--config"]).arg(config));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for line in [
        "namespace online: priority 149 (high), weight 1000",
        "/run/containerd/containerd.sock or /run/crio/crio.sock",
    ] {
        assert!(outcome.stdout.contains(line), "{line}: {}", outcome.stdout);
    }
    let kustomization = fs::read_to_string(deployed().join("kustomization.yaml")).unwrap();
    let files = kustomization
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .filter(|name| !name.contains(": "));
    for name in files {
        assert!(deployed().join(name).exists(), "kustomization.yaml names {name}");
    }
}
