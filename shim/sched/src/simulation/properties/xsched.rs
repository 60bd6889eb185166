//! Faults that XSched's policies have, each planted: the property that ours has instead finds it.

use std::collections::BTreeMap;

use super::{Verdict, holds, ms, newcomers, parts_are, planted};
use crate::simulation::trace::{Act, Trace};
use crate::simulation::{Delays, World, worlds};
use crate::{Level, Nanos, PolicyKind};

// --- A newcomer has the device for as long as the others have been there.

/// Policies under which processes without hints share evenly.
const EVEN: [PolicyKind; 7] = [
    PolicyKind::Fair,
    PolicyKind::Partition,
    PolicyKind::Quota,
    PolicyKind::Edf,
    PolicyKind::Laxity,
    PolicyKind::Slo,
    PolicyKind::Nice,
];

#[test]
fn a_newcomer_gets_its_part_and_no_more() -> Result<(), String> {
    EVEN.into_iter().try_for_each(|policy| {
        holds(|seed| worlds::with_a_newcomer(policy, seed), newcomers)
            .map_err(|broken| format!("policy {policy}, {broken}"))
    })
}

#[test]
fn a_newcomer_that_has_the_device_to_itself_is_found() {
    let world = |seed| World {
        planted: Some(planted::LeastUsedFirst::start),
        ..worlds::with_a_newcomer(PolicyKind::Fair, seed)
    };
    holds(world, newcomers).unwrap_err();
}

// --- A newcomer runs beside the others, where one is to run at a time.

/// When how many clients had the most urgent work: times and numbers.
fn at_the_front(trace: &Trace) -> Vec<(Nanos, usize)> {
    let mut levels: BTreeMap<usize, (Option<Level>, bool)> = BTreeMap::new();
    let mut counts = Vec::new();
    for (time, client, act) in &trace.acts {
        let (level, ready) = levels.entry(*client).or_default();
        match act {
            Act::Ready => *ready = true,
            Act::Idle | Act::Closed => *ready = false,
            Act::Level(new) => *level = Some(*new),
            _ => continue,
        }
        let ready = || levels.values().filter(|(_, ready)| *ready).map(|(level, _)| *level);
        counts.push((*time, ready().filter(|level| Some(*level) == ready().min()).count()));
    }
    counts
}

/// For how long more, or fewer, clients than these had the most urgent work, from when they are all there.
fn front_is(trace: &Trace, is_wrong: impl Fn(usize) -> bool) -> Nanos {
    let counts = at_the_front(trace);
    let wrong = counts.array_windows().filter(|[(_, count), _]| is_wrong(*count));
    wrong.map(|[(from, _), (to, _)]| *to - *from.max(&ms(60))).sum()
}

/// Changes of levels take effect one after the other, and a newcomer is known a moment later.
fn one_at_a_time(trace: &Trace) -> Verdict {
    let beside = front_is(trace, |count| count > 1);
    if beside > trace.until / 100 + Delays::default().sum() {
        return Err(format!("several run at once, for {beside}"));
    }
    Ok(())
}

#[test]
fn newcomers_do_not_run_beside_others() -> Result<(), String> {
    EVEN.into_iter().chain([PolicyKind::Mlfq]).try_for_each(|policy| {
        holds(|seed| worlds::with_a_newcomer(policy, seed), one_at_a_time)
            .map_err(|broken| format!("policy {policy}, {broken}"))
    })
}

#[test]
fn newcomers_that_run_beside_others_are_found() {
    let world = |seed| World {
        planted: Some(planted::NewcomersBeside::start),
        ..worlds::with_a_newcomer(PolicyKind::Mlfq, seed)
    };
    holds(world, one_at_a_time).unwrap_err();
}

/// Under a multilevel feedback queue a newcomer is first until it has sunk to the others, and not for longer.
fn sinks(trace: &Trace) -> Verdict {
    let (newcomer, others) = trace.plans.split_last().ok_or("there is no client")?;
    let due = 100.0 / trace.plans.len() as f64;
    let part = trace.parts(newcomer.opens, newcomer.opens + ms(200))[others.len()];
    // Slices of 4, 8 and 16 ms before it comes to the others, and two that are not over.
    let most = due + (28.0 + 64.0) / 200.0 * 100.0;
    if part > most.min(95.0) {
        Err(format!("it has {part:.2} %, due are {most:.2} % at most"))
    } else {
        Ok(())
    }
}

#[test]
fn a_newcomer_sinks_to_the_others() -> Result<(), String> {
    holds(|seed| worlds::with_a_newcomer(PolicyKind::Mlfq, seed), sinks)
}

#[test]
fn a_newcomer_that_does_not_sink_is_found() {
    let world = |seed| World {
        planted: Some(planted::LeastUsedFirst::start),
        ..worlds::with_a_newcomer(PolicyKind::Mlfq, seed)
    };
    holds(world, sinks).unwrap_err();
}

// --- A process without a hint starves where others have shares.

fn the_rest_is_not_lost(trace: &Trace) -> Verdict {
    parts_are(trace, ms(500), trace.until, |client| [50.0, 25.0, 25.0][client], 1.0)
}

#[test]
fn a_process_without_a_share_gets_what_is_left() -> Result<(), String> {
    holds(|seed| worlds::partly_promised(PolicyKind::Partition, seed), the_rest_is_not_lost)
}

#[test]
fn a_process_without_a_hint_that_starves_is_found() {
    let world = |seed| World {
        planted: Some(planted::PromisedOnly::start),
        ..worlds::partly_promised(PolicyKind::Partition, seed)
    };
    holds(world, the_rest_is_not_lost).unwrap_err();
}

// --- Processes without work count among those with the earliest deadlines.

/// Two run side by side, while three or more have work.
fn two_at_a_time(trace: &Trace) -> Verdict {
    let alone = front_is(trace, |count| count < 2);
    if alone > trace.until / 20 { Err(format!("one runs alone for {alone}")) } else { Ok(()) }
}

#[test]
fn two_with_the_earliest_deadlines_run_side_by_side() -> Result<(), String> {
    holds(|seed| worlds::with_a_seldom_deadline(PolicyKind::Edf, seed, 2), two_at_a_time)
}

#[test]
fn a_process_without_work_that_takes_a_place_is_found() {
    let world = |seed| World {
        planted: Some(planted::IdleCount::start),
        ..worlds::with_a_seldom_deadline(PolicyKind::Edf, seed, 2)
    };
    holds(world, two_at_a_time).unwrap_err();
}
