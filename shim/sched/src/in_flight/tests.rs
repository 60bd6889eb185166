use super::*;

const SHORT: u64 = 5;
const LONG: u64 = 1_000;

fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// A limiter that has estimates for commands of these lengths, in microseconds: the class is the length.
fn experienced(limit: Limit, lengths: &[u64]) -> (InFlight, Nanos) {
    let mut flight = InFlight::new(limit);
    let mut now = Nanos::ZERO;
    for length in lengths {
        for _ in 0..20 {
            flight.launched(now, *length);
            now += micros(*length);
            flight.waited(now, 1);
        }
    }
    (flight, now)
}

/// A launch by a call that began at `begun`.
fn by_call(begun: Nanos, class: u64, payer: Payer) -> Launch {
    Launch { class, payer, begun, is_gated: false }
}

/// Launches until the limit.
fn fill(flight: &mut InFlight, now: Nanos, class: u64) -> usize {
    while flight.may_launch(now, class) {
        flight.launched(now, class);
        assert!(flight.outstanding() < 1_000, "there is no limit");
    }
    flight.outstanding()
}

#[test]
fn two_long_commands_fit() {
    let (mut flight, now) = experienced(Limit::default(), &[LONG]);
    assert_eq!(fill(&mut flight, now, LONG), 2);
    flight.completed(now + micros(LONG), 1);
    assert_eq!(fill(&mut flight, now + micros(LONG), LONG), 2);
}

#[test]
fn short_commands_fill_the_time() {
    let (mut flight, now) = experienced(Limit::default(), &[SHORT]);
    assert_eq!(fill(&mut flight, now, SHORT), 20);
    assert_eq!(flight.ahead(now), micros(100));
}

#[test]
fn each_payer_is_charged_for_its_own_commands_and_the_sum_is_all() {
    let (mut flight, now) = experienced(Limit::default(), &[SHORT, LONG]);
    for (payer, class) in [(7, LONG), (9, SHORT), (7, LONG)] {
        flight.launched_for(now, by_call(now, class, payer));
    }
    let took = flight.completed_in(now + micros(2_010), 3, micros(2_010));
    let mut charges: Vec<_> = flight.take_charges().filter(|(_, charge)| !charge.is_zero()).collect();
    charges.sort_unstable();
    let [(0, _), (7, long), (9, short)] = charges[..] else { panic!("{charges:?}") };
    assert!(long > short.times(100), "{long:?} {short:?}");
    assert_eq!(flight.take_charges().count(), 0, "they were taken");
    assert!(long + short <= took && took - (long + short) < Nanos(3), "{took:?}");
    flight.launched_for(now, by_call(now, LONG, 7));
    flight.forget_payers();
    flight.waited(now + micros(5_000), 1);
    assert_eq!(flight.take_charges().map(|(payer, _)| payer).collect::<Vec<_>>(), [0]);
}

#[test]
fn a_short_command_does_not_fit_behind_a_long_one() {
    let (mut flight, now) = experienced(Limit::default(), &[SHORT, LONG]);
    flight.launched(now, LONG);
    flight.launched(now, SHORT);
    assert!(!flight.may_launch(now, SHORT));
    assert!(flight.may_launch(now + micros(950), SHORT), "the long one has 50 us left");
}

#[test]
fn a_late_look_by_the_devices_clock_does_not_make_the_next_command_late() {
    let (mut flight, now) = experienced(Limit::default(), &[LONG]);
    (0..3).for_each(|_| flight.launched(now, LONG));
    let late = now + micros(2 * LONG + 500);
    flight.completed_in(late, 1, micros(LONG));
    assert_eq!(flight.running_for(late), micros(LONG + 500), "the second one ran meanwhile");
    flight.completed_in(late, 1, micros(LONG));
    assert_eq!(flight.running_for(late), micros(500));
    flight.completed(late + micros(100), 0);
    flight.completed_in(late + micros(600), 1, micros(500));
    assert!(flight.outstanding() == 0);
}

#[test]
fn two_commands_without_an_estimate_fit() {
    let mut flight = InFlight::new(Limit::default());
    assert_eq!(fill(&mut flight, Nanos::ZERO, 7), 2);
    let (mut flight, now) = experienced(Limit::default(), &[SHORT]);
    flight.launched(now, 7);
    assert_eq!(fill(&mut flight, now, SHORT), 2, "nothing is known of the first one");
}

#[test]
fn one_command_always_fits() {
    for limit in [Limit::of_time(Nanos::ZERO, 0), Limit::Commands { threshold: 0, batch: 0 }] {
        let (mut flight, now) = experienced(limit, &[LONG]);
        assert_eq!(fill(&mut flight, now, LONG), 1);
    }
}

#[test]
fn thresholds_and_batches_are_those_of_xsched() {
    let mut flight = InFlight::new(Limit::Commands { threshold: 8, batch: 4 });
    assert_eq!(fill(&mut flight, Nanos(0), SHORT), 8);
    flight.completed(Nanos(1), 3);
    assert!(!flight.may_launch(Nanos(1), SHORT), "a batch does not fit");
    flight.completed(Nanos(2), 1);
    assert_eq!(fill(&mut flight, Nanos(2), SHORT), 8);
}

#[test]
fn a_completion_is_looked_for_when_it_is_expected() {
    let (mut flight, now) = experienced(Limit::default(), &[LONG]);
    assert_eq!(flight.capacity_at(now), None);
    assert_eq!(flight.done_at(now, micros(LONG)), None);
    fill(&mut flight, now, LONG);
    assert_eq!(flight.capacity_at(now), Some(now + micros(LONG * 15) / 16));
    let half_of_the_rest = micros(LONG / 2);
    let all = flight.least(0..2);
    assert_eq!(all, micros(2 * LONG));
    assert_eq!(flight.done_at(now, all), Some(now + micros(LONG * 15) / 16 + half_of_the_rest));
}

#[test]
fn a_later_launch_does_not_put_a_look_off() {
    let (mut flight, now) = experienced(Limit::default(), &[SHORT]);
    fill(&mut flight, now, SHORT);
    let work = flight.least(0..flight.outstanding());
    let at = flight.done_at(now, work);
    (0..10_000).for_each(|_| flight.launched(now, SHORT));
    assert_eq!(flight.done_at(now, work), at);
    assert_eq!(flight.least(5..7), micros(2 * SHORT));
    assert_eq!(flight.least(20_000..20_001), Nanos::ZERO);
}

#[test]
fn short_commands_are_looked_for_by_the_dozen() {
    let (mut flight, now) = experienced(Limit::default(), &[SHORT]);
    fill(&mut flight, now, SHORT);
    assert_eq!(flight.capacity_at(now), Some(now + micros(50)));
}

/// Many commands were launched without a limit, beside other queues' work. Then the device is busy with them for a tenth of the
/// estimate.
#[test]
fn a_backlog_is_looked_at_before_its_old_estimate_is_over() {
    const WRONG: u64 = 10;
    let (mut flight, start) = experienced(Limit::default(), &[WRONG * SHORT]);
    (0..1_000).for_each(|_| flight.launched(start, WRONG * SHORT));
    let end = start + micros(1_000 * SHORT);
    let mut now = start;
    while flight.outstanding() > 0 {
        now = flight.capacity_at(now).unwrap();
        let done = (now - start).0.min((end - start).0) / micros(SHORT).0;
        flight.completed(now, done as usize - (1_000 - flight.outstanding()));
    }
    let ahead = micros(100);
    assert!(now - end <= ahead + micros(WRONG * SHORT), "{} late", now - end);
}

#[test]
fn an_overdue_command_is_looked_for_less_and_less_often() {
    let (mut flight, now) = experienced(Limit::default(), &[LONG]);
    flight.launched(now, LONG);
    let mut at = flight.capacity_at(now).unwrap();
    let end = at + Nanos::from_millis(100);
    let mut looks = 0;
    while at < end {
        let next = flight.capacity_at(at).unwrap();
        assert!(next > at, "it looks again and again at once");
        at = next;
        looks += 1;
    }
    assert!(looks < 150, "{looks} looks in 100 ms");
}

#[test]
fn a_time_for_several_is_divided_by_their_estimates() {
    let (mut flight, now) = experienced(Limit::default(), &[10, 30]);
    flight.launched(now, 10);
    flight.launched(now, 30);
    flight.completed_in(now + micros(50), 2, micros(40));
    assert_eq!(flight.durations.of(10).unwrap().expected, micros(10));
    assert_eq!(flight.durations.of(30).unwrap().expected, micros(30));
}

#[test]
fn a_gap_before_a_launch_is_not_the_commands_time() {
    let mut flight = InFlight::new(Limit::default());
    flight.launched(micros(0), 1);
    assert_eq!(flight.waited(micros(10), 1), micros(10));
    flight.launched(micros(500), 1);
    assert_eq!(flight.waited(micros(510), 1), micros(10));
}

/// They are not looked at one by one; the last of each batch is noticed in time.
#[test]
fn gaps_between_launches_are_not_the_commands_time_either() {
    let mut flight = InFlight::new(Limit::default());
    let mut charged = Nanos::ZERO;
    for command in 1..=40 {
        flight.launched(micros(256 * command), 1);
        if command % 4 == 0 {
            charged += flight.waited(micros(256 * command + 100), 4);
        }
    }
    assert_eq!(charged, micros(40 * 100));
    assert_eq!(flight.expected(1), Some(micros(100)));
}

/// Kernels whose time depends on their data: a long one is charged though short ones of its class follow.
#[test]
fn a_short_command_behind_a_gap_does_not_make_the_ones_before_it_short() {
    const CLASS: u64 = 1;
    let charged = |is_seen_one_by_one: bool| {
        let mut flight = InFlight::new(Limit::default());
        let mut now = Nanos::ZERO;
        for round in 0..60 {
            let took = micros(if round % 3 == 0 { 150 } else { 50 });
            flight.launched(now, CLASS);
            now += took;
            if is_seen_one_by_one {
                flight.completed_in(now, 1, took)
            } else {
                flight.waited(now, 1)
            };
        }
        (0..3).for_each(|command| flight.launched(now + micros(200 * command), CLASS));
        flight.completed_in(now + micros(450), 3, micros(450))
    };
    let took = micros(150 + 50 + 50);
    assert!((took..=micros(450)).contains(&charged(true)), "{}", charged(true));
    assert_eq!(charged(false), micros(3 * 50), "only the class is known");
}

#[test]
fn a_gap_is_not_assumed_without_an_estimate() {
    let (mut flight, now) = experienced(Limit::default(), &[SHORT]);
    flight.launched(now, 7);
    flight.launched(now + micros(900), SHORT);
    assert_eq!(
        flight.waited(now + micros(1_000), 2),
        micros(500 + SHORT),
        "the first one may have run all the time"
    );
}

#[test]
fn a_command_may_run_before_the_call_that_launched_it_returns() {
    let mut flight = InFlight::new(Limit::default());
    flight.launched_for(micros(10), by_call(micros(0), 1, 0));
    flight.launched_for(micros(39), by_call(micros(20), 1, 0));
    assert_eq!(flight.waited(micros(40), 2), micros(30), "and it is not known that it ran for 1 us");
}

#[test]
fn completions_of_nothing_change_nothing() {
    let mut flight = InFlight::new(Limit::default());
    assert_eq!(flight.completed(micros(10), 3), Nanos::ZERO);
    flight.launched(micros(20), 1);
    flight.clear();
    assert_eq!(flight.completed(micros(30), 1), Nanos::ZERO);
    assert_eq!((flight.outstanding(), flight.ahead(micros(30))), (0, Nanos::ZERO));
}

#[test]
fn other_queues_work_in_between_is_not_charged() {
    let (mut flight, now) = experienced(Limit::default(), &[10]);
    flight.launched(now, 10);
    assert_eq!(flight.waited(now + micros(3_000), 1), micros(10));
    flight.launched(now + micros(4_000), 10);
    assert_eq!(flight.waited(now + micros(4_015), 1), micros(15), "it may vary");
}

#[test]
fn times_beside_other_queues_count_for_little() {
    let (mut flight, mut now) = experienced(Limit::default(), &[LONG]);
    for _ in 0..20 {
        flight.disturbed(now);
        flight.launched(now, LONG);
        flight.launched(now, LONG);
        now += micros(LONG + LONG / 2);
        let charged = flight.waited(now, 1);
        assert!(charged < micros(LONG + LONG / 10), "half a command of another queue was before it");
        now += micros(LONG);
        flight.waited(now, 1);
    }
    assert!(flight.durations.of(LONG).unwrap().expected < micros(LONG + LONG / 10));
}

/// Looks that are timed by estimates, and find a command complete each time, must not make the estimates grow.
#[test]
fn late_looks_do_not_persist() {
    const WRONG: u64 = 10;
    let (mut flight, mut now) = experienced(Limit::default(), &[WRONG * LONG]);
    let mut late = Nanos::ZERO;
    for _ in 0..40 {
        flight.launched(now, WRONG * LONG);
        let end = now + micros(LONG);
        while flight.outstanding() > 0 {
            now = flight.capacity_at(now).unwrap();
            flight.completed(now, usize::from(now >= end));
        }
        late = now - end;
    }
    assert!(late <= micros(LONG / 8), "{late} late");
}

#[test]
fn a_command_that_takes_too_long_is_overdue() {
    let (mut flight, now) = experienced(Limit::default(), &[LONG]);
    assert_eq!((flight.running_for(now), flight.overdue(now)), (Nanos::ZERO, Nanos::ZERO));
    flight.launched(now, LONG);
    let later = now + micros(LONG + 300);
    assert_eq!((flight.running_for(later), flight.overdue(later)), (micros(LONG + 300), micros(300)));
    assert_eq!(flight.overdue(now + micros(LONG / 2)), Nanos::ZERO);
}

#[test]
fn it_is_half_full_before_it_is_full() {
    let limit = Limit::of_time(Nanos::from_micros(100), 2);
    let mut queue = InFlight::new(limit);
    queue.launched(Nanos(0), 1);
    assert!(queue.is_half_full(Nanos(0)), "there is no estimate");
    queue.waited(Nanos::from_micros(10), 1);
    let now = Nanos::from_micros(10);
    let mut launches = 0;
    while !queue.is_half_full(now) {
        queue.launched(now, 1);
        launches += 1;
    }
    assert_eq!(launches, 6, "of 10 us each");
    assert!(queue.may_launch(now, 1));
    assert!(!queue.is_half_full(now + Nanos::from_micros(10)), "one of them is nearly done");
    let mut queue = InFlight::new(Limit::Commands { threshold: 8, batch: 1 });
    (0..3).for_each(|_| queue.launched(now, 1));
    assert!(!queue.is_half_full(now));
    queue.launched(now, 1);
    assert!(queue.is_half_full(now));
}

fn launch_gated(flight: &mut InFlight, now: Nanos, class: u64) {
    flight.launched_for(now, Launch { is_gated: true, ..by_call(now, class, 0) });
}

#[test]
fn time_at_a_closed_gate_is_not_charged() {
    for class in [LONG, 7] {
        let (mut flight, now) = experienced(Limit::default(), &[LONG]);
        launch_gated(&mut flight, now, class);
        launch_gated(&mut flight, now, class);
        let closed = now + micros(200);
        flight.set_gate(closed, false);
        let first = now + micros(LONG);
        assert_eq!(flight.completed_in(first, 1, micros(LONG)), micros(LONG), "it had passed");
        let open = closed + micros(50_000);
        flight.set_gate(open, true);
        let second = open + micros(LONG);
        flight.completed(second - Nanos(1), 0);
        let took = flight.completed_in(second, 1, second - first);
        assert_eq!(took, micros(LONG), "class {class}");
        assert_eq!(flight.expected(class), Some(micros(LONG)));
    }
}

#[test]
fn a_command_that_runs_on_after_the_gate_closes_pays_for_all_of_its_time() {
    let (mut flight, now) = experienced(Limit::default(), &[LONG]);
    launch_gated(&mut flight, now, LONG);
    flight.set_gate(now + micros(100), false);
    flight.set_gate(now + micros(800), true);
    assert_eq!(flight.completed_in(now + micros(LONG), 1, micros(LONG)), micros(LONG));
}

#[test]
fn unknown_commands_seen_complete_together_are_not_charged_for_a_closed_gate() {
    let mut flight = InFlight::new(Limit::default());
    let now = micros(1_000);
    (0..4).for_each(|_| launch_gated(&mut flight, now, 7));
    flight.set_gate(now + micros(150), false);
    flight.set_gate(now + micros(90_000), true);
    let took = flight.waited(now + micros(90_200), 4);
    assert!((micros(340)..=micros(350)).contains(&took), "{took}");
}

#[test]
fn commands_at_a_closed_gate_are_looked_for_seldom_and_in_time_after_it_opens() {
    const SHORT: u64 = 100;
    let looks = |closes: bool| {
        let (mut flight, now) = experienced(Limit::default(), &[SHORT]);
        flight.set_gate(now, !closes);
        launch_gated(&mut flight, now, SHORT);
        let (open, mut at, mut looks) = (now + micros(4_000), now, 0);
        loop {
            let next = flight.done_at(at, micros(SHORT)).unwrap();
            if next > open {
                break;
            }
            flight.completed(next, 0);
            (at, looks) = (next, looks + 1);
        }
        flight.set_gate(open, true);
        (looks, flight.done_at(at, micros(SHORT)).unwrap() - open, flight.capacity_at(at).unwrap() - open)
    };
    let (at_a_gate, soon) = (looks(true), micros(SHORT));
    assert!(at_a_gate.0 < 10 && at_a_gate.1 < soon && at_a_gate.2 < soon, "{at_a_gate:?}");
    assert!(looks(false).0 > 50);
}

/// A process may have thousands of idle streams.
#[test]
fn a_queue_without_commands_does_not_remember_closures() {
    let (mut flight, now) = experienced(Limit::default(), &[LONG]);
    let at = |round: u64| now + micros(100 * round);
    let rounds = |flight: &mut InFlight, rounds: Range<u64>| {
        for round in rounds {
            flight.set_gate(at(round), false);
            flight.set_gate(at(round) + micros(50), true);
        }
    };
    rounds(&mut flight, 0..1_000);
    assert_eq!(flight.gate.closed_for(now, at(2_000)), Nanos::ZERO);
    launch_gated(&mut flight, at(1_000), LONG);
    rounds(&mut flight, 1_000..1_010);
    assert_eq!(flight.gate.closed_for(now, at(2_000)), micros(500), "its commands may have waited");
}

#[test]
fn unknown_commands_that_complete_at_a_closed_gate_had_all_passed_it() {
    let mut flight = InFlight::new(Limit::default());
    let now = micros(1_000);
    (0..2).for_each(|_| launch_gated(&mut flight, now, 7));
    // While the second one runs.
    flight.set_gate(now + micros(1_200), false);
    assert_eq!(flight.waited(now + micros(2_000), 2), micros(2_000));
    assert_eq!(flight.expected(7), Some(micros(1_000)));
}

#[test]
fn however_short_commands_are_no_more_than_the_most_are_ahead() {
    let limit = Limit::Time { ahead: Nanos::from_millis(8), commands: 2, most: 10 };
    let (mut queue, now) = experienced(limit, &[LONG]);
    queue.launched(now, 1);
    queue.waited(now + Nanos(1_000), 1);
    let now = now + Nanos(1_000);
    let mut launches = 0;
    while queue.may_launch(now, 1) {
        assert_eq!(queue.is_half_full(now), launches >= 5);
        queue.launched(now, 1);
        launches += 1;
    }
    assert_eq!(launches, 10);
}
