//! Slices and charges of policies that share a device.

use super::*;

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

/// The old window lasts for ten seconds.
#[test]
fn a_process_with_another_quota_has_a_new_window() {
    let mut fixture = Fixture::with(PolicyKind::Quota);
    let quota = |time, window| Attributes {
        quota: Some(Quota { time: ms(time), window: ms(window) }),
        ..Attributes::new(DeviceId(0), ProcessId(1))
    };
    fixture.open_with(1, quota(100, 10_000)).open(2, 0).at(ms(0), ready(1)).at(ms(0), ready(2));
    let first = |fixture: &Fixture| fixture.level(1) < fixture.level(2);
    assert!(first(&fixture), "it has its quota");
    fixture.at(ms(150), ClaimChange::Used { claim: ClaimId(1), device: ms(150), commands: 1 });
    assert!(!first(&fixture), "it has used its quota up");
    fixture.at(ms(160), ClaimChange::Changed { claim: ClaimId(1), attributes: quota(50, 100) });
    assert!(first(&fixture), "it has another quota");
    fixture.at(ms(220), ClaimChange::Used { claim: ClaimId(1), device: ms(60), commands: 1 });
    assert!(!first(&fixture), "it has used that up, too");
    fixture.decide(ms(261));
    assert!(first(&fixture), "the window was a short one");
}
