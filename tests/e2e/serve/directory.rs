//! Users whom no file of the machine knows.

use xsched_tests::privileged::may_trace;

use super::fixture::{self, Controller, Process};

const FAR_AWAY: &str = "[[rule]]\nuser = 'ada'\nclass = 'high'\n[[rule]]\nuser = 'svc-*'\nclass = 'low'\n\
                        [[ceiling]]\nuser = 'ada'\nclass = 'realtime'\n[[ceiling]]\nuser = 'nobody-at-all'\nclass = 'high'\n";

#[test]
fn users_of_a_directory_service_are_known_by_their_names() {
    if !may_trace("users_of_a_directory_service_are_known_by_their_names") {
        return;
    }
    let (_folder, wrapper) = fixture::far_away_users();
    let mut controller = Controller::start_by(wrapper, FAR_AWAY);
    let line = controller.process().wait_for_stderr("never matches");
    assert!(line.contains("config.toml, line 10: there is no user `nobody-at-all`"), "{line}");
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
    controller.reload("[[rule]]\nuser = 'svc-rend??'\npriority = -7\n", "reloaded files");
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
    controller.reload(FAR_AWAY, "failed (no answer within 5 s)");
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
    let line = controller.reload(FAR_AWAY, "never matches");
    assert!(line.contains("there is no user `nobody-at-all`"), "{line}");
}
