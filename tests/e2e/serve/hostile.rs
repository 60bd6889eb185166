//! Hostile processes do not harm others.

use std::process::Command;

use rustix::process::Signal;
use xsched_harness::needs;
use xsched_harness::needs::ROOT;
use xsched_tests::artifacts::{shim, xsched_ctl as binary};
use xsched_tests::tracer::run;

use super::USER;
use super::fixture::Controller;

#[needs(ROOT)]
fn many_connections_of_a_user_do_not_block_commands_of_others() {
    let controller = Controller::start("");
    let mut user = controller.process_of(USER);
    let held = user.ask("crowd 3000");
    assert!(held["held"].as_u64().is_some_and(|held| (1..2000).contains(&held)), "{held}");
    assert!(held["told"][0].as_str().is_some_and(|told| told.contains("too many connections")), "{held}");
    assert!(controller.say(&["off"]).starts_with("off; was active"));
}

/// To close a descriptor can take for ever, if its file is in a file system of the sender's.
#[needs(ROOT)]
fn descriptors_that_a_user_sends_are_not_taken() {
    let controller = Controller::start("");
    let mut user = controller.process_of(USER);
    assert_eq!(user.ask("descriptor shim")["refused"], true);
    assert_eq!(user.ask("descriptor command")["refused"], true);
    assert!(controller.say(&["off"]).starts_with("off; was active"));
}

/// A controller that hangs accepts no connection, and any user may have filled its backlog.
#[needs(ROOT)]
fn a_controller_that_hangs_is_killed_despite_a_full_backlog() {
    let mut controller = Controller::start("");
    let mut user = controller.process_of(USER);
    controller.process().signal(Signal::STOP);
    assert_eq!(user.ask("queue_up")["error"], "BlockingIOError");
    let (code, message) = controller.refused(&["list"]);
    assert_eq!(code, 69, "{message}");
    assert!(message.contains("too many wait") && message.contains("off --force"), "{message}");
    let pid = controller.process().pid();
    let told = controller.say(&["off", "--force", "--json"]);
    assert_eq!(told, format!("{{\"answer\":\"killed\",\"pid\":{pid}}}\n"));
    assert_eq!(controller.finish().code, 128 + 9);
}

#[needs(ROOT)]
fn a_user_cannot_forge_lines_of_the_audit_log() {
    let mut controller = Controller::start("");
    let mut user = controller.process_of(USER);
    let forged =
        r#"{"verb":"set","target":{"cgroup":"/x\n\u0020INFO\u0020audit:\u0020uid=0"},"wish":{"priority":3}}"#;
    assert_eq!(user.ask(&format!("order {forged}"))["answer"], "refused");
    user.ask("connect");
    user.ask(r#"settings "x\n INFO audit: uid=0" = 1"#);
    controller.process().wait_for_stderr("own rules are ignored");
    controller.process().signal(Signal::TERM);
    let account = controller.finish().stderr;
    assert!(account.contains("refused: set cgroup /x"), "{account}");
    assert!(!account.lines().any(|line| line.starts_with(" INFO audit: uid=0")), "{account}");
}

#[needs(ROOT)]
fn a_user_cannot_fill_the_audit_log() {
    let mut controller = Controller::start("");
    let mut user = controller.process_of(USER);
    let long = "x".repeat(20_000);
    let set = format!(r#"{{"verb":"set","target":{{"cgroup":"/{long}"}},"wish":{{"priority":3}}}}"#);
    assert_eq!(user.ask(&format!("order {set}"))["reason"], "not-permitted");
    let policy = format!(r#"{{"verb":"policy","name":"{long}"}}"#);
    assert_eq!(user.ask(&format!("order {policy}"))["reason"], "not-permitted");
    let beyond = format!(r#"{{"verb":"policy","name":"{}"}}"#, "x".repeat(1 << 16));
    assert_eq!(user.ask(&format!("order {beyond}"))["reason"], "malformed");
    let many = user.ask(r#"pester 2 20 {"verb":"off"}"#);
    assert!(many["answers"].as_u64().is_some_and(|answers| answers >= 512), "more than any real use: {many}");
    assert!(controller.say(&["list"]).starts_with("active"));
    controller.process().signal(Signal::TERM);
    let account = controller.finish().stderr;
    assert!(account.lines().all(|line| line.len() < 1000), "{account}");
    let written = account.matches("refused: off").count();
    assert!((512..700).contains(&written), "{written} lines");
}

/// To the kernel its user is 0, as the machine's root.
#[needs(ROOT)]
fn root_of_a_container_has_no_privileges_outside() {
    let controller = Controller::start("");
    let outside = controller.joined(0, 5);
    let in_a_container = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc"]).arg(binary()).args(arguments);
        run(command.env("XSCHED_SOCKET_DIR", controller.folder()))
    };
    let listed = in_a_container(&["list", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["processes"][0]["command"], "", "{listed}");
    let (pid, shim) = (outside.id().to_string(), shim());
    let shim = shim.to_str().unwrap();
    for (arguments, why) in [
        (&["off"][..], "of that container only"),
        (&["policy", "fair"], "of that container only"),
        (&["set", "--pid", &pid, "--class", "low"], "not in this container"),
        (&["run", "--shim", shim, "--class", "high", "--", "true"], "[[ceiling]]"),
    ] {
        let refused = in_a_container(arguments);
        assert!(refused.code == 77 && refused.stderr.contains(why), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(controller.listed(&outside)["parameters"]["priority"], 0);
    assert!(controller.say(&["off"]).starts_with("off; was active"));
}

/// A process may have any number of mappings, in which the controller searches for the shim.
#[needs(ROOT)]
fn a_process_with_many_mappings_blocks_no_other() {
    let controller = Controller::start_with_programs("");
    let mut user = controller.process_of(USER);
    user.ask("clutter 30000");
    let list = || {
        let began = std::time::Instant::now();
        controller.say(&["list"]);
        began.elapsed()
    };
    // The time without a joining process shows how busy this machine is.
    let usual = (0..5).map(|_| list()).max().unwrap();
    let pending = std::thread::scope(|scope| {
        let joining = scope.spawn(move || user.ask("connect"));
        for _ in 0..20 {
            let took = list();
            let bound = std::time::Duration::from_millis(900) + 3 * usual;
            assert!(took < bound, "{took:?}, and {usual:?} before");
        }
        joining.join().unwrap()
    });
    assert_eq!(pending["keeper"], 1, "{pending}");
}

#[needs(ROOT)]
fn the_page_cannot_be_written_by_processes() {
    let controller = Controller::start("");
    assert_eq!(controller.process_of(0).ask("connect")["may_write"], false);
}

#[needs(ROOT)]
fn malformed_packets_end_only_their_connection() {
    let controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    let mut hostile = controller.process_of(0);
    let malformed = [
        "00",
        "01000000",
        "ffffffff",
        // A request before the greeting.
        "030000000700000000000000010000800000000000000000",
        // Longer than any packet.
        &"01".repeat(64),
    ];
    for packet in malformed {
        assert_eq!(hostile.ask(&format!("raw {packet}"))["refused"], 2, "{packet}");
        assert_eq!(hostile.ask("end")["end"], true);
    }
    // Another version, in which a greeting may have another length.
    for rest in [40, 0, 100] {
        let hello = format!("01000000{}{}", "63000000", "00".repeat(rest));
        assert_eq!(hostile.ask(&format!("raw {hello}"))["refused"], 1);
    }
    // A second greeting, and a malformed packet after a valid greeting.
    for packet in ["07", &format!("01000000{}", "00".repeat(60))] {
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
    assert_eq!((&counts["malformed"], &counts["outdated"]), (&7.into(), &3.into()), "{counts}");
}

#[needs(ROOT)]
fn random_packets_do_no_harm() {
    let controller = Controller::start("");
    let mut process = controller.joined(0, 5);
    let mut hostile = controller.process_of(0);
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..300 {
        if round % 5 == 0 {
            hostile.ask("connect");
        }
        // Valid kinds, mostly valid lengths, random contents.
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
        // The connection may have ended before: the test checks only the controller.
        hostile.ask(&format!("throw {text}"));
    }
    process.report("ready");
    let mask = 1 << process.level();
    process.wait_for_ready(5, mask);
    process.report("idle");
    process.wait_for_ready(5, 0);
}
