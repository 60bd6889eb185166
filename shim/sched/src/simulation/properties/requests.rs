//! What policies by request and by window promise: deadlines, latencies, quotas.

use super::{Verdict, holds, ms, parts_are, seeds};
use crate::simulation::trace::{Act, Trace};
use crate::simulation::worlds::{self, LoadStep, STEP_AT};
use crate::simulation::{Delays, run};
use crate::{Nanos, PolicyKind};

// --- Quota: each has its time in every second, and the others the rest.

fn quotas(trace: &Trace) -> Verdict {
    for half in 2..=6 {
        let from = ms(500).times(half);
        parts_are(trace, from, from + ms(1_000), |client| [20.0, 30.0, 50.0][client], 1.0)?;
    }
    Ok(())
}

#[test]
fn a_quota_holds_within_a_point_in_a_second() -> Result<(), String> {
    holds(worlds::with_quotas, quotas)
}

#[test]
fn a_policy_without_quotas_is_found() {
    holds(|seed| worlds::with_quotas(seed).under(PolicyKind::Fair), quotas).unwrap_err();
}

/// What no other process wants is not kept from a process that has used up its quota.
#[test]
fn a_process_alone_has_the_whole_device() {
    for seed in seeds() {
        let mut world = worlds::with_quotas(seed);
        world.plans.truncate(1);
        let used = run(world).used(0, ms(1_000), ms(2_000));
        assert!(used > ms(990), "seed {seed}: {used}");
    }
}

// --- Deadlines: what can be done in time is.

/// A process that never finishes gets what it has said for each deadline, and no more while others have work. What it got while they had
/// none is not held against it.
#[test]
fn a_process_takes_its_work_for_each_deadline_and_no_more() -> Result<(), String> {
    for policy in [PolicyKind::Edf, PolicyKind::Laxity] {
        holds(
            |seed| worlds::with_work_by_deadline(policy, seed),
            |trace| {
                let alone = trace.used(0, ms(100), ms(900));
                if alone < ms(780) {
                    return Err(format!("{alone} while no other process wants the device"));
                }
                parts_are(trace, ms(1_100), ms(2_100), |client| [10.0, 90.0][client], 1.5)
            },
        )?;
    }
    Ok(())
}

/// A request: when it came, when it is due, and the device time that it took.
#[derive(Clone, Copy, Debug)]
struct Job {
    came: Nanos,
    due: Nanos,
    took: Nanos,
    was_in_time: bool,
}

fn jobs(trace: &Trace) -> Vec<Job> {
    let with_deadline =
        trace.plans.iter().enumerate().filter_map(|(client, plan)| Some((client, plan.attributes.deadline?)));
    let job = |(client, deadline): (usize, Nanos)| {
        let (came, idle) = trace.times(client, Act::Ready, Act::Idle)[0];
        let due = came + deadline;
        let was_in_time = idle - Delays::default().linger <= due;
        Job { came, due, took: trace.used(client, Nanos::ZERO, trace.until), was_in_time }
    };
    with_deadline.map(job).collect()
}

/// Whether one after the other, interrupted at will, all of these can be done in time: those due first go first.
fn are_feasible(jobs: &[Job]) -> bool {
    let mut left: Vec<_> = jobs.iter().map(|job| (job.came, job.due, job.took)).collect();
    let mut now = Nanos::ZERO;
    while let Some(next) = left.iter().map(|(came, ..)| *came).min() {
        now = now.max(next);
        let first = left.iter_mut().filter(|(came, ..)| *came <= now).min_by_key(|(_, due, _)| *due);
        let Some(first) = first else { return true };
        let Some(due) = (now + first.2 <= first.1).then_some(first.1) else { return false };
        let (came, took) = (first.0, first.2);
        let until = left.iter().map(|(came, ..)| *came).filter(|came| *came > now).min();
        let ran = until.map_or(took, |until| took.min(until - now));
        now += ran;
        let index = left.iter().position(|job| *job == (came, due, took)).unwrap_or_default();
        left[index].2 = took - ran;
        left.retain(|(.., took)| !took.is_zero());
    }
    true
}

/// How many miss their deadlines at least: every set of them is tried.
fn fewest_misses(jobs: &[Job]) -> u32 {
    let sets = 0_u32..1 << jobs.len();
    let feasible = sets.filter(|set| {
        let chosen = jobs.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1);
        are_feasible(&chosen.map(|(_, job)| *job).collect::<Vec<_>>())
    });
    jobs.len() as u32 - feasible.map(u32::count_ones).max().unwrap_or_default()
}

/// What a request loses in the simulation, which an ideal schedule does not: kernels of others run when it comes to the front, and its
/// client looks for its first kernels one by one.
const LOST: Nanos = Nanos::from_micros(1_000);

/// The fewest misses if each request took as much longer as it may lose.
fn optimum(jobs: &[Job]) -> u32 {
    fewest_misses(&jobs.iter().map(|job| Job { took: job.took + LOST, ..*job }).collect::<Vec<_>>())
}

/// If an offline schedule could keep all deadlines, all are kept.
fn no_more_misses_than_the_optimum(trace: &Trace) -> Verdict {
    let jobs = jobs(trace);
    let missed = jobs.iter().filter(|job| !job.was_in_time).count();
    if optimum(&jobs) == 0 && missed > 0 {
        return Err(format!("{missed} miss deadlines that can be kept: {jobs:?}"));
    }
    Ok(())
}

#[test]
fn deadlines_that_can_be_kept_are_kept() -> Result<(), String> {
    [PolicyKind::Edf, PolicyKind::Laxity].into_iter().try_for_each(|policy| {
        let many = seeds().end * 8;
        (0..many).try_for_each(|seed| {
            no_more_misses_than_the_optimum(&run(worlds::with_deadlines(policy, seed)))
                .map_err(|broken| format!("policy {policy}, seed {seed}: {broken}"))
        })
    })
}

#[test]
fn a_policy_without_deadlines_is_found() {
    holds(|seed| worlds::with_deadlines(PolicyKind::Fair, seed), no_more_misses_than_the_optimum)
        .unwrap_err();
}

#[test]
fn these_worlds_have_deadlines_that_can_be_kept_and_others() {
    let fewest = |seed| optimum(&jobs(&run(worlds::with_deadlines(PolicyKind::Edf, seed))));
    let feasible = seeds().filter(|seed| fewest(*seed) == 0).count();
    assert!(feasible * 4 > seeds().count() && feasible < seeds().count(), "{feasible}");
}

// --- SLO: two seconds after a change the latency is what it is to be, and the others get the rest.

const STEPS: [LoadStep; 5] = [
    LoadStep::Own([30, 60]),
    LoadStep::Own([60, 20]),
    LoadStep::Own([10, 80]),
    LoadStep::Others,
    LoadStep::Another,
];

/// The percentile of the latencies of a client's requests that begin in this time.
fn latency(trace: &Trace, client: usize, from: Nanos, to: Nanos) -> Option<Nanos> {
    let slo = trace.plans[client].attributes.slo?;
    let requests = trace.times(client, Act::Ready, Act::Idle).into_iter();
    let requests = requests.filter(|(began, ended)| *began >= from && *ended < to);
    let mut latencies: Vec<_> =
        requests.map(|(began, ended)| ended - began - Delays::default().linger).collect();
    crate::requests::percentile(&mut latencies, slo.per_mille)
}

/// Within 5 % of what it is to be: not later, and not sooner, at the expense of others.
fn slo(trace: &Trace) -> Verdict {
    for (client, plan) in trace.plans.iter().enumerate() {
        let Some(slo) = plan.attributes.slo else { continue };
        let settled = STEP_AT + ms(2_000);
        for (from, to) in
            [(ms(2_000), STEP_AT), (settled, trace.until)].into_iter().filter(|(from, _)| *from > plan.opens)
        {
            let latency = latency(trace, client, from, to).ok_or("there are no requests")?;
            if latency.0.abs_diff(slo.latency.0) * 20 > slo.latency.0 {
                return Err(format!(
                    "{client} has {latency} from {from} to {to}, it is to be {}",
                    slo.latency
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn an_slo_is_kept_within_5_percent_2_seconds_after_a_step() -> Result<(), String> {
    holds(|seed| worlds::with_an_slo(PolicyKind::Slo, seed, STEPS[seed as usize % STEPS.len()]), slo)
}

#[test]
fn policies_without_feedback_are_found() {
    for policy in [PolicyKind::Fair, PolicyKind::Edf] {
        holds(|seed| worlds::with_an_slo(policy, seed, STEPS[0]), slo).unwrap_err();
    }
}

/// The others get what the requests leave: of 12 ms and a pause, all but what these take.
#[test]
fn others_get_what_an_slo_allows() {
    for seed in seeds().step_by(4) {
        let mut world = worlds::with_an_slo(PolicyKind::Slo, seed, LoadStep::Own([30, 60]));
        for plan in &mut world.plans {
            // Longer ones make the requests' times unequal: most are done sooner than they have to be.
            plan.kernel = plan.kernel.min(Nanos::from_micros(150));
        }
        let trace = run(world);
        let part = trace.parts(STEP_AT + ms(2_000), trace.until)[0];
        assert!((45.0..51.0).contains(&part), "seed {seed}: 6 ms of 12.5 are 48 %, it has {part}");
    }
}
