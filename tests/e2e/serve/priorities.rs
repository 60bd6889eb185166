//! Priorities of processes: from rules, hints and commands, and the permissions of users.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::needs::{CGROUPS, OWN_CGROUPS, cgroups};
use xsched_tests::tracer::run;

use super::USER;
use super::fixture::{Controller, Process};

#[needs(ROOT)]
fn a_more_urgent_process_suspends_others_until_it_is_idle() {
    let mut controller = Controller::start("");
    let (mut batch, mut urgent) = (controller.joined(-10, 5), controller.joined(10, 5));
    let (low, high) = (batch.level(), urgent.level());
    assert!(high < low, "{high} {low}");
    batch.report("ready");
    batch.wait_for_ready(5, 1 << low);
    urgent.report("ready");
    batch.wait_for_ready(5, 1 << low | 1 << high);
    assert_eq!(batch.ask("wait")["woken"], true);
    let listed = controller.listed(&batch);
    assert_eq!(
        (&listed["queues"][0]["suspended"], &listed["queues"][0]["ready"]),
        (&true.into(), &true.into())
    );
    assert_eq!(controller.listed(&urgent)["queues"][0]["device"], "0000:05:00.0");
    urgent.report("idle");
    batch.wait_for_ready(5, 1 << low);
    controller.process().signal(Signal::TERM);
    assert_eq!(controller.finish().code, 0);
}

#[needs(ROOT)]
fn rules_hints_and_commands_set_the_priority_of_a_process() {
    let config = "[[rule]]\nexecutable = 'python3*'\npriority = 20\n";
    let controller = Controller::start(config);
    let (mut by_rule, by_hint) = (controller.process_of(0), controller.joined(-7, 1));
    by_rule.ask("connect");
    let stands = |process: &Process| {
        let listed = controller.listed(process);
        (listed["parameters"]["priority"].as_i64().unwrap(), listed["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(stands(&by_rule), (20, "rule".into()));
    assert_eq!(stands(&by_hint), (-7, "hint".into()));
    let pid = by_hint.id().to_string();
    let said = controller.say(&["set", "--pid", &pid, "--class", "realtime"]);
    assert!(said.contains("priority 200 (realtime)") && said.contains("was priority -7"), "{said}");
    assert_eq!(stands(&by_hint), (200, "set".into()));
    let outcome = run(&mut controller.command(&["set", "--pid", &pid, "--share", "30"]));
    let note = "note: policy `priority` ignores shares; `xsched-ctl policy partition` uses them\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, note));
    controller.say(&["set", "--pid", &pid, "--reset"]);
    assert_eq!(stands(&by_hint), (-7, "hint".into()));
    controller.say(&["set", "--claim", &by_hint.slot().to_string(), "--priority", "-99"]);
    assert_eq!(controller.listed(&by_hint)["queues"][0]["parameters"]["priority"], -99);
    let table = controller.say(&["list"]);
    assert!(table.starts_with("active, policy priority, 2 processes\n"), "{table}");
    assert!(table.contains("low -99") && table.contains("normal 20"), "{table}");
    let (code, message) = controller.refused(&["set", "--pid", "4194305", "--priority", "1"]);
    assert_eq!(code, 66, "{message}");
    let (code, message) = controller.refused(&["rules", "explain", "--pid", &pid]);
    assert_eq!(code, 69, "{message}");
    assert!(
        message.contains("this controller has no BPF programs") && message.contains("doctor`"),
        "{message}"
    );
}

/// A cgroup for a test.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Self {
        let folder = cgroups().expect("the need was probed").join(name);
        std::fs::create_dir(&folder).expect("the need was probed");
        Self(folder)
    }

    fn add(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("root may move its processes");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its processes have ended, but the kernel removes them from it with a delay.
        while std::fs::remove_dir(&self.0).is_err_and(|error| error.kind() == ErrorKind::ResourceBusy) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[needs(ROOT, OWN_CGROUPS)]
fn a_process_that_moves_to_another_cgroup_gets_its_priority() {
    let name = format!("xsched-test-{}", std::process::id());
    let cgroup = Cgroup::new(&name);
    let controller = Controller::start(&format!("[[rule]]\ncgroup = '/{name}'\npriority = -33\n"));
    let mut process = controller.process_of(0);
    process.ask("connect");
    process.open(5);
    let level = process.level();
    let mut other = controller.process_of(0);
    other.ask("connect");
    other.open(5);
    assert_eq!(level, other.level());
    cgroup.add(process.id());
    let deadline = Instant::now() + Duration::from_mins(1);
    while controller.listed(&process)["parameters"]["priority"] != -33 {
        assert!(Instant::now() < deadline, "{}", controller.listed(&process));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(process.level() > other.level());
    assert_eq!(controller.listed(&other)["parameters"]["priority"], 0);
    process.kill();
}

#[needs(CGROUPS)]
fn setting_a_priority_for_a_missing_cgroup_prints_a_note() {
    let controller = Controller::start("");
    let set = |cgroup| run(&mut controller.command(&["set", "--cgroup", cgroup, "--priority", "3"]));
    let outcome = set("/no-such.slice");
    let note =
        "note: there is no cgroup /no-such.slice on this machine: the setting applies once it exists\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, note));
    assert_eq!(outcome.stdout, "noted for cgroup /no-such.slice; no process there has joined yet\n");
    let outcome = set("/");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

#[needs(ROOT)]
fn off_resumes_all_processes_until_on() {
    let controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    let mask = 1 << process.level();
    process.report("ready");
    process.wait_for_ready(5, mask);
    assert!(controller.say(&["off"]).starts_with("off; was active; released in "));
    process.report("ready");
    process.wait_for_ready(5, 0);
    assert_eq!(process.ask("look")["obey"], 0);
    assert_eq!(controller.say(&["on"]), "active; was off\n");
    process.report("ready");
    process.wait_for_ready(5, mask);
    controller.say(&["off"]);
    assert_eq!(controller.say(&["policy", "fair"]), "fair; was priority; active again, was off\n");
    assert_eq!(controller.list()["controller"]["state"], "active");
    let (code, message) = controller.refused(&["policy", "prority"]);
    assert_eq!(code, 64, "{message}");
}

#[needs(ROOT)]
fn an_observer_decides_and_suspends_no_process() {
    let controller = Controller::start("[scheduler]\nobserve = true\n");
    let mut urgent = controller.process_of(0);
    assert_eq!(urgent.ask("connect 20")["observe"], 1);
    urgent.open(5);
    let mut batch = controller.joined(-20, 5);
    assert!(urgent.level() < batch.level());
    urgent.report("ready");
    let deadline = Instant::now() + Duration::from_mins(1);
    while controller.listed(&urgent)["queues"][0]["ready"] != true {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(urgent.ask("look")["obey"], 0);
    urgent.wait_for_ready(5, 0);
}

#[needs(ROOT)]
fn a_user_changes_own_processes_within_the_ceiling() {
    let mut controller = Controller::start("");
    let mut own = controller.process_of(USER);
    assert_eq!(own.ask("connect 255")["keeper"], 2);
    let roots = controller.joined(0, 1);
    assert_eq!(controller.listed(&own)["parameters"]["priority"], 49, "the ceiling of class normal");
    let set = |pid: u32, priority: i32| {
        format!(r#"order {{"verb":"set","target":{{"pid":{pid}}},"wish":{{"priority":{priority}}}}}"#)
    };
    assert_eq!(own.ask(&set(own.id(), -3))["answer"], "set");
    assert_eq!(own.ask(&set(own.id(), 49))["answer"], "set");
    let run = r#"order {"verb":"run","wish":{"priority":50},"token":"000102030405060708090a0b0c0d0e0f"}"#;
    for order in [&set(own.id(), 50), run] {
        assert_eq!(own.ask(order)["reason"], "above-ceiling", "{order}");
    }
    for order in [
        &set(roots.id(), -1),
        r#"order {"verb":"off"}"#,
        r#"order {"verb":"on"}"#,
        r#"order {"verb":"policy","name":"fair"}"#,
        r#"order {"verb":"set","target":{"cgroup":"/"},"wish":{"priority":-1}}"#,
    ] {
        assert_eq!(own.ask(order)["reason"], "not-permitted", "{order}");
    }
    let others = own.ask(r#"order {"verb":"list"}"#);
    let commands: Vec<_> =
        others["processes"].as_array().unwrap().iter().map(|one| &one["command"]).collect();
    assert!(commands.contains(&&"".into()) && commands.len() == 2, "{others}");
    drop((own, roots));
    controller.process().signal(Signal::TERM);
    let account = controller.finish().stderr;
    assert_eq!(account.matches("refused: ").count(), 7, "{account}");
    assert_eq!(account.matches("allowed: ").count(), 2, "{account}");
    assert!(account.contains(&format!("uid={USER} ")), "{account}");
}
