//! Shares that sum to more than 100 %.

use super::*;

#[test]
fn promises_beyond_100_percent_are_refused_with_the_sum() {
    let mut bench = Bench::new("[scheduler]\nside_by_side = 2\n");
    bench.joined(11, 0);
    let (both, first) = bench.joined(12, 0);
    bench.open(both, 2);
    let mut set = |target, wish: Wish| match bench.order(ROOT, Request::Set { target, wish }) {
        Answer::Set { .. } => None,
        Answer::Refused { reason: Reason::Full, message } => Some(message),
        other => panic!("{other:?}"),
    };
    let share = |share| Wish { share: Some(share), ..Wish::default() };
    let said = |what: &str, sum: &str| {
        Some(format!("{what} of 0000:01:00.0 would come to {sum}, which is more than 100 %"))
    };
    assert_eq!(set(Target::Pid(12), share(75)), None);
    assert_eq!(set(Target::Pid(11), share(25)), None, "all of it is not too much");
    let sum = "75 % (process 11) + 75 % (process 12) = 150 %";
    assert_eq!(set(Target::Pid(11), share(75)), said("shares", sum));
    assert_eq!(set(Target::Pid(11), share(20)), None);
    let sum = "20 % (process 11) + 90 % (process 12) = 110 %";
    assert_eq!(set(Target::Claim(first.slot), share(90)), said("shares", sum));

    let quota = |text: &str| Wish { quota: Some(text.parse().unwrap()), ..Wish::default() };
    assert_eq!(set(Target::Pid(12), quota("200ms/1s")), None, "quotas and shares are not added up");
    assert_eq!(set(Target::Pid(11), quota("80ms/100ms")), None);
    let sum = "81 % (process 11) + 20 % (process 12) = 101 %";
    assert_eq!(set(Target::Pid(11), quota("80.5ms/100ms")), said("quotas", sum));
}

#[test]
fn deadlines_are_admitted_for_as_many_as_run_side_by_side() {
    let mut bench = Bench::new("[scheduler]\npolicy = \"edf\"\nside_by_side = 2\n");
    bench.joined(11, 0);
    bench.joined(12, 0);
    let mut set = |pid, work| {
        let ms = Nanos::from_millis;
        let wish = Wish { deadline: Some(ms(10)), work, ..Wish::default() };
        match bench.order(ROOT, Request::Set { target: Target::Pid(pid), wish }) {
            Answer::Set { .. } => None,
            Answer::Refused { message, .. } => Some(message),
            other => panic!("{other:?}"),
        }
    };
    let ms = Nanos::from_millis;
    assert_eq!(set(11, None), None, "nothing is reserved");
    assert_eq!(set(11, Some(ms(4))), None);
    let refused = "the work of requests by their deadlines of 0000:01:00.0 would come to 40 % (process 11) + 30 % (process 12) \
                   + 1 x 40 % (for 2 side by side) = 110 %, which is more than 100 %";
    assert_eq!(set(12, Some(ms(3))).as_deref(), Some(refused));
    assert_eq!(set(12, Some(ms(2))), None);
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
    let device = bench.0.claims[&first.slot].device_key;
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
