//! Replacing the configuration while processes are connected.

use super::*;
use crate::controller::reconfigure::Changes;

impl Bench {
    /// Applies a configuration as SIGHUP does.
    fn reconfigure(&mut self, config: &str) -> Changes {
        let changes = self.0.reconfigure(Config::parse(config).unwrap(), Users::default());
        self.0.settle(now_ns());
        changes
    }

    /// Priorities of all processes.
    fn priorities(&mut self) -> Vec<i16> {
        self.list().processes.iter().map(|process| process.parameters.priority).collect()
    }
}

#[test]
fn another_configuration_applies_to_connected_processes() {
    let mut bench = Bench::new("[[rule]]\npriority = 20\n[[ceiling]]\nclass = 'high'\n");
    let (by_rule, raised) = (bench.admit(11, Hello { hints: 0, ..hello(0) }), bench.joined(12, 120).1);
    let by_rule = bench.open(by_rule, 1);
    bench.joined(13, 5);
    bench.order(ROOT, set(13, 200));
    assert_eq!(bench.priorities(), [20, 120, 200]);
    assert!(bench.level(raised) < bench.level(by_rule));
    let changes = bench.reconfigure("[[rule]]\npriority = 60\n");
    assert_eq!(changes.effective, ["parameters of 2 of 3 processes changed"]);
    assert_eq!(changes.not_effective, [""; 0]);
    // The ceiling or the rules limit a hint; what was set stays.
    assert_eq!(bench.priorities(), [60, 60, 200]);
    assert_eq!(bench.level(raised), bench.level(by_rule));
    bench.reconfigure("[[rule]]\npriority = -60\n");
    assert_eq!(bench.priorities(), [-60, 49, 200]);
    assert!(bench.level(raised) < bench.level(by_rule));
    assert_eq!(
        bench.reconfigure("[[rule]]\npriority = -60\n").effective,
        ["parameters of 0 of 3 processes changed"]
    );
}

#[test]
fn what_a_claim_was_set_to_stays_with_another_configuration() {
    let mut bench = Bench::new("");
    let claim = bench.joined(11, 5).1;
    let wish = Wish { priority: Some(-7), ..Wish::default() };
    bench.order(ROOT, Request::Set { target: Target::Claim(claim.slot), wish });
    bench.order(ROOT, Request::Set { target: Target::Cgroup("/later".into()), wish });
    bench.reconfigure("[[rule]]\npriority = 60\nweight = 7\n");
    let list = bench.list();
    let parameters = list.processes[0].claims[0].parameters.unwrap();
    assert_eq!((parameters.priority, parameters.weight), (-7, 7));
    assert_eq!(bench.0.wishes.group_count(), 1);
}

#[test]
fn times_and_policy_change_while_processes_are_connected() {
    let mut bench = Bench::new("");
    bench.joined(11, 0);
    let other = "[scheduler]\npolicy = 'fair'\nstarvation = '2s'\nlease = '70ms'\nlinger = '1ms'\none_at_a_time = '0s'\npoll = '0s'\nin_flight = '3ms'\npreemption = 1\n";
    let changes = bench.reconfigure(other);
    let effective = [
        "policy: priority -> fair",
        "starvation: 1s -> 2s",
        "lease: 50ms -> 70ms",
        "linger: 100us -> 1ms",
        "one_at_a_time: 1s -> 0s",
        "parameters of 0 of 1 processes changed",
    ];
    assert_eq!(changes.effective, effective);
    let rest = ": applies to processes that connect from now on";
    let not_effective = ["in_flight: measured -> 3ms", "preemption: 2 -> 1", "poll: 150us -> 0s"]
        .map(|change| format!("{change}{rest}"));
    assert_eq!(changes.not_effective, not_effective);
    let page = bench.0.arbiter.page();
    assert_eq!((page.load(Word::LEASE), page.load(Word::LINGER)), (70_000_000, 1_000_000));
    let settings = bench.0.scheduler.settings();
    assert_eq!((settings.starvation_bound, settings.serialize_equals), (Nanos::from_secs(2), Nanos::ZERO));
    assert_eq!(bench.0.scheduler.policy(), xsched_sched::PolicyKind::Fair);
    let welcome = bench.0.admit(&Peer::unknown(12, USER), &hello(0), None).unwrap().welcome;
    assert_eq!((welcome.in_flight_ns, welcome.preemption_mode, welcome.poll_below_ns), (3_000_000, 1, 0));
    assert_eq!(bench.reconfigure(other).effective, ["parameters of 0 of 2 processes changed"]);
}

#[test]
fn settings_by_commands_override_another_configuration() {
    let mut bench = Bench::new("");
    bench.order(ROOT, Request::Policy { name: Some("fair".to_owned()) });
    bench.order(ROOT, Request::Off {});
    let changes = bench.reconfigure("[scheduler]\npolicy = 'partition'\nobserve = true\n");
    assert_eq!(
        changes.not_effective,
        [
            "observe stays false: changing it to true needs a restart of the controller",
            "policy fair stays, because a command has set it; `xsched-ctl policy partition` applies the configuration's",
        ]
    );
    assert_eq!((bench.0.scheduler.policy(), bench.0.state), (xsched_sched::PolicyKind::Fair, State::Off));
    bench.order(ROOT, Request::On {});
    assert_eq!(bench.0.state, State::Active);
}
