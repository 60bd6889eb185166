//! Users of a directory service, which are in no file of the machine.

use xsched_harness::needs;
use xsched_harness::needs::ROOT;

use super::fixture::{self, Controller, Process};

const FAR_AWAY: &str = "[[rule]]\nuser = 'ada'\nclass = 'high'\n[[rule]]\nuser = 'svc-*'\nclass = 'low'\n\
                        [[ceiling]]\nuser = 'ada'\nclass = 'realtime'\n[[ceiling]]\nuser = 'unknown-to-all'\nclass = 'high'\n";

#[needs(ROOT)]
fn users_of_a_directory_service_are_known_by_their_names() {
    let (_folder, wrapper) = fixture::far_away_users();
    let mut controller = Controller::start_by(wrapper, FAR_AWAY);
    let line = controller.process().wait_for_stderr("never matches");
    assert!(line.contains("config.toml, line 10: there is no user `unknown-to-all`"), "{line}");
    let (mut ada, mut service) = (controller.process_of(70_001), controller.process_of(70_002));
    for process in [&mut ada, &mut service] {
        process.ask("connect");
    }
    let stands = |controller: &Controller, process: &Process| {
        let listed = controller.listed(process);
        (listed["user"].as_str().unwrap().to_owned(), listed["parameters"]["priority"].as_i64().unwrap())
    };
    // The controller looks up the configured name, and shows the user under this name.
    assert_eq!(stands(&controller, &ada), ("ada".to_owned(), 100));
    assert_eq!(stands(&controller, &service), ("svc-render".to_owned(), -100));
    let order =
        format!(r#"order {{"verb":"set","target":{{"pid":{}}},"wish":{{"priority":222}}}}"#, ada.id());
    assert_eq!(ada.ask(&order)["answer"], "set");
    // Resolved names stay when the files are reloaded.
    controller.reload("[[rule]]\nuser = 'svc-rend??'\npriority = -7\n", "reloaded files");
    assert_eq!(stands(&controller, &service), ("svc-render".to_owned(), -7));
}

#[needs(ROOT)]
fn a_directory_service_that_does_not_answer_blocks_no_process() {
    let (folder, wrapper) = fixture::far_away_users();
    let mut controller = Controller::start_by(wrapper, "");
    let slow = folder.path().join("slow");
    std::fs::write(&slow, "").unwrap();
    // While the controller looks up names and numbers, other processes continue.
    let (mut service, mut other) = (controller.process_of(70_002), controller.process_of(0));
    controller.reload(FAR_AWAY, "failed (no answer within 5 s)");
    service.ask("connect");
    other.ask("connect");
    other.open(5);
    let mask = 1 << other.level();
    other.report("ready");
    other.wait_for_ready(5, mask);
    assert_eq!(controller.listed(&service)["user"], "70002");
    std::fs::remove_file(&slow).unwrap();
    // The answer comes late, and applies from then on.
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while controller.listed(&service)["parameters"]["priority"] != -100 {
        assert!(std::time::Instant::now() < deadline, "{}", controller.listed(&service));
    }
    assert_eq!(controller.listed(&service)["user"], "svc-render");
    let line = controller.reload(FAR_AWAY, "never matches");
    assert!(line.contains("there is no user `unknown-to-all`"), "{line}");
}
