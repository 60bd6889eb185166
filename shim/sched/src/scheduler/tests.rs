mod anything;
mod equals;
mod shares;
mod starvation;
mod streams;

use super::*;
use crate::{ProcessId, Quota, What};

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
