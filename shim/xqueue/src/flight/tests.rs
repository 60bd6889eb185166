//! What a queue has on the device, by a clock of the tests' own.

use super::stall::PATIENCE;
use super::*;

const CLASS: DurationClass = DurationClass(1);

fn us(us: u64) -> Nanos {
    Nanos::from_micros(1_000_000 + us)
}

/// Behind all that was launched.
fn mark<M: Copy>(flight: &mut Flight<M>, now: Nanos, marker: M) {
    let launched = flight.launched_so_far();
    assert!(flight.marked(now, marker, launched).is_none());
}

#[test]
fn a_marker_says_nothing_of_what_was_launched_while_it_was_recorded() {
    let mut flight = Flight::new(Limit::default());
    flight.launched(us(0), CLASS);
    let before = flight.launched_so_far();
    flight.launched(us(1), CLASS);
    assert_eq!(flight.marked(us(2), 1, before), None);
    flight.first_marker_completed(us(25), None).unwrap();
    assert!(flight.ask_stream_at().is_some(), "the second has none");
    assert_eq!(flight.in_flight(), 1);
}

#[test]
fn a_marker_that_was_overtaken_is_not_needed() {
    let mut flight = Flight::new(Limit::default());
    flight.launched(us(0), CLASS);
    let before = flight.launched_so_far();
    flight.launched(us(1), CLASS);
    mark(&mut flight, us(2), 2);
    assert_eq!(flight.marked(us(3), 1, before), Some(1));
    assert_eq!(flight.first_marker(), Some(2));
    flight.first_marker_completed(us(25), None).unwrap();
    assert!(flight.is_empty());
}

#[test]
fn a_marker_stands_for_what_was_launched_since_the_one_before() {
    let mut flight = Flight::new(Limit::default());
    flight.launched(us(0), CLASS);
    flight.launched(us(1), CLASS);
    mark(&mut flight, us(1), 1);
    flight.launched(us(2), CLASS);
    mark(&mut flight, us(2), 2);
    assert_eq!(flight.first_marker(), Some(1));
    let landed = flight.first_marker_completed(us(25), Some(Nanos::from_micros(25))).unwrap();
    assert_eq!(landed, Completed { took: Nanos::from_micros(25), retired: None });
    let landed = flight.first_marker_completed(us(60), Some(Nanos::from_micros(60))).unwrap();
    let took = Nanos::from_micros(35);
    assert_eq!(landed, Completed { took, retired: Some(1) }, "it began when the others were done");
    assert!(flight.is_empty());
}

#[test]
fn a_device_that_tells_the_time_is_believed_unless_it_was_idle() {
    let mut flight = Flight::new(Limit::default());
    for (launched, device_time, took) in [(0, 20, 20), (1_000, 1_100, 30)] {
        flight.launched(us(launched), CLASS);
        mark(&mut flight, us(launched), launched);
        let landed =
            flight.first_marker_completed(us(launched + 30), Some(Nanos::from_micros(device_time))).unwrap();
        assert_eq!(landed.took, Nanos::from_micros(took));
    }
}

/// The device's clock tells when it was done, once a completion was noticed in time.
#[test]
fn a_late_look_after_idling_is_not_charged() {
    let mut flight = Flight::new(Limit::default());
    flight.launched(us(0), CLASS);
    mark(&mut flight, us(0), 0);
    flight.completed_through(1, us(100), Seen::ByWait, &mut Vec::new()).unwrap();
    for command in 1..20 {
        flight.launched(us(command * 256), CLASS);
        mark(&mut flight, us(command * 256), command);
        let late = us(command * 256 + 250);
        let landed = flight.first_marker_completed(late, Some(Nanos::from_micros(256))).unwrap();
        let took = landed.took;
        assert!((Nanos::from_micros(100)..Nanos::from_micros(102)).contains(&took), "{took}");
    }
}

#[test]
fn gaps_between_commands_that_share_a_marker_are_not_charged() {
    let n = 7;
    for device_time in [Some(Nanos::from_micros((n - 1) * 256 + 100)), None] {
        let mut flight = Flight::new(Limit::default());
        (0..n).for_each(|command| flight.launched(us(command * 256), CLASS));
        mark(&mut flight, us((n - 1) * 256 + 30), 1);
        let end = us((n - 1) * 256 + 100);
        flight.first_marker_pending(end - Nanos(10));
        let landed = flight.first_marker_completed(end, device_time).unwrap();
        assert_eq!(landed.took, Nanos::from_micros(n * 100));
    }
}

#[test]
fn a_wait_for_all_shows_gaps_whatever_markers_are_between() {
    let mut flight = Flight::new(Limit::default());
    for command in 0..6 {
        flight.launched(us(command * 256), CLASS);
        if command % 2 == 0 {
            mark(&mut flight, us(command * 256), command);
        }
    }
    let mut retired = Vec::new();
    let took = flight.completed_through(6, us(5 * 256 + 100), Seen::ByWait, &mut retired);
    assert_eq!((took, retired), (Some(Nanos::from_micros(600)), vec![0, 2, 4]));
}

#[test]
fn a_quiet_stream_without_a_marker_is_asked() {
    let mut flight = Flight::new(Limit::default());
    assert_eq!(flight.ask_stream_at(), None);
    flight.launched(us(0), CLASS);
    assert_eq!(flight.ask_stream_at(), Some(us(0) + QUIET));
    mark(&mut flight, us(50), 1);
    assert_eq!(flight.ask_stream_at(), None);
}

#[test]
fn a_wait_for_the_stream_replaces_looks_at_markers() {
    let mut flight = Flight::new(Limit::default());
    for command in 0..5 {
        flight.launched(us(command), CLASS);
        if command == 1 {
            mark(&mut flight, us(command), command);
        }
    }
    let before = flight.launched_so_far() - 1;
    let mut retired = Vec::new();
    assert!(flight.completed_through(before, us(100), Seen::ByWait, &mut retired).is_some());
    assert_eq!((flight.first_marker(), retired), (None, vec![1]), "those with a marker, and the others");
    assert!(!flight.is_empty(), "one was launched later");
    assert!(flight.completed_through(before + 1, us(101), Seen::ByWait, &mut Vec::new()).is_some());
    assert!(flight.is_empty());
}

#[test]
fn part_of_what_a_marker_stands_for_may_be_known_to_be_complete() {
    let mut flight = Flight::new(Limit::default());
    (0..4).for_each(|command| flight.launched(us(command), CLASS));
    mark(&mut flight, us(4), 9);
    let mut retired = Vec::new();
    assert!(flight.completed_through(3, us(50), Seen::ByWait, &mut retired).is_some());
    assert_eq!(flight.completed_through(3, us(51), Seen::ByWait, &mut retired), None);
    assert_eq!((flight.first_marker(), &retired[..]), (Some(9), &[][..]));
    assert!(flight.first_marker_completed(us(60), None).is_some());
    assert!(flight.is_empty());
}

#[test]
fn short_commands_share_a_gate_and_long_ones_have_their_own() {
    let mut flight: Flight<u32> = Flight::new(Limit::default());
    let gates = |flight: &mut Flight<u32>, every, length| {
        let mut gates = 0;
        for command in 0..40 {
            let begin = us(command * 1000);
            gates += usize::from(flight.wants_gate(CLASS, Nanos::from_micros(every)));
            flight.launched(begin, CLASS);
            mark(flight, begin, 1);
            flight.launched(begin, DurationClass(2));
            flight
                .first_marker_completed(begin + Nanos::from_micros(length), Some(Nanos::from_micros(length)));
        }
        gates
    };
    assert!(gates(&mut flight, 10, 2) <= 20);
    gates(&mut flight, 10, 100);
    assert_eq!(gates(&mut flight, 10, 100), 40);
}

/// Commands were long, and are short now: more of them come in a time than were thought to fit in.
#[test]
fn a_source_that_launches_all_the_time_is_looked_at_all_the_same() {
    for is_waited_for in [false, true] {
        let mut flight = Flight::new(Limit::default());
        flight.launched(us(0), CLASS);
        mark(&mut flight, us(0), 0);
        flight.first_marker_completed(us(1_000), Some(Nanos::from_micros(1_000))).unwrap();
        let mut looks = 0;
        for command in 1..=1_000 {
            let time = us(2_000 + command * 100);
            flight.launched(time, CLASS);
            if command % 20 == 0 {
                mark(&mut flight, time, command);
            }
            if flight.next_check(is_waited_for).is_some_and(|at| at <= time) {
                looks += 1;
                flight.first_marker_pending(time);
            }
        }
        assert!(looks >= 9, "{looks} in 100 ms");
    }
}

#[test]
fn a_marker_is_looked_at_when_what_is_before_it_may_be_complete() {
    let mut flight = Flight::new(Limit::default());
    flight.launched(us(0), CLASS);
    mark(&mut flight, us(0), 0);
    flight.first_marker_completed(us(160), Some(Nanos::from_micros(160))).unwrap();
    (0..2).for_each(|_| flight.launched(us(1_000), CLASS));
    mark(&mut flight, us(1_000), 1);
    let at = flight.next_check(false);
    assert_eq!(at, Some(us(1_150 + 80)));
    (0..40).for_each(|_| flight.launched(us(1_010), CLASS));
    mark(&mut flight, us(1_010), 2);
    assert_eq!(flight.next_check(false), at, "whatever comes behind it");
    assert!(
        flight
            .completed_through(flight.launched_so_far() - 41, us(1_160), Seen::ByWait, &mut Vec::new())
            .is_some()
    );
    assert_eq!(flight.next_check(false), Some(us(1_160 + 150)), "one is left of the two");
}

#[test]
fn an_overdue_marker_is_looked_at_less_and_less_often() {
    let mut flight = Flight::new(Limit::default());
    flight.launched(us(0), CLASS);
    mark(&mut flight, us(0), 1);
    let mut looks = 0;
    while let Some(at) = flight.next_check(true).filter(|at| *at < us(20_000)) {
        assert!(at > us(0));
        flight.first_marker_pending(at);
        looks += 1;
    }
    assert!((10..300).contains(&looks), "{looks} looks");
}

#[test]
fn a_command_that_does_not_end_does_not_stop_the_others_for_ever() {
    let mut flight: Flight<u32> = Flight::new(Limit::default());
    while flight.may_launch(us(0), CLASS, false) {
        flight.launched(us(0), CLASS);
    }
    let later = |times| us(0) + PATIENCE.times(times) + Nanos(1);
    assert!(!flight.may_launch(us(100), CLASS, false) && flight.may_launch(later(1), CLASS, false));
    flight.launched(later(1), CLASS);
    assert!(!flight.may_launch(later(1), CLASS, false), "one at a time");
    assert!(flight.may_launch(later(2), CLASS, false));
}
