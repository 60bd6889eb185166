//! Shares that sum to more than 100 %.

use super::*;

#[test]
fn promises_beyond_100_percent_are_reported() {
    let mut bench = Bench::new("");
    bench.joined(11, 0);
    let (both, first) = bench.joined(12, 0);
    bench.open(both, 2);
    let mut share = |target, share| {
        let wish = Wish { share: Some(share), ..Wish::default() };
        match bench.order(ROOT, Request::Set { target, wish }) {
            Answer::Set { overpromised, .. } => overpromised.map(|beyond| (beyond.device, beyond.percent)),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(share(Target::Pid(12), 75), None);
    assert_eq!(share(Target::Pid(11), 25), None, "all of it is not too much");
    assert_eq!(share(Target::Pid(11), 75), Some(("0000:01:00.0".to_owned(), 150)));
    assert_eq!(share(Target::Pid(11), 20), None);
    assert_eq!(share(Target::Queue(first.slot), 90), Some(("0000:01:00.0".to_owned(), 110)));
}

#[test]
fn run_reports_that_its_share_would_be_too_much() {
    let mut bench = Bench::new("[[rule]]\nshare = 60\n");
    let run = |bench: &mut Bench, share: Option<u8>| {
        let wish = Wish { share, ..Wish::default() };
        let token = format!("{:032x}", share.unwrap_or(1));
        match bench.0.order(ROOT, Request::Run { wish, token }, &mut Attendance::default()) {
            Answer::Run { overpromised } => overpromised.map(|beyond| (beyond.device, beyond.percent)),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(run(&mut bench, Some(100)), None, "no process is there");
    bench.joined(11, 0);
    assert_eq!(run(&mut bench, Some(40)), None);
    assert_eq!(run(&mut bench, None), None);
    assert_eq!(run(&mut bench, Some(50)), Some(("0000:01:00.0".to_owned(), 110)));
}

#[test]
fn the_log_warns_of_excess_promises_and_seldom_repeats_it() {
    let mut bench = Bench::new("[[rule]]\nshare = 60\n");
    let (_, first) = bench.joined(11, 0);
    let device = bench.0.queues[&first.slot].device_key;
    let second = bench.joined(12, 0).0;
    let now = now_ns();
    assert_eq!(bench.0.warn_of_promises(device, now), None, "the policy ignores shares");
    bench.0.scheduler.set_policy(Nanos(now), xsched_sched::PolicyKind::Partition);
    let warning = "shares of 0000:01:00.0 come to 120 %, so all shrink in proportion while all have work";
    assert_eq!(bench.0.warn_of_promises(device, now).as_deref(), Some(warning));
    assert_eq!(bench.0.warn_of_promises(device, now + 59_000_000_000), None);
    assert_eq!(bench.0.warn_of_promises(device, now + 61_000_000_000).as_deref(), Some(warning));
    bench.0.leave(second);
    assert_eq!(bench.0.warn_of_promises(device, now + 200_000_000_000), None);
}
