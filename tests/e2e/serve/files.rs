//! The controller's files: mistakes in them, and how they are reloaded.

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::tracer::{Running, run, xsched_ctl};

use super::USER;
use super::fixture::{Controller, Process};

#[needs(nothing)]
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

#[needs(nothing)]
fn a_configuration_is_checked_without_starting_a_controller() {
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
        format!(
            "{config_name}, line 5: a rule needs a class, priority, weight, share, quota, deadline, work or slo"
        ),
        format!(
            "xsched-ctl: {rules_name}, line 2: there is no action `skip`; there are: schedule, passthrough, never-suspend"
        ),
        format!("{rules_name}, line 4: there is no key `libary`; did you mean `library`?"),
    ] {
        assert!(outcome.stderr.lines().any(|told| told == line), "{line}: {}", outcome.stderr);
    }
    let hints: Vec<_> = outcome.stderr.lines().filter_map(|line| line.strip_prefix("hint: ")).collect();
    let hint = |document| format!("correct these lines; {document} has an example");
    assert_eq!(
        hints,
        [hint("docs/configuration.md"), hint("docs/rules.md")],
        "a hint does not repeat the command that was just run"
    );
    let outcome = run(xsched_ctl(["rules", "check"]).arg(&rules));
    assert_eq!(outcome.stderr.lines().last(), Some(format!("hint: {}", hint("docs/rules.md")).as_str()));
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
        outcome.stderr.starts_with(&format!("warning: {config_name}, line 2: there is no user")),
        "{}",
        outcome.stderr
    );
    std::fs::remove_file(&rules).unwrap();
    let outcome = run(xsched_ctl(["serve", "--check", "--config"]).arg(&config));
    assert_eq!(outcome.code, 66, "{}", outcome.stderr);
    assert_eq!(std::fs::read_dir(&sockets).unwrap().count(), 0, "nothing was started");
}

#[needs(ROOT)]
fn a_reloaded_configuration_applies_to_connected_processes() {
    let mut controller = Controller::start("[[rule]]\nuser = 'root'\npriority = 20\n");
    let (mut roots, mut users) = (controller.process_of(0), controller.process_of(USER));
    for process in [&mut roots, &mut users] {
        process.ask("connect");
        process.open(5);
    }
    assert!(roots.level() < users.level());
    let said = controller.reload(
        "[scheduler]\npolicy = 'fair'\npreemption = 1\n[[rule]]\nuser = '65534'\npriority = 30\n",
        "reloaded files",
    );
    assert!(said.contains("active, policy fair, ") && said.contains("1 rule for processes"), "{said}");
    let priority = |controller: &Controller, process: &Process| {
        controller.listed(process)["parameters"]["priority"].as_i64().unwrap()
    };
    assert_eq!((priority(&controller, &roots), priority(&controller, &users)), (0, 30));
    assert!(users.level() < roots.level());
    // An invalid file changes nothing.
    let said = controller.reload(
        "[scheduler]\npolicy = 'partiton'\n[[rule]]\nclass = 'low'\n",
        "keeping the previous settings: ",
    );
    assert!(
        said.contains("config.toml, line 4: there is no policy `partiton`; did you mean `partition`?"),
        "{said}"
    );
    assert_eq!(
        (priority(&controller, &users), &controller.list()["controller"]["policy"]),
        (30, &"fair".into())
    );
    // Runtime commands override the file.
    controller.say(&["policy", "priority"]);
    controller.say(&["set", "--pid", &roots.id().to_string(), "--priority", "7"]);
    let said = controller.reload("[[rule]]\npriority = -9\n", "reloaded files");
    assert!(said.contains("policy priority"), "{said}");
    assert_eq!((priority(&controller, &roots), priority(&controller, &users)), (7, -9));
    let said = controller.reload("[scheduler]\npolicy = 'partition'\n", "a command has set it");
    assert!(said.contains("policy priority stays"), "{said}");
    // An unprivileged user cannot request a reload.
    assert_eq!(users.ask(&format!("signal {}", controller.process().pid()))["error"], "PermissionError");
    controller.process().signal(Signal::TERM);
    let outcome = controller.finish();
    assert_eq!(outcome.code, 0);
    for line in
        ["policy: priority -> fair", "preemption: 2 -> 1: applies to processes that connect from now on"]
    {
        assert!(outcome.stderr.contains(line), "{line}: {}", outcome.stderr);
    }
}

#[needs(nothing)]
fn rules_on_calls_are_reloaded_with_the_configuration_that_names_them() {
    let mut controller = Controller::start("");
    let rules = controller.folder().join("rules.toml");
    std::fs::write(&rules, "[[rule]]\nlibrary = 'a.so'\naction = 'pass'\n").unwrap();
    let names_them = "rules = 'rules.toml'\n[[rule]]\npriority = 9\n";
    let said = controller.reload(names_them, "keeping the previous settings: ");
    assert!(said.contains("rules.toml, line 3: there is no action `pass`"), "{said}");
    assert!(controller.say(&["list"]).contains("priority"), "the controller still runs");
    std::fs::write(&rules, "profile = 'compat'\n").unwrap();
    // First the event, then its result.
    controller.reload(names_them, "reloaded files");
    controller.process().wait_for_stderr("parameters of 0 of 0 processes changed");
    controller.process().wait_for_stderr("rules on calls apply from now on");
    // From now on the controller watches the file.
    std::fs::write(&rules, "profile = 'default'\n").unwrap();
    controller.process().wait_for_stderr("rules on calls apply from now on");
}

#[needs(ROOT)]
fn a_file_that_blocks_its_reader_blocks_no_process() {
    let mut controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    let file = controller.folder().join("config.toml");
    std::fs::remove_file(&file).unwrap();
    // Reading it succeeds once another process has written it.
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).unwrap();
    controller.process().signal(Signal::HUP);
    let writer = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    let mask = 1 << process.level();
    for _ in 0..3 {
        process.report("ready");
        process.wait_for_ready(5, mask);
        process.report("idle");
        process.wait_for_ready(5, 0);
        assert_eq!(controller.listed(&process)["parameters"]["priority"], 0);
    }
    std::io::Write::write_all(&mut &writer, b"[[rule]]\npriority = 9\nweight = 3\n").unwrap();
    drop(writer);
    controller.process().wait_for_stderr("reloaded files");
    assert_eq!(controller.listed(&process)["parameters"]["weight"], 3);
}

#[needs(nothing)]
fn a_service_manager_is_notified_of_reloads() {
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
        ("[scheduler]\npolicy = 'fair'\n", "reloaded files"),
        ("policy = 'fair'\n", "reloaded files have mistakes; the previous settings remain"),
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
