mod anything;

use super::*;
use crate::{ProcessId, What};

const MS: Nanos = Nanos::from_millis(1);

fn ms(count: u64) -> Nanos {
    MS.times(count)
}

/// A scheduler with its decisions so far.
struct Fixture {
    scheduler: Scheduler,
    levels: HashMap<ClaimId, Level>,
    now: Nanos,
    again: Option<Nanos>,
}

impl Fixture {
    fn new() -> Self {
        let scheduler = Scheduler::new(PolicyKind::Priority, Settings::default());
        Self { scheduler, levels: HashMap::new(), now: Nanos::ZERO, again: None }
    }

    fn with(policy: PolicyKind) -> Self {
        let mut fixture = Self::new();
        fixture.scheduler.set_policy(Nanos::ZERO, policy);
        fixture
    }

    fn at(&mut self, now: Nanos, event: ClaimChange) -> &mut Self {
        self.now = now;
        self.scheduler.handle(now, event);
        self.decide(now)
    }

    fn decide(&mut self, now: Nanos) -> &mut Self {
        self.now = now;
        let decisions = self.scheduler.decide(now);
        self.again = decisions.again;
        self.levels.extend(decisions.levels);
        self
    }

    fn open(&mut self, claim: u32, priority: i16) -> &mut Self {
        self.open_with(claim, Attributes { priority, ..Attributes::new(DeviceId(0), ProcessId(claim)) })
    }

    fn open_with(&mut self, claim: u32, attributes: Attributes) -> &mut Self {
        self.at(self.now, ClaimChange::Opened { claim: ClaimId(claim), attributes })
    }

    fn level(&self, claim: u32) -> u64 {
        self.levels[&ClaimId(claim)].number()
    }

    fn state(&self, claim: u32) -> ClaimState {
        self.scheduler.claims().find(|state| state.id == ClaimId(claim)).unwrap()
    }
}

fn ready(claim: u32) -> ClaimChange {
    ClaimChange::Ready { claim: ClaimId(claim) }
}

fn idle(claim: u32) -> ClaimChange {
    ClaimChange::Idle { claim: ClaimId(claim) }
}

fn used(claim: u32) -> ClaimChange {
    ClaimChange::Used { claim: ClaimId(claim), device: Nanos::from_micros(1), commands: 1 }
}

fn closed(claim: u32) -> ClaimChange {
    ClaimChange::Closed { claim: ClaimId(claim) }
}

#[test]
fn priorities_become_levels_and_newcomers_move_others() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 200).open(3, 0);
    assert_eq!([1, 2, 3].map(|claim| fixture.level(claim)), [2, 1, 2]);
    fixture.open(4, 100);
    assert_eq!([1, 2, 3, 4].map(|claim| fixture.level(claim)), [3, 1, 3, 2]);
    fixture.at(ms(1), closed(2));
    assert_eq!([1, 3, 4].map(|claim| fixture.level(claim)), [2, 2, 1]);
}

#[test]
fn a_changed_priority_takes_effect() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1);
    let attributes = Attributes { priority: 2, ..Attributes::new(DeviceId(0), ProcessId(1)) };
    fixture.at(ms(1), ClaimChange::Changed { claim: ClaimId(1), attributes });
    assert_eq!([1, 2].map(|claim| fixture.level(claim)), [1, 2]);
}

/// Hints are kept by claims, so a policy that comes back finds them.
#[test]
fn hints_outlive_a_change_of_the_policy() {
    let mut fixture = Fixture::with(PolicyKind::Edf);
    for (claim, deadline) in [(1, 30), (2, 10)] {
        let deadline = Some(ms(deadline));
        fixture.open_with(claim, Attributes { deadline, ..Attributes::new(DeviceId(0), ProcessId(claim)) });
        fixture.at(ms(1), ready(claim));
    }
    let levels = [1, 2].map(|claim| fixture.level(claim));
    assert!(levels[1] < levels[0], "the second is due first");
    for policy in [PolicyKind::Mlfq, PolicyKind::Priority, PolicyKind::Edf] {
        fixture.scheduler.set_policy(ms(2), policy);
        fixture.decide(ms(2));
    }
    assert_eq!([1, 2].map(|claim| fixture.level(claim)), levels);
}

#[test]
fn devices_are_independent() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0);
    fixture.open_with(2, Attributes { priority: 50, ..Attributes::new(DeviceId(7), ProcessId(1)) });
    assert_eq!([1, 2].map(|claim| fixture.level(claim)), [1, 1]);
    fixture.at(ms(1), ready(2)).at(ms(2), ready(1));
    assert!(fixture.state(1).allowed && fixture.state(2).allowed);
}

#[test]
fn a_claim_that_moves_to_another_device_keeps_its_urgency() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).at(ms(1), ready(1));
    let attributes = Attributes::new(DeviceId(1), ProcessId(1));
    fixture.at(ms(2), ClaimChange::Changed { claim: ClaimId(1), attributes });
    assert_eq!(fixture.state(1).attributes.device, DeviceId(1));
    assert!(fixture.state(1).ready);
}

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
fn a_claim_that_waits_for_longer_than_the_bound_gets_a_quantum() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1);
    fixture.at(ms(0), ready(2)).at(ms(5), ready(1));
    assert_eq!(fixture.again, Some(ms(1_005)));
    fixture.decide(ms(1_004));
    assert_eq!(fixture.level(1), 2);
    fixture.decide(ms(1_005));
    assert_eq!(fixture.level(1), Level::STARVED.number());
    assert_eq!(fixture.again, Some(ms(1_015)));
    fixture.decide(ms(1_015));
    assert_eq!(fixture.level(1), 2);
    fixture.at(ms(1_020), used(1));
    assert_eq!(fixture.again, Some(ms(2_015)));
}

/// Its process got no processor, say.
#[test]
fn a_claim_that_could_not_use_its_slice_soon_gets_another() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(2)).at(ms(0), ready(1));
    fixture.decide(ms(1_000)).decide(ms(1_010));
    assert_eq!(fixture.level(1), 2);
    assert_eq!(fixture.again, Some(ms(1_110)), "a report may come by then");
    fixture.decide(ms(1_110));
    assert_eq!(fixture.level(1), 2);
    assert_eq!(fixture.again, Some(ms(1_260)), "a quarter of the bound after its slice");
    fixture.decide(ms(1_260));
    assert_eq!(fixture.level(1), Level::STARVED.number());
    fixture.at(ms(1_265), used(1)).decide(ms(1_270));
    assert_eq!(fixture.level(1), 2);
    assert_eq!(fixture.again, Some(ms(2_270)), "it has reported use");
}

#[test]
fn a_claim_that_does_not_use_its_slices_gets_few() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(2)).at(ms(0), ready(1));
    let slices =
        (0..20_000).filter(|&step| fixture.decide(ms(step)).level(1) == Level::STARVED.number()).count();
    assert!((70..=80).contains(&(slices / 10)), "{slices} ms of 20 s");
}

#[test]
fn being_allowed_for_a_moment_does_not_reset_waiting() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(1)).at(ms(0), ready(2));
    fixture.at(ms(900), idle(2)).at(ms(901), ready(2)).at(ms(901), used(1));
    assert_eq!(fixture.again, Some(ms(1_101)), "a millisecond has taken back a tenth of the bound");
    fixture.decide(ms(1_101));
    assert_eq!(fixture.level(1), Level::STARVED.number());
}

#[test]
fn a_quantum_in_front_resets_waiting() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(1)).at(ms(0), ready(2));
    fixture.at(ms(900), idle(2)).at(ms(910), ready(2)).at(ms(915), used(1));
    assert_eq!(fixture.again, Some(ms(1_910)));
}

#[test]
fn being_allowed_is_not_being_served() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(1)).at(ms(0), ready(2));
    fixture.at(ms(700), idle(2)).at(ms(710), ready(2));
    assert_eq!(fixture.state(1).waited, Nanos::ZERO);
    // A lease that ends while it is allowed proves no use.
    fixture.at(ms(750), idle(2)).at(ms(751), idle(1)).at(ms(752), ready(1)).at(ms(753), ready(2));
    assert_eq!(fixture.again, Some(ms(813)), "a report may come until then");
    fixture.decide(ms(813));
    assert_eq!(fixture.state(1).waited, ms(812), "all but the moment in which it was idle");
    assert_eq!(fixture.again, Some(ms(1_001)));
}

#[test]
fn starving_claims_get_a_slice_together() {
    let mut fixture = Fixture::new();
    fixture.open(0, 1).at(ms(0), ready(0));
    for claim in 1..=10 {
        fixture.open(claim, 0).at(ms(u64::from(claim) * 40), ready(claim));
    }
    fixture.decide(ms(1_040));
    assert!((1..=10).all(|claim| fixture.level(claim) == Level::STARVED.number()));
    assert_eq!(fixture.level(0), 1);
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

#[test]
fn only_a_policy_that_separates_equals_must_know_at_once_which_claims_have_work() {
    let mut fixture = Fixture::new();
    fixture.open(1, 100).open(2, 0).open(4, 100);
    assert_eq!(fixture.scheduler.change_delay_max(), ms(100));
    fixture.open(3, 0);
    assert_eq!(fixture.scheduler.change_delay_max(), Nanos::ZERO);
    fixture.at(ms(1), closed(2));
    assert_eq!(fixture.scheduler.change_delay_max(), ms(100));
}

#[test]
fn without_a_bound_there_are_no_starvation_slices() {
    let mut fixture = Fixture::new();
    let settings = Settings { starvation_bound: Nanos::ZERO, ..Settings::default() };
    fixture.scheduler.set_settings(Nanos::ZERO, settings);
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(1)).at(ms(0), ready(2));
    assert_eq!(fixture.again, None);
    fixture.decide(ms(100_000));
    assert_eq!(fixture.level(1), 2);
}

#[test]
fn late_events_of_closed_claims_are_counted_only() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1).at(ms(1), closed(1));
    fixture.at(ms(2), ready(1)).at(ms(2), closed(1));
    assert_eq!(fixture.scheduler.ignored(), 2);
    assert_eq!(fixture.scheduler.claims().count(), 1);
    fixture.at(ms(3), ready(2));
    assert!(fixture.state(2).ready, "it has moved, and is still found");
}

#[test]
fn a_slot_that_is_used_again_is_a_new_claim() {
    let mut fixture = Fixture::new();
    fixture.open(1, 5).at(ms(1), ready(1));
    fixture.open(1, -5);
    assert!(!fixture.state(1).ready);
    assert_eq!(fixture.state(1).attributes.priority, -5);
}

#[test]
fn two_ready_claims_side_by_side_share_the_charge() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 0).at(ms(0), ready(1)).at(ms(0), ready(2));
    fixture.decide(ms(10)).at(ms(20), idle(1));
    assert_eq!(fixture.state(1).charged, ms(10));
    fixture.at(ms(20), ClaimChange::Used { claim: ClaimId(1), device: ms(14), commands: 100 });
    assert_eq!(fixture.state(1).charged, ms(14));
    assert_eq!(fixture.state(2).charged, ms(10));
}

#[test]
fn one_process_is_in_front_for_a_slice() {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    fixture.open(1, 0).open(2, 0).at(ms(0), ready(1)).at(ms(0), ready(2));
    assert_eq!([1, 2].map(|claim| fixture.level(claim)), [2, 3]);
    assert_eq!(fixture.again, Some(ms(4)));
    fixture.decide(ms(4));
    assert_eq!([1, 2].map(|claim| fixture.level(claim)), [3, 2]);
}

#[test]
fn a_process_in_front_without_work_lets_others_run() {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    fixture.open(1, 0).open(2, 0).at(ms(0), ready(1)).at(ms(0), ready(2));
    fixture.at(ms(1), idle(1));
    assert_eq!(fixture.level(2), 2);
    assert_eq!(fixture.again, None, "no other process has work");
    fixture.at(ms(3), ready(1));
    assert_eq!(fixture.again, Some(ms(5)), "it has been in front since 1 ms");
}

#[test]
fn equals_share_and_a_higher_priority_goes_first() {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    fixture.open(1, 0).open(2, 0).open(3, 1);
    assert_eq!(fixture.level(3), Level::UNLIMITED.number(), "no other claim will replace it");
    fixture.at(ms(0), ready(1)).at(ms(0), ready(2)).at(ms(0), ready(3));
    assert_eq!([1, 2].map(|claim| fixture.level(claim)), [2, 3]);
    assert_eq!(fixture.again, Some(ms(1_000)), "no slice passes while another claim is in front");
    fixture.at(ms(5), idle(3));
    assert_eq!(fixture.again, Some(ms(9)));
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

/// A process that reports no use and one that reports nothing alternate all the same.
#[test]
fn false_reports_of_use_do_not_pay() {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    fixture.open(1, 0).open(2, 0).at(ms(0), ready(1)).at(ms(0), ready(2));
    let mut in_front = [0_u32; 2];
    for step in 1..=2_000 {
        fixture.decide(ms(step));
        fixture.at(ms(step), ClaimChange::Used { claim: ClaimId(1), device: Nanos::ZERO, commands: 0 });
        in_front[usize::from(fixture.level(2) == 2)] += 1;
    }
    assert!(in_front[1] > 2_000 / 3 - 100, "the truthful process has a third, at least: {in_front:?}");
}

/// Two processes alternate. In each millisecond in which the first is in front, the second's earlier work takes `runs_on` parts of
/// ten; of the rest the first reports `says` parts as its use. Returns for how long the first was in front, and its charge.
fn beside_work_that_runs_on(runs_on: u64, says: u64) -> (Nanos, Nanos) {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    fixture.open(1, 0).open(2, 0).at(ms(0), ready(1)).at(ms(0), ready(2));
    let (mut in_front, mut device) = (Nanos::ZERO, [Nanos::ZERO; 2]);
    for step in 1..=4_000 {
        let parts = if fixture.level(1) == 2 { [says, runs_on] } else { [0, 10] };
        in_front += if parts[1] == 10 { Nanos::ZERO } else { MS };
        for (device, parts) in device.iter_mut().zip(parts) {
            *device += (MS / 10).times(parts);
        }
        fixture.decide(ms(step));
        for claim in [1, 2] {
            if step % 10 == 0 {
                let device = std::mem::take(&mut device[claim - 1]);
                fixture
                    .at(ms(step), ClaimChange::Used { claim: ClaimId(claim as u32), device, commands: 100 });
            }
        }
    }
    (in_front, fixture.state(1).charged)
}

#[test]
fn a_process_that_finds_the_device_full_pays_for_what_it_used() {
    let (in_front, charged) = beside_work_that_runs_on(9, 1);
    let used = in_front / 10;
    assert!(charged <= used + ms(20) && charged + ms(20) >= used, "{charged} for {used}");
}

#[test]
fn false_reports_beside_work_that_runs_on_do_not_pay() {
    let (in_front, charged) = beside_work_that_runs_on(4, 0);
    let least = in_front.times(6) / 10 / 2;
    assert!(charged + ms(100) >= least, "{charged} for {least}");
}

#[test]
fn settings_of_claims_survive_a_change_of_policy() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 50).at(ms(0), ready(1));
    for policy in [PolicyKind::Partition, PolicyKind::Fair, PolicyKind::Priority] {
        fixture.scheduler.set_policy(ms(1), policy);
        fixture.decide(ms(1));
    }
    assert_eq!([1, 2].map(|claim| fixture.level(claim)), [2, 1]);
    assert!(fixture.state(1).ready);
}

#[test]
fn time_without_a_promise_is_divided_among_processes_with_work() {
    let mut fixture = Fixture::with(PolicyKind::Partition);
    let attributes = Attributes { share: Some(50), ..Attributes::new(DeviceId(0), ProcessId(1)) };
    fixture.open_with(1, attributes).open(2, 0).open(3, 0);
    fixture.at(ms(0), ready(1)).at(ms(0), ready(2));
    let mut in_front = [0_u32; 2];
    for step in 1..=1_000 {
        fixture.decide(ms(step));
        in_front[usize::from(fixture.level(2) == 2)] += 1;
    }
    assert!(in_front[0].abs_diff(in_front[1]) < 20, "the third has no work: {in_front:?}");
}

#[test]
fn a_suspended_machine_is_not_charged() {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    fixture.open(1, 0).open(2, 0).at(ms(0), ready(1)).at(ms(0), ready(2));
    let night = ms(8 * 3_600_000);
    fixture.decide(night);
    assert!(fixture.state(1).charged <= ms(1_000));
}

/// A caller that decides whenever it is asked to must get on.
#[test]
fn there_is_always_time_until_the_next_question() {
    let zero = Settings { quantum: Nanos::ZERO, slice: Nanos::ZERO, ..Settings::default() };
    for policy in PolicyKind::ALL {
        let mut fixture = Fixture::with(*policy);
        fixture.scheduler.set_settings(Nanos::ZERO, zero);
        fixture.open(1, 0).open(2, 0).open(3, 1);
        for claim in 1..=3 {
            fixture.at(ms(0), ready(claim));
        }
        for _ in 0..5_000 {
            let Some(again) = fixture.again else { break };
            assert!(again > fixture.now, "{policy} at {again}");
            fixture.decide(again);
        }
    }
}

/// Two that share the device, and a third of lower priority, which has its starvation slice from 1 s on.
fn slice_beside_sharers() -> Fixture {
    let mut fixture = Fixture::with(PolicyKind::Fair);
    fixture.open(1, 1).open(2, 1).open(3, 0);
    for claim in 1..=3 {
        fixture.at(ms(0), ready(claim));
    }
    for step in 1..=1_000 {
        fixture.at(ms(step), used(1)).at(ms(step), used(2));
    }
    assert_eq!((fixture.level(3), fixture.again), (Level::STARVED.number(), Some(ms(1_010))));
    fixture
}

#[test]
fn slices_pass_again_when_a_claim_in_its_starvation_slice_is_closed() {
    let mut fixture = slice_beside_sharers();
    fixture.at(ms(1_001), closed(3));
    assert_eq!(fixture.again, Some(ms(1_005)));
}

#[test]
fn slices_pass_while_a_claim_in_its_starvation_slice_has_no_work() {
    let mut fixture = slice_beside_sharers();
    fixture.at(ms(1_001), idle(3));
    assert_eq!(fixture.again, Some(ms(1_005)));
    fixture.at(ms(1_002), ready(3));
    assert_eq!(fixture.again, Some(ms(1_010)));
}

/// Otherwise many processes that stop in time, and go on one by one, would have starvation slices all the time.
#[test]
fn a_claim_that_is_idle_when_a_slice_begins_does_not_have_the_next_one_at_once() {
    let mut fixture = Fixture::new();
    fixture.open(0, 1).at(ms(0), ready(0));
    for claim in 1..=20 {
        fixture.open(claim, 0).at(ms(0), ready(claim));
    }
    for claim in 2..=20 {
        fixture.at(ms(999), idle(claim));
    }
    fixture.decide(ms(1_000));
    assert_eq!(fixture.level(1), Level::STARVED.number());
    let mut slices = 0;
    for step in 1..=300 {
        fixture.at(ms(1_000 + u64::from(step)), ready(2 + step / 16));
        slices += u32::from((1..=20).any(|claim| fixture.level(claim) == Level::STARVED.number()));
    }
    assert!(slices < 25, "slices take {slices} ms of 300");
}

#[test]
fn a_patience_that_becomes_shorter_may_be_over_at_once() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(1)).at(ms(0), ready(2));
    fixture.at(ms(900), idle(2)).at(ms(910), ready(2)).decide(ms(990));
    let settings = Settings { patience: ms(20), ..Settings::default() };
    fixture.scheduler.set_settings(ms(990), settings);
    fixture.decide(ms(990));
    assert_eq!((fixture.state(1).waited, fixture.again), (ms(990), Some(ms(1_000))));
}

#[test]
fn initial_settings_are_brought_in_range() {
    let settings = Settings { quantum: Nanos::ZERO, slice: Nanos::ZERO, ..Settings::default() };
    let scheduler = Scheduler::new(PolicyKind::Fair, settings);
    assert_eq!(scheduler.settings().check(), Ok(()));
}

#[test]
fn turns_delays_and_preemptions_are_noted_for_a_caller_that_asks() {
    let mut fixture = Fixture::new();
    fixture.scheduler.observe();
    fixture.open(1, 0).open(2, 100);
    let ready = |claim| ClaimChange::Ready { claim: ClaimId(claim) };
    let idle = |claim| ClaimChange::Idle { claim: ClaimId(claim) };
    fixture.at(ms(1), ready(1)).at(ms(3), ready(2)).at(ms(8), idle(2)).at(ms(9), idle(1));
    let mut happenings = Vec::new();
    fixture.scheduler.take_happenings(&mut happenings);
    let began = |claim, waited| Happening { claim: ClaimId(claim), what: What::TurnBegan { waited } };
    let preempted = Happening { claim: ClaimId(1), what: What::Preempted };
    // Those of one moment are in the order of claims.
    assert_eq!(happenings, [began(1, Nanos::ZERO), preempted, began(2, Nanos::ZERO), began(1, ms(5))]);
    fixture.scheduler.take_happenings(&mut happenings);
    assert_eq!(happenings.len(), 4, "each is taken once");
}

#[test]
fn slices_of_starving_claims_are_noted() {
    let mut fixture = Fixture::new();
    fixture.scheduler.observe();
    fixture.open(1, 0).open(2, 100);
    for claim in [1, 2] {
        fixture.at(ms(1), ClaimChange::Ready { claim: ClaimId(claim) });
    }
    while fixture.now < ms(1100) {
        let again = fixture.again.expect("a claim waits");
        fixture.decide(again);
    }
    let mut happenings = Vec::new();
    fixture.scheduler.take_happenings(&mut happenings);
    let slices: Vec<_> =
        happenings.iter().filter(|happening| happening.what == What::StarvationSlice).collect();
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].claim, ClaimId(1));
}
