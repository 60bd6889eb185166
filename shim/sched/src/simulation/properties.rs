//! Properties of every policy, checked on random worlds; and faults that each check must find.

mod first_come;
mod planted;
mod requests;
mod slices;
mod xsched;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::client::{REPORT_EVERY, UNLIMITED, Work};
use super::trace::{Act, Trace};
use super::{Delays, World, run, worlds};
use crate::policy::Policy;
use crate::{Attributes, Level, Nanos, PolicyKind, Settings};
use first_come::FirstCome;
use planted::{NewestStarves, Reversed};

/// Worlds for each property and policy: as many as `XSCHED_TEST_SEEDS` says. Properties hold for 2,000:
/// `XSCHED_TEST_SEEDS=2000 cargo test --release -p xsched-sched simulation`.
fn seeds() -> Range<u64> {
    let count = std::env::var("XSCHED_TEST_SEEDS").ok();
    0..count.map_or(16, |count| count.parse().expect("`XSCHED_TEST_SEEDS` is a number"))
}

const fn ms(count: u64) -> Nanos {
    Nanos::from_millis(count)
}

/// Which property was violated, by which client and when.
type Verdict = Result<(), String>;

/// Checks a property on many worlds. The message has the seed of the first that violates it.
fn holds(world: impl Fn(u64) -> World, property: impl Fn(&Trace) -> Verdict) -> Verdict {
    seeds()
        .try_for_each(|seed| property(&run(world(seed))).map_err(|broken| format!("seed {seed}: {broken}")))
}

/// The same for each policy on the list.
fn holds_for_all(check: impl Fn(PolicyKind) -> Verdict) -> Verdict {
    PolicyKind::ALL
        .iter()
        .try_for_each(|policy| check(*policy).map_err(|broken| format!("policy {policy}, {broken}")))
}

// --- Order: no client launches while one of a higher priority is ready.

/// Whether the policy puts the first before the second, for as long as both exist.
fn goes_before(policy: PolicyKind, first: &Attributes, second: &Attributes) -> bool {
    match policy {
        PolicyKind::Priority => with_stream(first) > with_stream(second),
        PolicyKind::Fair => first.priority > second.priority,
        PolicyKind::Partition | PolicyKind::Mlfq => false,
        PolicyKind::Nice => nice_class(first) < nice_class(second),
        // A process that states its work goes first for that much time only.
        PolicyKind::Edf | PolicyKind::Laxity => {
            let has_deadline = |one: &Attributes| one.deadline.is_some();
            first.work.is_none() && has_deadline(first) && !has_deadline(second)
                || neither(first, second, has_deadline)
        }
        PolicyKind::Slo => neither(first, second, |one| one.slo.is_some()),
        PolicyKind::Quota => neither(first, second, |one| one.quota.is_some()),
    }
}

/// Whether neither is ever urgent and the first has the higher priority.
fn neither(first: &Attributes, second: &Attributes, may_be_urgent: fn(&Attributes) -> bool) -> bool {
    !may_be_urgent(first) && !may_be_urgent(second) && first.priority > second.priority
}

/// The classes of CPU nice values.
fn nice_class(attributes: &Attributes) -> usize {
    [-10, 0, 1].partition_point(|first| *first <= attributes.nice)
}

/// The priority of a claim's process, changed by that of its stream.
fn with_stream(attributes: &Attributes) -> i32 {
    let Attributes { priority, ceiling, stream_priority, .. } = *attributes;
    (i32::from(priority) + stream_priority).min(priority.max(ceiling).into()).clamp(-255, 255)
}

fn order(policy: PolicyKind) -> impl Fn(&Trace) -> Verdict {
    move |trace| {
        let mut ready: HashMap<usize, Nanos> = HashMap::new();
        let mut levels: HashMap<usize, Level> = HashMap::new();
        for (time, client, act) in &trace.acts {
            match act {
                Act::Ready => drop(ready.insert(*client, *time)),
                Act::Idle => drop(ready.remove(client)),
                Act::Level(level) => drop(levels.insert(*client, *level)),
                Act::Launched { .. } => {
                    let turn = levels.get(client) == Some(&Level::STARVED);
                    let own = &trace.plans[*client].attributes;
                    let urgent = ready.iter().find(|(other, since)| {
                        let other = &trace.plans[**other].attributes;
                        let known = **since + Delays::default().sum() < *time;
                        other.device == own.device && known && goes_before(policy, other, own)
                    });
                    if let (Some((other, since)), false) = (urgent, turn) {
                        return Err(format!("{client} launches at {time}, {other} is ready since {since}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[test]
fn no_client_launches_while_a_more_urgent_one_is_ready() -> Result<(), String> {
    holds_for_all(|policy| holds(|seed| worlds::any(policy, seed), order(policy)))
}

#[test]
fn a_policy_that_ranks_in_reverse_is_found() {
    let world = |seed| World { planted: Some(Reversed::start), ..worlds::any(PolicyKind::Priority, seed) };
    holds(world, order(PolicyKind::Priority)).unwrap_err();
}

// --- In flight: a client that may be preempted has little in flight.

/// The default limit.
const AHEAD: Nanos = Nanos::from_micros(100);

/// At most two kernels, or what the limit's time allows. A kernel that is taken for one of the shortest, four fifths of the usual
/// time, may be one of the longest, six fifths: half as long again.
fn in_flight(trace: &Trace) -> Verdict {
    for (time, client, act) in &trace.acts {
        if let Act::Launched { limited: true, count, time: ahead } = act
            && *count > 2
            && *ahead > AHEAD + AHEAD / 2
        {
            return Err(format!("{client} has {count} kernels of {ahead} in flight at {time}"));
        }
    }
    Ok(())
}

#[test]
fn a_client_that_may_be_preempted_has_little_in_flight() -> Result<(), String> {
    holds_for_all(|policy| holds(|seed| worlds::any(policy, seed), in_flight))
}

#[test]
fn a_client_without_a_limit_is_found() {
    let unlimited = |trace: &Trace| {
        let acts = trace.acts.iter().map(|(time, client, act)| match *act {
            Act::Launched { count, time: ahead, .. } => {
                (*time, *client, Act::Launched { limited: true, count, time: ahead })
            }
            act => (*time, *client, act),
        });
        in_flight(&Trace { acts: acts.collect(), ..Trace::default() })
    };
    holds(|seed| worlds::any(PolicyKind::Priority, seed), unlimited).unwrap_err();
}

// --- Work conservation: no device is idle while a client has work, except for delays.

/// A device is idle in sum for less than a hundredth of the run. A client that has learnt how long its kernels take beside others'
/// looks for a completion too late once, when it is alone.
fn conservation(trace: &Trace) -> Verdict {
    let delays = Delays::default();
    let longest = trace.plans.iter().map(|plan| plan.kernel).max().unwrap_or_default();
    // An urgent client notices that it has finished, lingers, and a waiting one wakes up.
    let unavoidable = delays.linger + delays.notice.times(2) + delays.sum() + longest / 8;
    for device in 0..trace.plans.len() as u16 {
        let mut running = false;
        let mut waiting: HashSet<usize> = HashSet::new();
        let mut idle_since = None;
        let mut wasted = Nanos::ZERO;
        let here = |client: usize| trace.plans[client].attributes.device.0 == device;
        for (time, client, act) in trace.acts.iter().filter(|(_, client, _)| here(*client)) {
            match act {
                Act::Blocked => drop(waiting.insert(*client)),
                Act::Allowed | Act::Idle | Act::Closed => drop(waiting.remove(client)),
                Act::Started => running = true,
                Act::Ended => running = false,
                _ => {}
            }
            if running || waiting.is_empty() {
                wasted += idle_since.take().map_or(Nanos::ZERO, |since| (*time - since) - unavoidable);
            } else {
                idle_since = idle_since.or(Some(*time));
            }
        }
        if wasted > trace.until / 100 {
            return Err(format!("device {device} was idle for {wasted} while a client waited"));
        }
    }
    Ok(())
}

#[test]
fn no_device_is_idle_while_a_client_has_work() -> Result<(), String> {
    holds_for_all(|policy| holds(|seed| worlds::any(policy, seed), conservation))
}

#[test]
fn a_client_that_stays_ready_without_work_is_found() {
    let delays = Delays { linger: ms(5), ..Delays::default() };
    let world = |seed| World { delays, ..worlds::any(PolicyKind::Priority, seed) };
    holds(world, conservation).unwrap_err();
}

// --- Starvation: no client with work waits for longer than the bound, and being allowed for a quantum is worth a bound.

/// When a client had work and masks did not let it launch. It may not have noticed moments in between in which masks let it; they
/// count all the same, until the patience is over.
fn kept_waiting(trace: &Trace, client: usize) -> Vec<(Nanos, Nanos)> {
    let mut times = Vec::new();
    let mut since = None;
    for (time, act) in trace.of(client) {
        match act {
            Act::Blocked | Act::Kept => since = since.or(Some(time)),
            Act::Allowed | Act::Chance | Act::Idle => times.extend(since.take().map(|since| (since, time))),
            _ => {}
        }
    }
    times.extend(since.map(|since| (since, trace.until)));
    times
}

fn starvation(settings: Settings) -> impl Fn(&Trace) -> Verdict {
    move |trace| {
        let late = Delays::default().sum();
        let worth = settings.starvation_bound.0 / settings.quantum.0;
        // A client that comes to the front just as an urgent one becomes ready counts as allowed until the report arrives.
        let believed = Delays::default().hear.times(worth);
        for client in 0..trace.plans.len() {
            let waits = kept_waiting(trace, client);
            for (from, to) in trace.times(client, Act::Ready, Act::Idle) {
                // Waiting time less what being allowed has taken back, from the worst beginning; but client and scheduler see these
                // times begin and end at different moments.
                let (mut waited, mut end) = (Nanos::ZERO, from);
                for (began, ended) in waits.iter().filter(|(began, ended)| *began < to && *ended > from) {
                    let (began, ended) = (*began.max(&from), *ended.min(&to));
                    waited = waited - ((began - end) + late.times(2)).times(worth);
                    waited += ended - began;
                    end = ended;
                    if waited > settings.starvation_bound + late.times(2) + believed {
                        return Err(format!("{client} waits from {began} to {ended}, {waited} in sum"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A bound that takes effect in so short a run.
const BOUND: Settings = Settings {
    starvation_bound: ms(60),
    quantum: ms(5),
    slice: Nanos::from_millis(4),
    patience: Nanos::from_millis(100),
    serialize_equals: Nanos::from_secs(1),
    side_by_side: 1,
    linger: Nanos::from_micros(100),
};

#[test]
fn no_client_waits_for_longer_than_the_bound() -> Result<(), String> {
    holds_for_all(|policy| {
        holds(|seed| World { settings: BOUND, ..worlds::any(policy, seed) }, starvation(BOUND))
    })
}

#[test]
fn the_bound_holds_for_a_policy_under_which_all_starve() -> Result<(), String> {
    let world = |seed| World {
        settings: BOUND,
        planted: Some(NewestStarves::start),
        ..worlds::any(PolicyKind::Priority, seed)
    };
    holds(world, starvation(BOUND))
}

/// The policy that `docs/policies.md` shows is a policy, and the page has all of it.
#[test]
fn the_page_on_policies_shows_a_policy() -> Result<(), String> {
    let page = include_str!("../../../../docs/policies.md");
    assert!(page.contains(include_str!("properties/first_come.rs")), "the page shows another text");
    let start: fn() -> Box<dyn Policy> = || Box::<FirstCome>::default();
    let world =
        |seed| World { settings: BOUND, planted: Some(start), ..worlds::any(PolicyKind::Priority, seed) };
    holds(world, starvation(BOUND))?;
    holds(world, conservation)
}

#[test]
fn a_scheduler_without_a_bound_is_found() {
    let settings = Settings { starvation_bound: Nanos::ZERO, ..BOUND };
    let world = |seed| World { settings, ..worlds::any(PolicyKind::Priority, seed) };
    holds(world, starvation(BOUND)).unwrap_err();
}

// --- One at a time: urgent work that pauses for a moment finds kernels of one of several equals, not of each.

/// How many others have kernels on the device each time that the first client becomes ready. It is seldom more than one: when a
/// slice ended just before, or several have a starvation slice together. Slices that ended only when they were used up would lead to
/// several in a tenth of these times.
fn equals_are_serialized(trace: &Trace) -> Verdict {
    let mut in_flight = vec![0_u32; trace.plans.len()];
    let mut found = Vec::new();
    for (time, client, act) in &trace.acts {
        match act {
            Act::Launched { .. } => in_flight[*client] += 1,
            Act::Ended => in_flight[*client] -= 1,
            Act::Ready if *client == 0 && *time > SHARED_FROM => {
                found.push(in_flight.iter().skip(1).filter(|count| **count > 0).count());
            }
            _ => {}
        }
    }
    let of_several = found.iter().filter(|others| **others > 1).count();
    if found.is_empty() || of_several * 16 > found.len() {
        return Err(format!("{of_several} of {} times it finds kernels of several others", found.len()));
    }
    Ok(())
}

#[test]
fn equals_have_kernels_on_the_device_one_at_a_time() -> Result<(), String> {
    holds(|seed| worlds::saturated_in_moments(PolicyKind::Priority, seed), equals_are_serialized)
}

#[test]
fn equals_that_are_side_by_side_are_found() {
    let settings = Settings { serialize_equals: Nanos::ZERO, ..Settings::default() };
    let world = |seed| World { settings, ..worlds::saturated_in_moments(PolicyKind::Priority, seed) };
    holds(world, equals_are_serialized).unwrap_err();
}

// --- Fairness: clients that always have work are charged for device time in proportion to weights, and for what they used.

const SHARED_FROM: Nanos = ms(100);

/// Charges are in proportion to weights. Of two clients that always have work, each may be ahead of the other by what it gets
/// until the next decision. That is a slice, its use since its last report, and what it has in flight by then. While a client is
/// alone that is not limited, and the amount is known when others are there.
fn fairness(settings: Settings) -> impl Fn(&Trace) -> Verdict {
    move |trace| {
        let Some((from, to, charged)) = trace.charged(SHARED_FROM) else {
            return Err("no reports".to_owned());
        };
        let all: Nanos = charged.iter().copied().sum();
        let weights: u32 = trace.plans.iter().map(|plan| plan.attributes.weight).sum();
        let in_flight = |client: usize| {
            let limited = trace.plans[client].longest().times(2).max(AHEAD + AHEAD / 2);
            let was_alone =
                trace.of(client).any(|(_, act)| matches!(act, Act::Launched { limited: false, .. }));
            if was_alone { trace.plans[client].longest().times(UNLIMITED as u64) } else { limited }
        };
        let unseen = settings.slice + REPORT_EVERY;
        let ahead: Vec<_> = (0..charged.len()).map(|client| (unseen + in_flight(client)).0 as f64).collect();
        let sum: f64 = ahead.iter().sum();
        for (client, charged) in charged.into_iter().enumerate() {
            let part = f64::from(trace.plans[client].attributes.weight) / f64::from(weights);
            let due = Nanos((all.0 as f64 * part) as u64);
            // Beside each of the others, of whose advance it has its own part.
            let bound = Nanos(((1.0 - part) * ahead[client] + part * (sum - ahead[client])) as u64);
            if charged > due + bound || charged + bound < due {
                return Err(format!(
                    "{client} is charged for {charged} from {from} to {to}, due are {due}, give or take {bound}"
                ));
            }
        }
        Ok(())
    }
}

/// Within a number of percentage points.
fn parts_are(trace: &Trace, from: Nanos, to: Nanos, due: impl Fn(usize) -> f64, within: f64) -> Verdict {
    for (client, part) in trace.parts(from, to).into_iter().enumerate() {
        let due = due(client);
        if (part - due).abs() > within {
            return Err(format!("{client} has {part:.2} % from {from} to {to}, due are {due:.2} %"));
        }
    }
    Ok(())
}

#[test]
fn charges_are_in_proportion_to_weights() -> Result<(), String> {
    holds(|seed| worlds::saturated(PolicyKind::Fair, seed), fairness(Settings::default()))
}

#[test]
fn charges_are_in_proportion_to_weights_if_kernels_are_as_long_as_slices() -> Result<(), String> {
    let settings = Settings { slice: ms(1), ..Settings::default() };
    let world = |seed| World { settings, ..worlds::saturated(PolicyKind::Fair, seed) };
    holds(world, fairness(settings))
}

#[test]
fn a_policy_that_does_not_share_is_found() {
    let world = |seed| worlds::saturated(PolicyKind::Priority, seed);
    holds(world, fairness(Settings::default())).unwrap_err();
}

/// The charge is the use within a quarter, where slices are as long as six kernels.
///
/// A kernel beside which others' may have run is charged as what its class is expected to take, or up to a quarter more. The
/// expectation lies between the shortest time, a fifth less than usual, and the longest. Where kernels are as long as slices it
/// cannot be learnt: all measured times include kernels of others.
fn accuracy(trace: &Trace) -> Verdict {
    let Some((from, to, charged)) = trace.charged(SHARED_FROM) else { return Err("no reports".to_owned()) };
    for (client, charged) in charged.into_iter().enumerate() {
        let used = trace.used(client, from, to);
        // Both ends become known a report later.
        let (least, most) = (used - used / 4 - REPORT_EVERY, used + used / 4 + REPORT_EVERY);
        if !(least..=most).contains(&charged) {
            return Err(format!("{client} is charged for {charged} from {from} to {to}, it used {used}"));
        }
    }
    Ok(())
}

#[test]
fn charges_are_what_was_used() -> Result<(), String> {
    holds(|seed| worlds::saturated(PolicyKind::Fair, seed), accuracy)
}

/// So device time is in proportion to weights. How exactly depends on the estimates of kernels; in most worlds within half a point.
#[test]
fn device_time_is_in_proportion_to_weights() {
    let mut furthest: Vec<_> =
        seeds().map(|seed| furthest_from_due(&run(worlds::saturated(PolicyKind::Fair, seed)))).collect();
    furthest.sort_by(f64::total_cmp);
    let median = furthest[furthest.len() / 2];
    assert!(median < 0.5, "half of the worlds are {median:.2} points off or more");
}

/// The largest difference between a client's part and its due, in percentage points.
fn furthest_from_due(trace: &Trace) -> f64 {
    let sum: u32 = trace.plans.iter().map(|plan| plan.attributes.weight).sum();
    let due = trace.plans.iter().map(|plan| f64::from(plan.attributes.weight) / f64::from(sum) * 100.0);
    let parts = trace.parts(SHARED_FROM, trace.until);
    parts.into_iter().zip(due).map(|(part, due)| (part - due).abs()).fold(0.0, f64::max)
}

#[test]
fn kernels_that_are_too_long_to_be_told_apart_are_found() {
    let settings = Settings { slice: Nanos::from_micros(500), ..Settings::default() };
    let world = |seed| World { settings, ..worlds::saturated_by_long_kernels(PolicyKind::Fair, seed) };
    holds(world, accuracy).unwrap_err();
}

/// Slices are longer for them.
#[test]
fn long_kernels_are_charged_what_they_used() -> Result<(), String> {
    holds(|seed| worlds::saturated_by_long_kernels(PolicyKind::Fair, seed), accuracy)
}

/// What an urgent client leaves is divided by weight, in moments and slices. Within a number of percentage points of the device.
fn fairness_of_the_rest(within: f64) -> impl Fn(&Trace) -> Verdict {
    move |trace| {
        let weight = |client: usize| f64::from(trace.plans[client].attributes.weight);
        let urgent = trace.parts(SHARED_FROM, trace.until)[0];
        let sum: f64 = (1..trace.plans.len()).map(weight).sum();
        let due = |client| if client == 0 { urgent } else { weight(client) / sum * (100.0 - urgent) };
        parts_are(trace, SHARED_FROM, trace.until, due, within)
    }
}

#[test]
fn the_rest_is_divided_by_weight() -> Result<(), String> {
    holds(|seed| worlds::saturated_in_moments(PolicyKind::Fair, seed), fairness_of_the_rest(2.0))
}

/// Long kernels that begin in moments take much longer than these, and what they have used ends a slice.
#[test]
fn the_rest_is_divided_among_long_kernels() -> Result<(), String> {
    let world = |seed| {
        let mut world = worlds::saturated_in_moments(PolicyKind::Fair, seed);
        world.plans.iter_mut().skip(1).for_each(|plan| plan.kernel = ms(2));
        world
    };
    holds(world, fairness_of_the_rest(5.0))
}

#[test]
fn a_policy_that_does_not_divide_the_rest_is_found() {
    holds(|seed| worlds::saturated_in_moments(PolicyKind::Priority, seed), fairness_of_the_rest(2.0))
        .unwrap_err();
}

/// In the first tenth of a second a newcomer gets its due, within a slice or two. What others have in flight when it comes runs
/// beside its own first, and is not shared: one that was alone has no limit.
fn newcomers(trace: &Trace) -> Verdict {
    let (newcomer, others) = trace.plans.split_last().ok_or("there is no client")?;
    let time = ms(100);
    let part = trace.parts(newcomer.opens, newcomer.opens + time)[others.len()];
    let due = 100.0 / trace.plans.len() as f64;
    let each = if others.len() == 1 { UNLIMITED as u64 } else { 2 };
    let backlog: Nanos = others.iter().map(|other| other.longest().times(each)).sum();
    let percent = |part: Nanos| part.0 as f64 / time.0 as f64 * 100.0;
    let (least, most) = (due * percent(time - backlog) / 100.0, due);
    let slices = percent(Settings::default().slice.times(2));
    if (least - slices..=most + slices).contains(&part) {
        Ok(())
    } else {
        Err(format!("it has {part:.2} %, due are {least:.2} to {most:.2} %"))
    }
}

// --- Partition: 75 to 25 within a point in every second, and no time is lost.

fn partition(trace: &Trace) -> Verdict {
    let second = ms(1_000);
    let busy: Nanos = (0..2).map(|client| trace.used(client, second, second.times(3))).sum();
    if busy.0 * 100 < second.times(2).0 * 99 {
        return Err(format!("{busy} of {} are used", second.times(2)));
    }
    for half in 2..=4 {
        let from = ms(500).times(half);
        parts_are(trace, from, from + second, |client| [75.0, 25.0][client], 1.0)?;
    }
    Ok(())
}

#[test]
fn a_partition_holds_within_a_point_in_a_second() -> Result<(), String> {
    holds(|seed| worlds::partitioned(PolicyKind::Partition, seed), partition)
}

#[test]
fn a_policy_without_promises_is_found() {
    holds(|seed| worlds::partitioned(PolicyKind::Fair, seed), partition).unwrap_err();
}

/// A client with a promise whose work comes and goes gets what it asks for, beside one that always has work.
#[test]
fn a_promise_holds_for_work_that_comes_and_goes() {
    for seed in seeds() {
        let mut world = worlds::partitioned(PolicyKind::Partition, seed);
        world.plans[0].kernel = Nanos::from_micros(500);
        // 10 ms of work, and then 10 ms of pause: half of the device, which is less than it is promised.
        world.plans[0].work = Work::Requests { kernels: 20, pause: ms(10) };
        let trace = run(world);
        let share = trace.parts(ms(1_000), ms(3_000))[0];
        assert!((35.0..60.0).contains(&share), "seed {seed}: {share} %");
    }
}
