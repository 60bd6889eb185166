use clap::Parser as _;
use xsched_control_api::parameters::{Class, Parameters};
use xsched_sched::PolicyKind;

use crate::cli::{Cli, Verb};

#[track_caller]
fn refused(words: &[&str]) -> String {
    Cli::try_parse_from([&["xsched-ctl"], words].concat()).unwrap_err().to_string()
}

#[test]
fn a_change_needs_a_target_and_a_parameter() {
    assert!(refused(&["set", "--priority", "3"]).contains("--pid"));
    assert!(refused(&["set", "--pid", "3"]).contains("--priority"));
    assert!(refused(&["set", "--pid", "3", "--cgroup", "/", "--priority", "3"]).contains("cannot be used"));
    assert!(refused(&["set", "--pid", "3", "--class", "high", "--priority", "3"]).contains("cannot be used"));
    assert!(refused(&["set", "--pid", "3", "--reset", "--weight", "3"]).contains("cannot be used"));
    assert!(refused(&["set", "--pid", "3", "--priority", "256"]).contains("-255 to 255"));
}

#[test]
fn unknown_policies_are_refused_before_the_controller_is_asked() {
    for words in
        [&["policy", "nope"] as &[_], &["serve", "--policy", "nope"], &["run", "--policy", "nope", "app"]]
    {
        let error = refused(words);
        assert!(error.contains("no policy `nope`; there are: priority, fair, partition, quota"), "{error}");
    }
    let cli = Cli::try_parse_from(["xsched-ctl", "policy", "HPF"]).unwrap();
    let Verb::Policy(policy) = cli.verb else { panic!("not policy") };
    assert_eq!(policy.name, Some(PolicyKind::Priority));
}

#[test]
fn hints_are_given_as_users_write_them() {
    let words = ["xsched-ctl", "run", "--quota", "20ms/100ms", "--deadline", "33ms", "--work", "5ms"];
    let cli = Cli::try_parse_from([&words[..], &["--slo", "p99 < 12ms", "app"]].concat()).unwrap();
    let Verb::Run(run) = cli.verb else { panic!("not run") };
    let wish = run.parameters.wish();
    assert_eq!(
        wish.applied_to(Parameters::default()).to_string(),
        "priority 0 (normal), weight 100, quota 20ms/100ms, deadline 33ms (work 5ms), p99 < 12ms"
    );
    assert!(refused(&["run", "--slo", "12ms", "app"]).contains("expected an SLO such as `p99 < 12ms`"));
}

#[test]
fn negative_priorities_are_not_options() {
    let cli = Cli::try_parse_from(["xsched-ctl", "run", "--priority", "-7", "app", "--class", "x"]).unwrap();
    let Verb::Run(run) = cli.verb else { panic!("not run") };
    assert_eq!(run.parameters.wish().priority, Some(-7));
    assert_eq!(run.command, ["app", "--class", "x"]);
}

#[test]
fn a_class_may_be_given_as_priority() {
    for class in Class::ALL {
        let words = ["xsched-ctl", "run", "--priority", &class.to_string(), "--", "app"];
        let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else { panic!("not run") };
        assert_eq!(run.parameters.wish().priority, Some(class.priority()));
    }
    let error = refused(&["run", "--priority", "hihg", "app"]);
    assert!(error.contains("expected -255 to 255, or a class: realtime, high, normal, low"), "{error}");
}

#[test]
fn a_class_is_a_priority() {
    let cli = Cli::try_parse_from(["xsched-ctl", "run", "--class", "low", "--", "app"]).unwrap();
    let Verb::Run(run) = cli.verb else { panic!("not run") };
    assert_eq!(run.parameters.wish().priority, Some(-100));
}

/// Scripts were written while a claim was called a queue.
#[test]
fn a_claim_may_be_called_a_queue() {
    for name in ["--claim", "--queue", "--stream"] {
        let words = ["xsched-ctl", "set", name, "7", "--priority", "3"];
        let Verb::Set(set) = Cli::try_parse_from(words).unwrap().verb else { panic!("not set") };
        assert_eq!(set.claim, Some(7));
    }
    for by in ["claim", "queue"] {
        assert!(Cli::try_parse_from(["xsched-ctl", "list", "--by", by]).is_ok());
    }
}
