use std::collections::HashMap;

use xsched_protocol::arbiter_page::{ArbiterChange, ArbiterEvent, ClaimWord};

use super::*;
use crate::simulation::{self, Act, World, worlds};
use crate::{Attributes, ProcessId};

/// In any simulation, with its delays.
#[test]
fn the_same_steps_lead_to_the_same_decisions() {
    for policy in PolicyKind::ALL {
        let (mut claims, mut changes) = (0, 0);
        for seed in 0..4 {
            let world = worlds::any(*policy, seed);
            let settings = world.settings;
            let trace = simulation::run(world);
            let steps =
                trace.steps.iter().map(|(time, event)| (*time, event.map_or(Step::Decide, Step::Change)));
            let decided = trace.decisions.iter();
            let decided =
                decided.flat_map(|(time, levels)| levels.iter().map(|(q, level)| (*time, *q, *level)));
            let decided: Vec<_> = decided.collect();
            claims += trace.plans.len();
            changes += decided.len();
            assert_eq!(replay(*policy, settings, steps), decided, "{policy}, seed {seed}");
        }
        assert!(changes > claims, "only first levels were decided");
    }
}

#[test]
fn other_steps_lead_to_other_decisions() {
    let settings = Settings::default();
    let trace = simulation::run(worlds::any(PolicyKind::Fair, 1));
    let steps = || trace.steps.iter().map(|(time, event)| (*time, event.map_or(Step::Decide, Step::Change)));
    let other = Settings { slice: Nanos::from_millis(5), ..settings };
    assert_ne!(replay(PolicyKind::Fair, settings, steps()), replay(PolicyKind::Fair, other, steps()));
    let later = steps().flat_map(|(time, step)| [(time, step), (time, Step::Policy(PolicyKind::Priority))]);
    assert_ne!(replay(PolicyKind::Fair, settings, steps()), replay(PolicyKind::Fair, settings, later));
}

/// The arbiter's events of a world with starving claims.
fn arbiter_events(world: World) -> (Vec<ArbiterEvent>, HashMap<u32, Attributes>) {
    let trace = simulation::run(world);
    let attributes =
        trace.plans.iter().enumerate().map(|(slot, plan)| (slot as u32, plan.attributes)).collect();
    let events = trace.acts.iter().filter_map(|(time, slot, act)| {
        let change = match act {
            Act::Opened => ArbiterChange::Opened,
            Act::Closed => ArbiterChange::Died,
            Act::Ready => ArbiterChange::Ready,
            Act::Idle => ArbiterChange::Idle,
            _ => return None,
        };
        let plan = &trace.plans[*slot];
        let word = ClaimWord::new(1, plan.attributes.device.0.into(), 0);
        Some(ArbiterEvent {
            time_ns: time.0,
            change: change as u32,
            slot: *slot as u32,
            word: word.0,
            ready: 0,
            owner: plan.attributes.process.0.into(),
        })
    });
    (events.collect(), attributes)
}

/// An event of the arbiter, for the scheduler.
fn event(of: &ArbiterEvent, attributes: &HashMap<u32, Attributes>) -> (Nanos, ClaimChange) {
    let claim = ClaimId(of.slot);
    let change = |change: ArbiterChange| of.change == change as u32;
    let event = if change(ArbiterChange::Opened) {
        let process = ProcessId(of.owner as u32);
        ClaimChange::Opened { claim, attributes: Attributes { process, ..attributes[&of.slot] } }
    } else if change(ArbiterChange::Ready) {
        ClaimChange::Ready { claim }
    } else if change(ArbiterChange::Idle) {
        ClaimChange::Idle { claim }
    } else {
        ClaimChange::Closed { claim }
    };
    (Nanos(of.time_ns), event)
}

/// A controller that sleeps for up to 7 ms and then takes all events from the ring, keeping to their own times.
fn late_controller(
    settings: Settings,
    events: &[ArbiterEvent],
    attributes: &HashMap<u32, Attributes>,
    until: Nanos,
) -> Vec<Decided> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut scheduler = Scheduler::new(PolicyKind::Priority, settings);
    let (mut decided, mut again, mut taken) = (Vec::new(), None, 0);
    let mut clock = Nanos::ZERO;
    while clock < until {
        clock = (clock + Nanos(random.u64(1..7_000_000))).min(until);
        let ring = events[taken..].iter().take_while(|event| event.time_ns <= clock.0);
        let batch: Vec<_> = ring.map(|of| event(of, attributes)).collect();
        taken += batch.len();
        for (time, event) in batch {
            pass(&mut scheduler, &mut again, time, &mut decided);
            scheduler.handle(time, event);
            again = decide(&mut scheduler, time, &mut decided);
        }
        pass(&mut scheduler, &mut again, clock, &mut decided);
    }
    decided
}

#[test]
fn the_arbiters_events_alone_lead_to_the_same_decisions() {
    let settings = Settings { starvation_bound: Nanos::from_millis(60), ..Settings::default() };
    let mut starved = 0;
    for seed in 0..8 {
        let mut world = worlds::any(PolicyKind::Priority, seed);
        world.settings = settings;
        let until = world.until;
        let (events, attributes) = arbiter_events(world);
        let live = late_controller(settings, &events, &attributes, until);
        let recorded = events.iter().map(|of| event(of, &attributes));
        assert_eq!(replay_events(PolicyKind::Priority, settings, recorded, until), live, "seed {seed}");
        starved += live.iter().filter(|(_, _, level)| *level == Level::STARVED).count();
    }
    assert!(starved > 0, "no decision was at a time of the scheduler's own");
}
