//! Random events at random times: what must hold after each decision.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::commands::LONGEST;
use crate::{Quota, Slo};

/// Runs for each policy.
const SEEDS: u64 = 16;

/// Names of claims, which are reused all the time, and processes, each with some of them on either device.
const CLAIMS: u32 = 8;
const PROCESSES: u32 = 5;

/// The claims of a device after the last decision.
#[derive(Default)]
struct Seen {
    /// Since when claims have waited, and since when they have a starvation slice.
    held: BTreeMap<ClaimId, Nanos>,
    slices: BTreeMap<ClaimId, Nanos>,
    /// When the last starvation slice began.
    last_turn: Option<Nanos>,
}

struct Run {
    scheduler: Scheduler,
    random: fastrand::Rng,
    now: Nanos,
    /// The longest quantum so far.
    quantum: Nanos,
    seen: BTreeMap<DeviceId, Seen>,
}

fn pick<T: Copy>(random: &mut fastrand::Rng, values: &[T]) -> T {
    values[random.usize(..values.len())]
}

fn some_attributes(random: &mut fastrand::Rng) -> Attributes {
    Attributes {
        priority: pick(random, &[0, 0, 0, 100]),
        weight: random.u32(0..1_000),
        share: random.bool().then(|| random.u8(0..=100)),
        stream_priority: random.i32(-1..=1),
        ceiling: pick(random, &[0, 1]),
        nice: random.i8(-20..20),
        quota: random.bool().then(|| Quota { time: ms(random.u64(..30)), window: ms(random.u64(..200)) }),
        deadline: random.bool().then(|| ms(random.u64(..60))),
        work: random.bool().then(|| ms(random.u64(..20))),
        slo: random.bool().then(|| Slo { per_mille: random.u16(..1_100), latency: ms(random.u64(..60)) }),
        ..Attributes::new(DeviceId(random.u16(..2)), ProcessId(random.u32(..PROCESSES)))
    }
}

fn some_settings(random: &mut fastrand::Rng) -> Settings {
    let starvation_bound = pick(random, &[ms(0), ms(10), ms(60), ms(400)]);
    Settings {
        starvation_bound,
        quantum: pick(random, &[Nanos::ZERO, ms(2), ms(20), ms(1_000)]),
        slice: pick(random, &[Nanos::ZERO, ms(1), ms(4)]),
        patience: pick(random, &[ms(20), ms(100), ms(3_000)]),
        serialize_equals: pick(random, &[ms(0), ms(20), ms(1_000)]),
        side_by_side: random.u32(..3),
        linger: pick(random, &[ms(0), ms(1)]),
    }
}

impl Run {
    fn new(policy: PolicyKind, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let scheduler = Scheduler::new(policy, some_settings(&mut random));
        let quantum = scheduler.settings().quantum;
        Self { scheduler, random, now: Nanos::ZERO, quantum, seen: BTreeMap::new() }
    }

    /// With `changes`, policy and settings may change during the run.
    fn steps(&mut self, count: usize, changes: bool) -> Result<(), String> {
        for _ in 0..count {
            let longest = 1 << self.random.u32(10..26);
            let next = self.now + Nanos(self.random.u64(..longest));
            self.pass(next)?;
            for _ in 0..self.random.usize(1..3) {
                self.happen(changes);
            }
            self.decide()?;
        }
        Ok(())
    }

    /// Decides whenever the scheduler asks for it.
    fn pass(&mut self, until: Nanos) -> Result<(), String> {
        let levels = |scheduler: &Scheduler| scheduler.claims().map(|claim| claim.level).collect::<Vec<_>>();
        let mut again = self.scheduler.decide(self.now).again;
        let (mut last, mut in_vain) = ((self.now, levels(&self.scheduler)), 0);
        while let Some(due) = again.filter(|due| *due < until) {
            self.now = due;
            again = self.decide()?;
            let now = (self.now, levels(&self.scheduler));
            in_vain = if now.1 == last.1 && now.0 - last.0 < MS / 10 { in_vain + 1 } else { 0 };
            if in_vain > 20 {
                return Err(format!("at {due} it has asked {in_vain} times for nothing"));
            }
            last = now;
        }
        self.now = until;
        Ok(())
    }

    fn happen(&mut self, changes: bool) {
        let claim = ClaimId(self.random.u32(..CLAIMS));
        let event = match self.random.u32(..40) {
            0..2 => ClaimChange::Opened { claim, attributes: some_attributes(&mut self.random) },
            2 => ClaimChange::Closed { claim },
            3 => ClaimChange::Changed { claim, attributes: some_attributes(&mut self.random) },
            4..8 => ClaimChange::Used {
                claim,
                device: Nanos(self.random.u64(..20_000_000)),
                commands: self.random.u64(..100),
            },
            8..14 => ClaimChange::Idle { claim },
            14 if changes => {
                let settings = some_settings(&mut self.random);
                self.scheduler.set_settings(self.now, settings);
                // A slice that has begun ends when it was to end.
                self.quantum = self.quantum.max(self.scheduler.settings().quantum);
                for Seen { held, last_turn, .. } in self.seen.values_mut() {
                    (*held, *last_turn) = (BTreeMap::new(), None);
                }
                return;
            }
            15 if changes => {
                return self.scheduler.set_policy(self.now, pick(&mut self.random, PolicyKind::ALL));
            }
            _ => ClaimChange::Ready { claim },
        };
        if let ClaimChange::Opened { .. } | ClaimChange::Changed { .. } = event {
            // It may be another claim now.
            for seen in self.seen.values_mut() {
                seen.held.remove(&claim);
            }
        }
        self.scheduler.handle(self.now, event);
    }

    fn decide(&mut self) -> Result<Option<Nanos>, String> {
        let again = self.scheduler.decide(self.now).again;
        if again.is_some_and(|again| again <= self.now) {
            return Err(format!("at {} it asks for {}", self.now, again.unwrap_or_default()));
        }
        let claims: Vec<_> = self.scheduler.claims().collect();
        for device in [0, 1].map(DeviceId) {
            let here: Vec<_> = claims.iter().filter(|claim| claim.attributes.device == device).collect();
            let verdict = self.look(device, &here).and_then(|()| self.slices_end(&here, again));
            verdict.map_err(|broken| format!("at {}: {broken}", self.now))?;
        }
        Ok(again)
    }

    fn look(&mut self, device: DeviceId, claims: &[&ClaimState]) -> Result<(), String> {
        let (now, settings) = (self.now, *self.scheduler.settings());
        let bound = settings.starvation_bound;
        let Seen { held, slices, last_turn } = self.seen.entry(device).or_default();
        let front = claims.iter().filter(|claim| claim.ready).filter_map(|claim| claim.level).min();
        let names: BTreeSet<_> = claims.iter().map(|claim| claim.id).collect();
        held.retain(|claim, _| names.contains(claim));
        slices.retain(|claim, _| names.contains(claim));
        for ClaimState { id: claim, level, ready, allowed, .. } in claims {
            let Some(level) = *level else { return Err(format!("{claim:?} has no level")) };
            if *allowed != front.is_none_or(|front| level <= front) {
                return Err(format!("{claim:?} is at {level:?}, the first that is ready at {front:?}"));
            }
            let since = *held.entry(*claim).or_insert(now);
            if *allowed || !ready {
                held.remove(claim);
            } else if !bound.is_zero() && now - since > bound {
                return Err(format!("{claim:?} waits since {since}"));
            }
            if level != Level::STARVED {
                slices.remove(claim);
                continue;
            }
            let began = *slices.entry(*claim).or_insert(now);
            if bound.is_zero() || now - began >= self.quantum {
                return Err(format!("the slice of {claim:?} lasts since {began}"));
            }
            let before = if began == now { last_turn.replace(now) } else { None };
            if before.is_some_and(|before| before < now && now - before < bound / 4) {
                return Err(format!("slices begin at {before:?} and {now}"));
            }
        }
        Ok(())
    }

    /// No process is in front for longer than the longest slice while its equals have work as well, or for longer than its starvation slice.
    fn slices_end(&self, claims: &[&ClaimState], again: Option<Nanos>) -> Result<(), String> {
        let is_turn = claims.iter().any(|claim| claim.ready && claim.level == Some(Level::STARVED));
        let longest = self.scheduler.settings().slice.times(LONGEST);
        let ends = again.is_some_and(|again| again <= self.now + longest);
        if is_turn || ends {
            return Ok(());
        }
        if self.scheduler.policy() == PolicyKind::Priority {
            return kept_out_by_equals(claims).map_or(Ok(()), |claim| {
                Err(format!("an equal keeps {claim:?} out, and it asks for {again:?}"))
            });
        }
        if !matches!(self.scheduler.policy(), PolicyKind::Fair | PolicyKind::Partition) {
            return Ok(());
        }
        let mut processes: BTreeMap<ProcessId, (i16, bool)> = BTreeMap::new();
        for claim in claims {
            let is_fair = self.scheduler.policy() == PolicyKind::Fair;
            let priority = if is_fair { claim.attributes.priority } else { 0 };
            let process = processes.entry(claim.attributes.process).or_insert((priority, false));
            *process = (process.0.max(priority), process.1 || claim.ready);
        }
        let ready = || processes.values().filter(|(_, ready)| *ready).map(|(priority, _)| *priority);
        let share = ready().filter(|priority| Some(*priority) == ready().max()).count();
        if share > 1 {
            return Err(format!("{share} share the device, and it asks for {again:?}"));
        }
        Ok(())
    }
}

/// A claim that must wait while one of another process is allowed that is as urgent, by process and stream.
fn kept_out_by_equals(claims: &[&ClaimState]) -> Option<ClaimId> {
    let urgency = |claim: &ClaimState| {
        let Attributes { priority, stream_priority, ceiling, .. } = claim.attributes;
        (i32::from(priority) + stream_priority).min(ceiling.max(priority).into())
    };
    let ready = || claims.iter().filter(|claim| claim.ready);
    let is_kept_out = |claim: &&&ClaimState| {
        let mut allowed = ready().filter(|other| other.allowed);
        let of_others = |other: &&ClaimState| other.attributes.process != claim.attributes.process;
        !claim.allowed && allowed.any(|other| of_others(other) && urgency(other) == urgency(claim))
    };
    ready().find(is_kept_out).map(|claim| claim.id)
}

fn holds(changes: bool) {
    for policy in PolicyKind::ALL {
        for seed in 0..SEEDS {
            let verdict = Run::new(*policy, seed).steps(1_000, changes);
            assert_eq!(verdict, Ok(()), "policy {policy}, seed {seed}");
        }
    }
}

#[test]
fn waits_and_slices_end_after_any_events() {
    holds(false);
}

#[test]
fn waits_and_slices_end_after_any_changes_of_settings() {
    holds(true);
}
