//! Starvation slices that are not used: their owners soon get others, and urgent work does not pay for it.
//!
//! In these worlds an urgent client always has work, so the others get nothing but starvation slices. Some of them sleep through
//! theirs, as processes do on a busy machine.

use super::{Verdict, holds, ms, seeds};
use crate::simulation::trace::{Act, Trace};
use crate::simulation::{Delays, run, worlds};
use crate::{Level, Nanos, PolicyKind, Settings};

/// A patience that is shorter than a quarter of the bound, as by default.
const SETTINGS: Settings = Settings {
    starvation_bound: ms(240),
    quantum: ms(5),
    slice: Nanos::from_millis(4),
    patience: Nanos::from_millis(24),
    serialize_equals: Nanos::from_secs(1),
    side_by_side: 1,
    linger: Nanos::from_micros(100),
};

/// How late a client's acts are known, and decisions take effect.
fn late() -> Nanos {
    Delays::default().sum().times(2)
}

/// When a client had a slice, by its levels.
fn slices(trace: &Trace, client: usize) -> Vec<(Nanos, Nanos)> {
    let mut slices = Vec::new();
    let mut since = None;
    for (time, act) in trace.of(client) {
        match act {
            Act::Level(Level::STARVED) => since = since.or(Some(time)),
            Act::Level(_) | Act::Closed => slices.extend(since.take().map(|since| (since, time))),
            _ => {}
        }
    }
    slices
}

/// The first of a client's slices after a time.
fn next_slice(trace: &Trace, client: usize, after: Nanos) -> Option<Nanos> {
    slices(trace, client).into_iter().map(|(began, _)| began).find(|began| *began >= after)
}

/// Slices in which a client has launched nothing, and before which the scheduler had all its reports of use.
fn unused(trace: &Trace, client: usize) -> Vec<(Nanos, Nanos)> {
    let known_after = ms(10) + late();
    let is_unused = |(began, ended): &(Nanos, Nanos)| {
        let mut acts = trace.of(client).filter(|(time, _)| *time <= *ended);
        !acts.any(|(time, act)| match act {
            Act::Launched { .. } => time >= *began,
            Act::Ended => time + known_after >= *began,
            _ => false,
        })
    };
    slices(trace, client).into_iter().filter(is_unused).collect()
}

// --- Soon: a client that could not use a slice does not wait for the whole bound again.

/// A quarter of the bound after a slice for which its owner had waited for all of the bound; half of it if only for half.
fn comes_again_soon(trace: &Trace) -> Verdict {
    let soon = SETTINGS.starvation_bound / 2 + late();
    for client in 0..trace.plans.len() {
        for (began, ended) in
            unused(trace, client).into_iter().filter(|(_, ended)| *ended + soon < trace.until)
        {
            let again = next_slice(trace, client, ended);
            if again.is_none_or(|again| again > ended + soon) {
                return Err(format!(
                    "{client} misses its slice from {began} to {ended}, the next comes at {again:?}"
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn a_client_that_could_not_use_a_slice_soon_gets_another() -> Result<(), String> {
    // Under a partition no client needs starvation slices.
    [PolicyKind::Priority, PolicyKind::Fair]
        .into_iter()
        .try_for_each(|policy| holds(|seed| worlds::with_sleepers(policy, seed, SETTINGS), comes_again_soon))
}

#[test]
fn sleepers_miss_slices_in_these_worlds() {
    let missed = |seed| {
        let trace = run(worlds::with_sleepers(PolicyKind::Priority, seed, SETTINGS));
        (0..trace.plans.len()).map(|client| unused(&trace, client).len()).sum::<usize>()
    };
    assert!(seeds().map(missed).sum::<usize>() > 50);
}

/// A patience without end counts each slice as used.
#[test]
fn a_scheduler_that_counts_each_slice_as_used_is_found() {
    let settings = Settings { patience: Nanos::from_secs(3_600), ..SETTINGS };
    holds(|seed| worlds::with_sleepers(PolicyKind::Priority, seed, settings), comes_again_soon).unwrap_err();
}

// --- Served: a slice that was not used does not count for the bound on waiting.

/// A client that always has work and misses some slices in a row is served as soon as it has had that number and one more.
fn is_served(trace: &Trace) -> Verdict {
    let slice = SETTINGS.quantum + late();
    let again = SETTINGS.starvation_bound / 2 + slice;
    for (client, plan) in trace.plans.iter().enumerate() {
        let in_a_row = u64::from(plan.misses.in_a_row);
        let longest = SETTINGS.starvation_bound + slice + again.times(in_a_row) + plan.misses.asleep;
        is_served_within(trace, client, longest)?;
    }
    Ok(())
}

/// Whether a client that always has work launches at least once in this time.
fn is_served_within(trace: &Trace, client: usize, longest: Nanos) -> Verdict {
    let launches = trace.of(client).filter(|(_, act)| matches!(act, Act::Launched { .. } | Act::Opened));
    let times: Vec<_> = launches.map(|(time, _)| time).chain([trace.until]).collect();
    match times.array_windows().find(|[from, to]| *to - *from > longest) {
        Some([from, to]) => Err(format!("{client} is not served from {from} to {to}")),
        None => Ok(()),
    }
}

#[test]
fn a_slice_that_was_not_used_does_not_count() -> Result<(), String> {
    holds(|seed| worlds::with_sleepers(PolicyKind::Priority, seed, SETTINGS), is_served)
}

#[test]
fn a_scheduler_that_counts_unused_slices_is_found() {
    let settings = Settings { patience: Nanos::from_secs(3_600), ..SETTINGS };
    holds(|seed| worlds::with_sleepers(PolicyKind::Priority, seed, settings), is_served).unwrap_err();
}

// --- Moments: being allowed for too short a time to launch does not count either.

/// A client that is too slow for moments gets a slice as soon as the bound is over, or as it is known that moments were of no use.
fn moments_are_no_service(trace: &Trace) -> Verdict {
    let slice = SETTINGS.quantum + late();
    // A report about earlier use may come in the middle, and count for a moment since then.
    let heard = ms(10) + late();
    let longest = SETTINGS.starvation_bound + SETTINGS.patience + slice.times(2) + heard;
    (1..trace.plans.len()).try_for_each(|client| is_served_within(trace, client, longest))
}

#[test]
fn a_moment_that_was_not_used_does_not_count() -> Result<(), String> {
    [PolicyKind::Priority, PolicyKind::Fair].into_iter().try_for_each(|policy| {
        holds(|seed| worlds::with_moments(policy, seed, SETTINGS), moments_are_no_service)
    })
}

#[test]
fn a_scheduler_that_counts_moments_is_found() {
    let settings = Settings { patience: Nanos::from_secs(3_600), ..SETTINGS };
    holds(|seed| worlds::with_moments(PolicyKind::Priority, seed, settings), moments_are_no_service)
        .unwrap_err();
}

// --- Harmless: what slices take from urgent work is bounded, however many clients use theirs.

/// Slices of a device begin a quarter of a bound apart, and each is over after a quantum: urgent work never waits for longer at a
/// stretch.
fn urgent_work_is_safe(trace: &Trace) -> Verdict {
    let clients = 0..trace.plans.len();
    let mut slices: Vec<_> = clients.flat_map(|client| slices(trace, client)).collect();
    slices.sort_unstable();
    // Several clients have a slice together; they learn of it one after the other.
    slices.dedup_by(|later, first| later.0 - first.0 < late());
    let apart = SETTINGS.starvation_bound / 4;
    let mut pairs = slices.array_windows();
    if let Some([(first, _), (next, _)]) = pairs.find(|[first, next]| next.0 - first.0 + late() < apart) {
        return Err(format!("slices begin at {first} and {next}"));
    }
    let longest = trace.plans.iter().map(|plan| plan.kernel).max().unwrap_or_default();
    for (from, to) in trace.times(0, Act::Blocked, Act::Allowed) {
        if to - from > SETTINGS.quantum + late() + longest {
            return Err(format!("the urgent client waits from {from} to {to}"));
        }
    }
    Ok(())
}

#[test]
fn unused_slices_take_little_from_urgent_work() -> Result<(), String> {
    holds(|seed| worlds::with_sleepers(PolicyKind::Priority, seed, SETTINGS), urgent_work_is_safe)?;
    holds(|seed| worlds::with_moments(PolicyKind::Priority, seed, SETTINGS), urgent_work_is_safe)
}

#[test]
fn slices_that_come_too_often_are_found() {
    let settings = Settings { starvation_bound: ms(120), ..SETTINGS };
    holds(|seed| worlds::with_sleepers(PolicyKind::Priority, seed, settings), urgent_work_is_safe)
        .unwrap_err();
}

#[test]
fn slices_that_are_too_long_are_found() {
    let settings = Settings { quantum: SETTINGS.quantum.times(2), ..SETTINGS };
    holds(|seed| worlds::with_sleepers(PolicyKind::Priority, seed, settings), urgent_work_is_safe)
        .unwrap_err();
}
