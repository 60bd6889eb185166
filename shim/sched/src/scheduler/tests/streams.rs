//! Streams of several priorities in one process.

use super::*;

/// Streams 1 (normal) and 2 (urgent) of a process, in a process of priority 0.
fn two_streams(fixture: &mut Fixture, ceiling: i16) {
    for (claim, stream_priority) in [(1, 0), (2, 1)] {
        let attributes =
            Attributes { ceiling, stream_priority, ..Attributes::new(DeviceId(0), ProcessId(1)) };
        fixture.open_with(claim, attributes);
    }
}

#[test]
fn streams_of_a_process_have_an_order() {
    let mut fixture = Fixture::new();
    two_streams(&mut fixture, 0);
    assert!(fixture.level(2) < fixture.level(1));
}

#[test]
fn a_stream_priority_gives_no_advantage_over_equals() {
    let mut fixture = Fixture::new();
    two_streams(&mut fixture, 0);
    fixture.open(3, 0);
    assert_eq!(fixture.level(2), fixture.level(3));
    assert_eq!(fixture.level(1), fixture.level(3), "nor a disadvantage");
}

#[test]
fn a_stream_priority_raises_up_to_the_ceiling() {
    let mut fixture = Fixture::new();
    two_streams(&mut fixture, 10);
    fixture.open(3, 0);
    fixture.open(4, 2);
    assert!(fixture.level(2) < fixture.level(3));
    assert!(fixture.level(4) < fixture.level(2));
    assert_eq!(fixture.level(1), fixture.level(3));
}

#[test]
fn a_process_with_many_streams_leaves_others_their_levels() {
    for policy in [PolicyKind::Priority, PolicyKind::Fair] {
        let mut fixture = Fixture::with(policy);
        fixture.open(1, 0).open(2, -100);
        for stream in 0..70 {
            let attributes = Attributes {
                priority: 49,
                ceiling: 49,
                stream_priority: stream as i32,
                ..Attributes::new(DeviceId(0), ProcessId(9))
            };
            fixture.open_with(10 + stream, attributes);
        }
        assert!(fixture.level(1) < fixture.level(2), "{policy}: {} {}", fixture.level(1), fixture.level(2));
        assert!((10..80).all(|claim| fixture.level(claim) < fixture.level(1)), "{policy}");
    }
}

/// Claims of process 2: one as urgent as its equals, and one that it wants to be less urgent.
fn with_a_lower_stream(fixture: &mut Fixture) {
    for (claim, stream_priority) in [(2, 0), (12, -10)] {
        let attributes = Attributes { stream_priority, ..Attributes::new(DeviceId(0), ProcessId(2)) };
        fixture.open_with(claim, attributes);
    }
}

#[test]
fn a_lower_stream_does_not_displace_equals() {
    let mut fixture = Fixture::new();
    fixture.open(1, 100);
    with_a_lower_stream(&mut fixture);
    fixture.open(3, 0).open(4, 0).at(ms(0), ready(1)).at(ms(1), idle(1));
    for claim in [2, 3, 4] {
        fixture.at(ms(1), ready(claim));
    }
    fixture.decide(ms(1));
    assert!([3, 4].iter().all(|other| fixture.level(2) < fixture.level(*other)));
    // A little of its slice is left.
    let almost = ms(5) - Nanos(10);
    fixture.at(almost, ready(12)).at(almost, idle(2));
    assert!(
        fixture.again.unwrap() >= almost + ms(1),
        "nothing of the slice passes: {:?} at {almost}",
        fixture.again
    );
    assert_ne!(fixture.level(3), fixture.level(4), "one of those with work as urgent goes");
}

#[test]
fn equals_alternate_beside_a_lower_stream_of_a_more_urgent_process() {
    let mut fixture = Fixture::new();
    for (claim, stream_priority) in [(1, 0), (11, -100)] {
        let process = Attributes::new(DeviceId(0), ProcessId(1));
        fixture.open_with(claim, Attributes { priority: 100, stream_priority, ..process });
    }
    fixture.open(2, 0).open(3, 0);
    for claim in [11, 2, 3] {
        fixture.at(ms(0), ready(claim));
    }
    assert_eq!([11, 2, 3].map(|claim| fixture.level(claim)), [2; 3], "none of this is urgent");
    fixture.at(ms(0), ready(1)).at(ms(0), idle(1));
    let [first, second] = if fixture.level(2) < fixture.level(3) { [2, 3] } else { [3, 2] };
    assert_eq!((fixture.level(11), fixture.again), (fixture.level(first), Some(ms(4))));
    fixture.decide(ms(4));
    assert!(fixture.level(second) < fixture.level(first));
}

#[test]
fn streams_of_the_process_in_front_have_an_order() {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    two_streams(&mut fixture, 0);
    fixture.open(3, 0).at(ms(0), ready(1)).at(ms(0), ready(3));
    assert_eq!([2, 1, 3].map(|claim| fixture.level(claim)), [2, 3, 4]);
    fixture.decide(ms(4));
    assert_eq!([3, 1, 2].map(|claim| fixture.level(claim)), [2, 3, 3]);
}
