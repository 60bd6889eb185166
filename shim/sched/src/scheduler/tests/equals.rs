//! Equally urgent processes: side by side, or one at a time.

use super::*;

/// The levels of three processes, of which the first is urgent and the others are equals.
fn three(fixture: &Fixture) -> [u64; 3] {
    [1, 2, 3].map(|claim| fixture.level(claim))
}

#[test]
fn equals_go_one_at_a_time_while_urgent_work_is_there_or_may_be_back() {
    let mut fixture = Fixture::new();
    fixture.open(1, 100).open(2, 0).open(3, 0).at(ms(0), ready(2)).at(ms(0), ready(3));
    assert_eq!(three(&fixture), [1, 2, 2], "nothing urgent has been there");
    fixture.at(ms(1), ready(1));
    assert_eq!(three(&fixture), [1, 2, 3]);
    fixture.at(ms(11), idle(1));
    assert_eq!(
        (three(&fixture), fixture.again),
        ([1, 2, 3], Some(ms(15))),
        "time in which it was kept out is not part of its slice"
    );
    fixture.decide(ms(15));
    assert_eq!(three(&fixture), [1, 3, 2]);
    fixture.at(ms(16), idle(3));
    assert_eq!(three(&fixture), [1, 2, 3], "a process without work keeps no other out");
    fixture.at(ms(17), idle(2));
    assert_eq!(fixture.again, Some(ms(1_011)));
    fixture.decide(ms(1_011));
    assert_eq!((three(&fixture), fixture.again), ([1, 2, 2], None));
}

/// At the end of any other slice its last command runs beside the next process's first one, and urgent work may find both.
#[test]
fn slices_that_are_half_used_end_when_urgent_work_comes() {
    let mut fixture = Fixture::new();
    fixture.open(1, 100).open(2, 0).open(3, 0).at(ms(0), ready(1)).at(ms(0), ready(2)).at(ms(0), ready(3));
    fixture.at(ms(1), idle(1)).at(ms(2), ready(1));
    assert_eq!(three(&fixture), [1, 2, 3], "1 ms of 4 is used");
    fixture.at(ms(3), idle(1)).at(ms(4), ready(1));
    assert_eq!(three(&fixture), [1, 3, 2], "2 ms of 4 are used");
    fixture.at(ms(5), used(2)).at(ms(5), idle(1));
    assert_eq!((three(&fixture), fixture.again), ([1, 3, 2], Some(ms(9))), "the next slice is a whole one");
}

/// A service starts a process for each request.
#[test]
fn equals_go_one_at_a_time_also_when_the_urgent_process_has_ended() {
    let mut fixture = Fixture::new();
    fixture.open(1, 100).open(2, 0).open(3, 0).at(ms(0), ready(2)).at(ms(0), ready(3));
    fixture.at(ms(1), ready(1)).at(ms(11), closed(1));
    let two = |fixture: &Fixture| [2, 3].map(|claim| fixture.level(claim));
    assert_eq!((two(&fixture), fixture.again), ([2, 3], Some(ms(15))), "and not without a limit");
    fixture.decide(ms(15));
    assert_eq!(two(&fixture), [3, 2]);
    fixture.now = ms(500);
    fixture.open(4, 100).at(ms(500), ready(4)).at(ms(510), idle(4)).at(ms(600), closed(4));
    fixture.at(ms(601), idle(2)).at(ms(601), idle(3));
    assert_eq!(fixture.again, Some(ms(1_510)), "counted from the last work");
    fixture.at(ms(1_509), ready(2)).at(ms(1_509), ready(3));
    assert_ne!(two(&fixture), [1, 1]);
    assert_eq!(fixture.scheduler.change_delay_max(), Nanos::ZERO);
    fixture.decide(ms(1_510));
    assert_eq!((two(&fixture), fixture.again), ([1, 1], None));
    assert!(fixture.scheduler.change_delay_max() > Nanos::ZERO, "while no urgent process comes");
    fixture.at(ms(1_511), used(2)).open(5, 0).at(ms(1_512), used(3));
    assert_eq!((two(&fixture), fixture.level(5), fixture.again), ([1, 1], 1, None));
}

#[test]
fn the_most_urgent_with_work_are_side_by_side() {
    let mut fixture = Fixture::new();
    for (claim, priority) in [(1, 100), (2, 0), (3, 0), (4, -100), (5, -100)] {
        fixture.open(claim, priority);
    }
    for claim in 2..=5 {
        fixture.at(ms(0), ready(claim));
    }
    assert_eq!((three(&fixture), [4, 5].map(|claim| fixture.level(claim))), ([1, 2, 2], [3, 4]));
    fixture.at(ms(1), ready(1));
    assert_eq!((three(&fixture), [4, 5].map(|claim| fixture.level(claim))), ([1, 2, 3], [4, 5]));
}

#[test]
fn equals_may_always_be_side_by_side() {
    let mut fixture = Fixture::new();
    let settings = Settings { serialize_equals: Nanos::ZERO, ..Settings::default() };
    fixture.scheduler.set_settings(Nanos::ZERO, settings);
    fixture.open(1, 100).open(2, 0).open(3, 0);
    for claim in 1..=3 {
        fixture.at(ms(0), ready(claim));
    }
    assert_eq!(three(&fixture), [1, 2, 2]);
    fixture.scheduler.set_settings(ms(1), Settings::default());
    fixture.decide(ms(1));
    assert_eq!(three(&fixture), [1, 2, 3]);
    fixture.scheduler.set_settings(ms(2), settings);
    fixture.decide(ms(2));
    assert_eq!(three(&fixture), [1, 2, 2]);
}

#[test]
fn time_that_equals_had_side_by_side_is_not_made_up_for() {
    let mut fixture = Fixture::new();
    fixture.open(1, 100).open(2, 0).open(3, 0).at(ms(0), ready(2)).at(ms(0), ready(3));
    // The kernels of one are long.
    for now in (10..10_000).step_by(10).map(ms) {
        for (claim, time) in [(2, ms(9)), (3, ms(1))] {
            fixture.at(now, ClaimChange::Used { claim: ClaimId(claim), device: time, commands: 10 });
        }
    }
    let charged = |claim| fixture.state(claim).charged;
    assert!(charged(2) > charged(3).times(4));
    fixture.at(ms(10_000), ready(1)).at(ms(10_001), idle(1));
    let mut fronts = Vec::new();
    for now in (10_002..10_040).map(ms) {
        let front = if fixture.level(2) < fixture.level(3) { 2 } else { 3 };
        fixture.at(now, ClaimChange::Used { claim: ClaimId(front), device: ms(1), commands: 10 });
        fronts.push(front);
    }
    let of_first = fronts.iter().filter(|front| **front == 2).count();
    assert!((12..=26).contains(&of_first), "{fronts:?}");
}
