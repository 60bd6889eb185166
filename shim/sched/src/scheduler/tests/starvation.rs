//! Slices for claims that have waited too long.

use super::*;

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
fn without_a_bound_there_are_no_starvation_slices() {
    let mut fixture = Fixture::new();
    let settings = Settings { starvation_bound: Nanos::ZERO, ..Settings::default() };
    fixture.scheduler.set_settings(Nanos::ZERO, settings);
    fixture.open(1, 0).open(2, 1).at(ms(0), ready(1)).at(ms(0), ready(2));
    assert_eq!(fixture.again, None);
    fixture.decide(ms(100_000));
    assert_eq!(fixture.level(1), 2);
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
