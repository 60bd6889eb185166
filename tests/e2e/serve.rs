//! `xsched-ctl serve` and the commands that speak to it, with a stand-in for the shim.

#[path = "serve/fixture.rs"]
mod fixture;

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use xsched_tests::artifacts::xsched_ctl as binary;
use xsched_tests::privileged::may_trace;
use xsched_tests::tracer::{Running, run, xsched_ctl};

use fixture::{Controller, Process};

/// Nobody.
const USER: u32 = 65534;

#[test]
fn the_more_urgent_process_holds_others_back_until_it_is_idle() {
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
    assert_eq!((&listed["queues"][0]["held"], &listed["queues"][0]["ready"]), (&true.into(), &true.into()));
    assert_eq!(controller.listed(&urgent)["queues"][0]["device"], "0000:05:00.0");
    urgent.report("idle");
    batch.wait_for_ready(5, 1 << low);
    controller.process().signal(Signal::TERM);
    assert_eq!(controller.finish().code, 0);
}

#[test]
fn rules_hints_and_orders_say_how_a_process_stands() {
    let config = "[[rule]]\nexecutable = 'python3*'\npriority = 20\n";
    let controller = Controller::start(config);
    let (mut by_rule, by_hint) = (controller.process_of(0), controller.joined(-7, 1));
    by_rule.ask("connect");
    let stands = |process: &Process| {
        let listed = controller.listed(process);
        (listed["standing"]["priority"].as_i64().unwrap(), listed["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(stands(&by_rule), (20, "rule".into()));
    assert_eq!(stands(&by_hint), (-7, "hint".into()));
    let pid = by_hint.id().to_string();
    let said = controller.say(&["set", "--pid", &pid, "--class", "realtime"]);
    assert!(said.contains("priority 200 (realtime)") && said.contains("was priority -7"), "{said}");
    assert_eq!(stands(&by_hint), (200, "set".into()));
    let outcome = run(&mut controller.command(&["set", "--pid", &pid, "--share", "30"]));
    let note = "note: policy `priority` takes no notice of shares; `xsched-ctl policy partition` does\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, note));
    controller.say(&["set", "--pid", &pid, "--reset"]);
    assert_eq!(stands(&by_hint), (-7, "hint".into()));
    controller.say(&["set", "--queue", &by_hint.slot().to_string(), "--priority", "-99"]);
    assert_eq!(controller.listed(&by_hint)["queues"][0]["standing"]["priority"], -99);
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

#[test]
fn who_sets_something_for_a_cgroup_that_there_is_not_is_told() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    if !mounts.lines().any(|line| line.contains(" - cgroup2 ") && line.split(' ').nth(3) == Some("/")) {
        return eprintln!("skipped: the cgroups of this machine are not to be seen");
    }
    let controller = Controller::start("");
    let set = |cgroup| run(&mut controller.command(&["set", "--cgroup", cgroup, "--priority", "3"]));
    let outcome = set("/no-such.slice");
    let note = "note: there is no cgroup /no-such.slice on this machine: what was set waits until there is\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, note));
    assert_eq!(outcome.stdout, "noted for cgroup /no-such.slice; nobody there has joined yet\n");
    let outcome = set("/");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

#[test]
fn a_controller_says_as_json_that_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = xsched_ctl(["serve", "--no-bpf", "--json"]);
    let mut running = Running::start(serve.env("XSCHED_SOCKET_DIR", folder.path()));
    let line = running.wait_for_stdout("answer");
    let status: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&status["answer"], &status["state"]), (&"status".into(), &"active".into()), "{line}");
    assert_eq!(status["pid"], running.pid(), "{line}");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code, 0);
}

#[test]
fn nobody_keeps_others_from_giving_orders() {
    let controller = Controller::start("");
    let mut user = controller.process_of(USER);
    let held = user.ask("crowd 3000");
    assert!(held["held"].as_u64().is_some_and(|held| (1..2000).contains(&held)), "{held}");
    assert!(held["told"][0].as_str().is_some_and(|told| told.contains("too many connections")), "{held}");
    assert!(controller.say(&["off"]).starts_with("off; was active"));
}

#[test]
fn nobody_writes_into_the_account_of_changes() {
    let mut controller = Controller::start("");
    let mut user = controller.process_of(USER);
    let forged =
        r#"{"verb":"set","target":{"cgroup":"/x\n\u0020INFO\u0020audit:\u0020uid=0"},"wish":{"priority":3}}"#;
    assert_eq!(user.ask(&format!("order {forged}"))["answer"], "refused");
    user.ask("connect");
    user.ask(r#"settings "x\n INFO audit: uid=0" = 1"#);
    controller.process().wait_for_stderr("own rules are left out");
    controller.process().signal(Signal::TERM);
    let account = controller.finish().stderr;
    assert!(account.contains("refused: set cgroup /x"), "{account}");
    assert!(!account.lines().any(|line| line.starts_with(" INFO audit: uid=0")), "{account}");
}

/// A process maps what it likes, and the controller looks for the shim in it.
#[test]
fn a_process_that_maps_much_keeps_nobody_waiting() {
    if !may_trace("a_process_that_maps_much_keeps_nobody_waiting") {
        return;
    }
    let controller = Controller::start_with_programs("");
    let mut user = controller.process_of(USER);
    user.ask("clutter 30000");
    let pending = std::thread::scope(|scope| {
        let joining = scope.spawn(move || user.ask("connect"));
        for _ in 0..20 {
            let began = std::time::Instant::now();
            controller.say(&["list"]);
            let took = began.elapsed();
            assert!(took < std::time::Duration::from_millis(900), "{took:?}");
        }
        joining.join().unwrap()
    });
    assert_eq!(pending["keeper"], 1, "{pending}");
}

#[test]
fn off_releases_everybody_until_on() {
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

#[test]
fn an_observer_decides_and_holds_nobody_back() {
    let controller = Controller::start("[scheduler]\nobserve = true\n");
    let mut urgent = controller.process_of(0);
    assert_eq!(urgent.ask("connect 20")["observe"], 1);
    urgent.open(5);
    let mut batch = controller.joined(-20, 5);
    assert!(urgent.level() < batch.level());
    urgent.report("ready");
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while controller.listed(&urgent)["queues"][0]["ready"] != true {
        assert!(std::time::Instant::now() < deadline);
    }
    assert_eq!(urgent.ask("look")["obey"], 0);
    urgent.wait_for_ready(5, 0);
}

#[test]
fn a_user_changes_his_own_processes_within_his_ceiling() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can be two users");
    }
    let mut controller = Controller::start("");
    let mut own = controller.process_of(USER);
    assert_eq!(own.ask("connect 255")["keeper"], 2);
    let roots = controller.joined(0, 1);
    assert_eq!(controller.listed(&own)["standing"]["priority"], 49, "the ceiling of class normal");
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

#[test]
fn a_second_controller_is_refused() {
    let mut controller = Controller::start("");
    let (code, message) = controller.refused(&["serve", "--no-bpf"]);
    assert_eq!(code, 69);
    let pid = controller.process().pid();
    assert!(message.contains(&format!("a controller is running already: process {pid}")), "{message}");
    assert!(message.contains("hint: "), "{message}");
}

#[test]
fn who_lacks_the_privileges_for_programs_is_told_which() {
    if !may_trace("who_lacks_the_privileges_for_programs_is_told_which") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lacking = "-sys_admin,-bpf";
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", lacking, "--inh-caps", lacking]).arg(binary()).arg("serve");
    let mut serve = Running::start(command.env("XSCHED_SOCKET_DIR", folder.path()));
    serve.wait_for_stderr("page kept by the controller itself");
    let outcome = serve.interrupt();
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(": Operation not permitted"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("missing: CAP_BPF, CAP_SYS_ADMIN; `--no-bpf`"), "{}", outcome.stderr);
}

#[test]
fn the_end_in_good_order_releases_everybody_and_removes_the_sockets() {
    let mut controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    controller.process().signal(Signal::INT);
    assert_eq!(controller.finish().code, 0);
    assert_eq!(process.ask("end")["end"], true);
    assert_eq!(process.ask("look")["obey"], 0);
    process.wait_for_ready(5, 0);
    assert!(!controller.folder().join("shim.sock").exists());
    let (code, message) = controller.refused(&["list"]);
    assert_eq!(code, 69);
    assert!(message.contains("no controller is running"), "{message}");
}

#[test]
fn processes_come_back_after_the_controller_was_killed() {
    let mut controller = Controller::start("");
    let mut processes = [controller.joined(1, 5), controller.joined(2, 5)];
    controller.process().signal(Signal::KILL);
    assert_eq!(controller.finish().code, 128 + 9);
    for process in &mut processes {
        assert_eq!(process.ask("end")["end"], true);
    }
    assert_eq!(run(&mut controller.command(&["off"])).code, 0, "what was wanted holds");
    controller.restart("");
    for (process, priority) in processes.iter_mut().zip([1, 2]) {
        process.ask(&format!("connect {priority}"));
        process.open(5);
    }
    let [low, high] = &mut processes;
    assert!(high.level() < low.level());
    assert_eq!(controller.list()["processes"].as_array().unwrap().len(), 2);
}

#[test]
fn programs_release_everybody_when_the_controller_is_killed() {
    if !may_trace("programs_release_everybody_when_the_controller_is_killed") {
        return;
    }
    let mut controller = Controller::start_with_programs("");
    let mut process = controller.process_of(0);
    let welcome = process.ask("connect");
    assert_eq!((&welcome["keeper"], &welcome["may_write"]), (&1.into(), &false.into()), "{welcome}");
    // No program hears this stand-in, so that the controller speaks for it.
    process.open(5);
    assert_eq!(controller.listed(&process)["reports"], "controller");
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    controller.process().signal(Signal::KILL);
    controller.finish();
    process.wait_for_ready(5, 0);
    assert_eq!(process.ask("look")["obey"], 0);
    controller.restart("");
    let again = process.ask("connect");
    assert!(again["epoch"].as_u64() > welcome["epoch"].as_u64(), "{again}");
    process.open(5);
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    controller.process().signal(Signal::TERM);
    assert_eq!(controller.finish().code, 0);
    process.wait_for_ready(5, 0);
    assert!(
        !Path::new("/sys/fs/bpf/xsched/page").exists(),
        "a controller that ends in good order leaves nothing"
    );
}

#[test]
fn a_process_that_is_killed_holds_nobody_back() {
    let controller = Controller::start("");
    let (mut batch, mut urgent) = (controller.joined(-10, 5), controller.joined(10, 5));
    urgent.report("ready");
    let mask = 1 << urgent.level();
    batch.wait_for_ready(5, mask);
    urgent.kill();
    batch.wait_for_ready(5, 0);
    assert_eq!(controller.list()["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn the_page_cannot_be_written_by_processes() {
    let controller = Controller::start("");
    assert_eq!(controller.process_of(0).ask("connect")["may_write"], false);
}

#[test]
fn packets_that_make_no_sense_end_their_connection_and_nothing_else() {
    let controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    let mut hostile = controller.process_of(0);
    let malformed = [
        "00",
        "01000000",
        "ffffffff",
        // An order before the greeting.
        "030000000700000000000000010000800000000000000000",
        // Longer than any packet.
        &"01".repeat(64),
    ];
    for packet in malformed {
        assert_eq!(hostile.ask(&format!("raw {packet}"))["refused"], 2, "{packet}");
        assert_eq!(hostile.ask("end")["end"], true);
    }
    // Another version.
    let hello = format!("01000000{}{}", "63000000", "00".repeat(40));
    assert_eq!(hostile.ask(&format!("raw {hello}"))["refused"], 1);
    // A second greeting, and nonsense after a good one.
    for packet in ["07", &format!("01000000{}", "00".repeat(44))] {
        hostile.ask("connect");
        assert_eq!(hostile.ask(&format!("packet {packet}"))["refused"], 2, "{packet}");
    }
    for line in ["{}", "x", r#"{"verb":"set"}"#, &"[".repeat(1000)] {
        assert_eq!(hostile.ask(&format!("order {line}"))["reason"], "malformed", "{line}");
    }
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    let counts = &controller.list()["controller"]["counts"];
    assert_eq!(counts["malformed"], 7, "{counts}");
}

#[test]
fn random_packets_do_no_harm() {
    let controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    let mut hostile = controller.process_of(0);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..300 {
        if round % 5 == 0 {
            hostile.ask("connect");
        }
        // Kinds that exist, of lengths that mostly exist, about everything and nobody.
        let mut bytes = vec![[1, 3, 5, 6][round % 4], 0, 0, 0];
        let len = [48, 24, 24, 48][round % 4] + usize::from(round % 7 == 0);
        while bytes.len() < len {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes.push(if random.trailing_zeros() >= 2 { (random >> 8) as u8 } else { 0 });
        }
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let text: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        // It may have been refused before: only the controller's health counts.
        hostile.ask(&format!("throw {text}"));
    }
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    process.report("idle");
    process.wait_for_ready(5, 0);
}

#[test]
fn a_command_stands_as_it_was_run() {
    let controller = Controller::start("");
    let mut command = controller.command(&["run", "--priority", "150", "--json", "--shim"]);
    command.arg(xsched_tests::artifacts::shim()).arg("--").args(["sh", "-c"]);
    // The process reads its orders from here, and the shell gives the exit status.
    let script = fixture::python(controller.folder());
    let words: Vec<_> = std::iter::once(script.get_program()).chain(script.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let pipeline =
        format!("printf 'connect\\nopen 5\\norder {{\"verb\":\"list\"}}\\n' | {}; exit 7", words.join(" "));
    let outcome = run(command.arg(pipeline));
    assert_eq!(outcome.code, 7, "{}", outcome.stderr);
    let list: serde_json::Value = serde_json::from_str(outcome.stdout.lines().last().unwrap()).unwrap();
    let process = &list["processes"][0];
    assert_eq!((&process["standing"]["priority"], &process["from"]), (&150.into(), &"run".into()));
    let told = outcome.stderr.lines().last().unwrap();
    assert_eq!(told, r#"{"code":7,"controller":true,"joined":1}"#);
}

#[test]
fn a_command_that_cannot_be_started_is_not_called_done() {
    let mut controller = Controller::start("");
    let mut command = controller.command(&["run", "--priority", "150", "--shim"]);
    let outcome = run(command.arg(xsched_tests::artifacts::shim()).args(["--", "/no/such/program"]));
    assert_eq!(outcome.code, 127, "{}", outcome.stderr);
    controller.process().signal(Signal::TERM);
    let account = controller.finish().stderr;
    let told = "allowed: run a command with priority 150: noted for the processes that it starts\n";
    assert!(account.contains(told), "{account}");
}

#[test]
fn who_promises_more_than_there_is_is_told_by_run_and_in_the_log() {
    let mut controller = Controller::start(
        "[scheduler]\npolicy = 'partition'\n[[rule]]\nuser = 'root'\nshare = 70\n[[rule]]\nshare = 40\n",
    );
    let warned = "shares of 0000:05:00.0 ";
    let first = controller.joined(0, 5);
    let mut run_with = controller.command(&["run", "--share", "50", "--shim"]);
    let outcome = run(run_with.arg(xsched_tests::artifacts::shim()).args(["--", "true"]));
    let told = format!(
        "warning: {warned}would come, with this command's, to 120 %, so all shrink in proportion: 50 % is 42 % while all have work\n"
    );
    assert_eq!((outcome.code, outcome.stderr), (0, told));
    let second = controller.joined(0, 5);
    let line = controller.process().wait_for_stderr(warned);
    let pid = second.id();
    assert!(
        line.contains(&format!("with process {pid} {warned}come to 140 %, so all shrink in proportion")),
        "{line}"
    );
    drop((first, second));
    controller.process().signal(Signal::TERM);
    let said = controller.finish().stderr;
    assert_eq!(said.matches(warned).count(), 1, "{said}");
    assert!(said.contains("config.toml, lines 5, 8: shares of these rules come to 110 %, "), "{said}");
}

#[test]
fn a_command_gets_the_shim_after_what_it_had_preloaded() {
    let folder = tempfile::tempdir().unwrap();
    let shim = xsched_tests::artifacts::shim();
    let outcome = run(xsched_ctl(["run", "--shim"])
        .arg(&shim)
        .args(["sh", "-c", "echo $LD_PRELOAD; echo $XSCHED_TOKEN"])
        .env("LD_PRELOAD", "libc.so.6")
        .env("XSCHED_SOCKET_DIR", folder.path()));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let mut lines = outcome.stdout.lines();
    let shim = std::fs::canonicalize(shim).unwrap();
    assert_eq!(lines.next().unwrap(), format!("libc.so.6:{}", shim.display()));
    assert_eq!(lines.next().unwrap().len(), 32);
    assert!(
        outcome.stderr.contains("no controller is running: the command runs unscheduled"),
        "{}",
        outcome.stderr
    );
    let required = run(xsched_ctl(["run", "--require-controller", "--shim"])
        .arg(xsched_tests::artifacts::shim())
        .args(["echo", "ran"])
        .env("XSCHED_SOCKET_DIR", folder.path()));
    assert_eq!((required.code, required.stdout.as_str()), (69, ""), "{}", required.stderr);
}

#[test]
fn run_says_when_a_process_uses_hip_without_the_shim() {
    // `env -u` takes the preload away, as the loader does for programs that it does not trust.
    let folder = tempfile::tempdir().unwrap();
    let hip = xsched_tests::artifacts::hip_sim(6).join("libamdhip64.so.6");
    let script = "import ctypes, sys, time; hip = ctypes.CDLL(sys.argv[1]); time.sleep(60)";
    let mut command = xsched_ctl(["run", "--shim"]);
    command
        .arg(xsched_tests::artifacts::shim())
        .args(["env", "-u", "LD_PRELOAD", "python3", "-c", script])
        .arg(hip)
        .env("XSCHED_SOCKET_DIR", folder.path());
    let mut running = Running::start(&mut command);
    let line = running.wait_for_stderr("uses HIP without the shim");
    assert!(line.starts_with("xsched-ctl: process "), "{line}");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code, 128 + 15);
}

#[test]
fn mistakes_in_the_configuration_are_named_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "[scheduler]\npolicy = 'piority'\n").unwrap();
    let outcome =
        run(xsched_ctl(["serve", "--no-bpf", "--config"]).arg(&file).env("XSCHED_SOCKET_DIR", folder.path()));
    assert_eq!(outcome.code, 65);
    let wanted = "config.toml, line 2: there is no policy `piority`; did you mean `priority`?";
    assert!(outcome.stderr.contains(wanted), "{}", outcome.stderr);
}

#[test]
fn a_configuration_is_checked_and_nothing_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let (config, rules) = (folder.path().join("config.toml"), folder.path().join("rules.toml"));
    let sockets = folder.path().join("sockets");
    std::fs::create_dir(&sockets).unwrap();
    let check = |config_text: &str, rules_text: &str| {
        std::fs::write(&config, config_text).unwrap();
        std::fs::write(&rules, rules_text).unwrap();
        let mut check = xsched_ctl(["serve", "--check", "--config"]);
        run(check.arg(&config).env("XSCHED_SOCKET_DIR", &sockets))
    };
    let outcome = check(
        "rules = 'rules.toml'\n[scheduler]\npolicy = 'piority'\nlease = 3\n[[rule]]\nuser = 'root'\n",
        "[[rule]]\naction = 'skip'\n[[rule]]\nlibary = 'x'\n",
    );
    assert_eq!((outcome.code, outcome.stdout.as_str()), (65, ""));
    let (config_name, rules_name) = (config.display(), rules.display());
    for line in [
        format!("xsched-ctl: {config_name}, line 3: there is no policy `piority`; did you mean `priority`?"),
        format!("{config_name}, line 4: `lease` must be a time such as \"50ms\", not a number"),
        format!("{config_name}, line 5: a rule needs a class, priority, weight or share"),
        format!(
            "xsched-ctl: {rules_name}, line 2: there is no action `skip`; there are: schedule, passthrough, never-suspend"
        ),
        format!("{rules_name}, line 4: there is no key `libary`; did you mean `library`?"),
    ] {
        assert!(outcome.stderr.lines().any(|told| told == line), "{line}: {}", outcome.stderr);
    }
    let hints: Vec<_> = outcome.stderr.lines().filter_map(|line| line.strip_prefix("hint: ")).collect();
    let hint = |section| {
        format!("change the lines that are named; README.md, section \"{section}\", has an example")
    };
    assert_eq!(
        hints,
        [hint("What you can control"), hint("Rules")],
        "nobody is told to do what he has just done"
    );
    let outcome = run(xsched_ctl(["rules", "check"]).arg(&rules));
    assert_eq!(outcome.stderr.lines().last(), Some(format!("hint: {}", hint("Rules")).as_str()));
    let outcome = check(
        "rules = 'rules.toml'\n[[rule]]\nuser = 'no-such-user'\nclass = 'high'\n",
        "[[rule]]\nlibrary = 'a.so'\naction = 'passthrough'\n",
    );
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let rule = format!("  {config_name}:2: user no-such-user: priority 100 (high), weight 100\n");
    assert!(outcome.stdout.contains(&rule), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains(&format!("  {rules_name}:1: passthrough: library a.so\n")),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome.stderr.starts_with(&format!("warning: {config_name}, line 2: no user")),
        "{}",
        outcome.stderr
    );
    std::fs::remove_file(&rules).unwrap();
    let outcome = run(xsched_ctl(["serve", "--check", "--config"]).arg(&config));
    assert_eq!(outcome.code, 66, "{}", outcome.stderr);
    assert_eq!(std::fs::read_dir(&sockets).unwrap().count(), 0, "nothing was started");
}

#[test]
fn a_configuration_that_is_read_anew_holds_for_those_who_are_connected() {
    let mut controller = Controller::start("[[rule]]\nuser = 'root'\npriority = 20\n");
    let (mut roots, mut users) = (controller.process_of(0), controller.process_of(USER));
    for process in [&mut roots, &mut users] {
        process.ask("connect");
        process.open(5);
    }
    assert!(roots.level() < users.level());
    let said = controller.reload(
        "[scheduler]\npolicy = 'fair'\npreemption = 1\n[[rule]]\nuser = '65534'\npriority = 30\n",
        "files were read anew",
    );
    assert!(said.contains("active, policy fair, ") && said.contains("1 rule for processes"), "{said}");
    let priority = |controller: &Controller, process: &Process| {
        controller.listed(process)["standing"]["priority"].as_i64().unwrap()
    };
    assert_eq!((priority(&controller, &roots), priority(&controller, &users)), (0, 30));
    assert!(users.level() < roots.level());
    // A file that is wrong changes nothing.
    let said =
        controller.reload("[scheduler]\npolicy = 'partiton'\n[[rule]]\nclass = 'low'\n", "nothing changes: ");
    assert!(
        said.contains("config.toml, line 4: there is no policy `partiton`; did you mean `partition`?"),
        "{said}"
    );
    assert_eq!(
        (priority(&controller, &users), &controller.list()["controller"]["policy"]),
        (30, &"fair".into())
    );
    // What was ordered goes before the file.
    controller.say(&["policy", "priority"]);
    controller.say(&["set", "--pid", &roots.id().to_string(), "--priority", "7"]);
    let said = controller.reload("[[rule]]\npriority = -9\n", "files were read anew");
    assert!(said.contains("policy priority"), "{said}");
    assert_eq!((priority(&controller, &roots), priority(&controller, &users)), (7, -9));
    let said = controller.reload("[scheduler]\npolicy = 'partition'\n", "a command has ordered");
    assert!(said.contains("policy priority stays"), "{said}");
    // A user cannot have it read.
    assert_eq!(users.ask(&format!("signal {}", controller.process().pid()))["error"], "PermissionError");
    controller.process().signal(Signal::TERM);
    let outcome = controller.finish();
    assert_eq!(outcome.code, 0);
    for line in ["policy: priority -> fair", "preemption: 2 -> 1: for processes that connect from now on"] {
        assert!(outcome.stderr.contains(line), "{line}: {}", outcome.stderr);
    }
}

#[test]
fn rules_on_calls_are_read_anew_with_the_configuration_that_names_them() {
    let mut controller = Controller::start("");
    let rules = controller.folder().join("rules.toml");
    std::fs::write(&rules, "[[rule]]\nlibrary = 'a.so'\naction = 'pass'\n").unwrap();
    let names_them = "rules = 'rules.toml'\n[[rule]]\npriority = 9\n";
    let said = controller.reload(names_them, "nothing changes: ");
    assert!(said.contains("rules.toml, line 3: there is no action `pass`"), "{said}");
    assert!(controller.say(&["list"]).contains("priority"), "it lives");
    std::fs::write(&rules, "profile = 'compat'\n").unwrap();
    // First what has happened, then what has become of it.
    controller.reload(names_them, "files were read anew");
    controller.process().wait_for_stderr("0 of 0 processes stand otherwise");
    controller.process().wait_for_stderr("rules on calls hold from now on");
    // From now on it is looked at.
    std::fs::write(&rules, "profile = 'default'\n").unwrap();
    controller.process().wait_for_stderr("rules on calls hold from now on");
}

#[test]
fn a_file_that_cannot_be_read_at_once_keeps_nobody_waiting() {
    let mut controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    let file = controller.folder().join("config.toml");
    std::fs::remove_file(&file).unwrap();
    // It can be read when somebody has written it.
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).unwrap();
    controller.process().signal(Signal::HUP);
    let writer = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    let mask = 1 << process.level();
    for _ in 0..3 {
        process.report("ready");
        process.wait_for_ready(5, mask);
        process.report("idle");
        process.wait_for_ready(5, 0);
        assert_eq!(controller.listed(&process)["standing"]["priority"], 0);
    }
    std::io::Write::write_all(&mut &writer, b"[[rule]]\npriority = 9\nweight = 3\n").unwrap();
    drop(writer);
    controller.process().wait_for_stderr("files were read anew");
    assert_eq!(controller.listed(&process)["standing"]["weight"], 3);
}

#[test]
fn a_service_manager_is_told_when_files_are_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let manager = std::os::unix::net::UnixDatagram::bind(folder.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(std::time::Duration::from_mins(1))).unwrap();
    let hear = || {
        let mut message = [0; 256];
        let len = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "").unwrap();
    let mut serve = xsched_ctl(["serve", "--no-bpf", "--config"]);
    serve.arg(&config).env("XSCHED_SOCKET_DIR", folder.path());
    let running = Running::start(serve.env("NOTIFY_SOCKET", folder.path().join("notify")));
    assert_eq!(hear(), "READY=1");
    for (text, status) in [
        ("[scheduler]\npolicy = 'fair'\n", "files were read anew"),
        ("policy = 'fair'\n", "files were read anew and are wrong, so that what held before holds"),
    ] {
        std::fs::write(&config, text).unwrap();
        let before = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        running.signal(Signal::HUP);
        let reloading = hear();
        let us: i64 = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!(us >= before.tv_sec * 1_000_000 + before.tv_nsec / 1_000, "{us} {before:?}");
        assert_eq!(hear(), format!("READY=1\nSTATUS={status}"));
    }
    running.signal(Signal::TERM);
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(running.finish().code, 0);
}

const FAR_AWAY: &str = "[[rule]]\nuser = 'ada'\nclass = 'high'\n[[rule]]\nuser = 'svc-*'\nclass = 'low'\n\
                        [[ceiling]]\nuser = 'ada'\nclass = 'realtime'\n[[ceiling]]\nuser = 'nobody-at-all'\nclass = 'high'\n";

#[test]
fn users_of_a_directory_service_are_known_by_their_names() {
    if !may_trace("users_of_a_directory_service_are_known_by_their_names") {
        return;
    }
    let (_folder, wrapper) = fixture::far_away_users();
    let mut controller = Controller::start_by(wrapper, FAR_AWAY);
    let line = controller.process().wait_for_stderr("never fits");
    assert!(line.contains("config.toml, line 10: no user is called `nobody-at-all`"), "{line}");
    let (mut ada, mut service) = (controller.process_of(70_001), controller.process_of(70_002));
    for process in [&mut ada, &mut service] {
        process.ask("connect");
    }
    let stands = |controller: &Controller, process: &Process| {
        let listed = controller.listed(process);
        (listed["user"].as_str().unwrap().to_owned(), listed["standing"]["priority"].as_i64().unwrap())
    };
    // She is asked for by the name in the configuration, and goes by that.
    assert_eq!(stands(&controller, &ada), ("ada".to_owned(), 100));
    assert_eq!(stands(&controller, &service), ("svc-render".to_owned(), -100));
    let order =
        format!(r#"order {{"verb":"set","target":{{"pid":{}}},"wish":{{"priority":222}}}}"#, ada.id());
    assert_eq!(ada.ask(&order)["answer"], "set");
    // Names that were found out stay when files are read anew.
    controller.reload("[[rule]]\nuser = 'svc-rend??'\npriority = -7\n", "files were read anew");
    assert_eq!(stands(&controller, &service), ("svc-render".to_owned(), -7));
}

#[test]
fn a_directory_service_that_does_not_answer_keeps_nobody_waiting() {
    if !may_trace("a_directory_service_that_does_not_answer_keeps_nobody_waiting") {
        return;
    }
    let (folder, wrapper) = fixture::far_away_users();
    let mut controller = Controller::start_by(wrapper, "");
    let slow = folder.path().join("slow");
    std::fs::write(&slow, "").unwrap();
    // While it is asked who has a name, and what somebody is called, others go on.
    let (mut service, mut other) = (controller.process_of(70_002), controller.process_of(0));
    controller.reload(FAR_AWAY, "could not be found out (no answer within 5 s)");
    service.ask("connect");
    other.ask("connect");
    other.open(5);
    let mask = 1 << other.level();
    other.report("ready");
    other.wait_for_ready(5, mask);
    assert_eq!(controller.listed(&service)["user"], "70002");
    std::fs::remove_file(&slow).unwrap();
    // The answer comes late, and holds from then on.
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while controller.listed(&service)["standing"]["priority"] != -100 {
        assert!(std::time::Instant::now() < deadline, "{}", controller.listed(&service));
    }
    assert_eq!(controller.listed(&service)["user"], "svc-render");
    let line = controller.reload(FAR_AWAY, "never fits");
    assert!(line.contains("no user is called `nobody-at-all`"), "{line}");
}
