//! Random worlds.

use super::client::{Misses, Plan, Work};
use super::{Delays, Gates, World};
use crate::{Attributes, DeviceId, Nanos, PolicyKind, ProcessId, Quota, Settings, Slo};

const fn ms(count: u64) -> Nanos {
    Nanos::from_millis(count)
}

/// Everything at random: devices, arrivals, priorities, weights, shares, opening and closing.
pub(crate) fn any(policy: PolicyKind, seed: u64) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let until = ms(400);
    let devices = random.u16(1..=2);
    let mut process = |index| Attributes {
        priority: *random.choice(&[-255, -1, 0, 0, 0, 1, 100]).unwrap_or(&0),
        ceiling: random.i16(0..3),
        weight: random.u32(0..300),
        share: random.bool().then(|| random.u8(0..=100)),
        ..Attributes::new(DeviceId(0), ProcessId(index))
    };
    let processes: Vec<_> = (0..6).map(&mut process).map(|process| with_hints(process, seed)).collect();
    let mut plans = Vec::new();
    for index in 0..random.u32(2..=4) * u32::from(devices) {
        let mut attributes = processes[random.usize(0..processes.len())];
        attributes.device = DeviceId(random.u16(0..devices));
        attributes.stream_priority = *random.choice(&[-1, 0, 0, 0, 1]).unwrap_or(&0);
        let opens = Nanos(random.u64(0..until.0 / 3));
        let closes = random.bool().then(|| Nanos(random.u64(until.0 / 2..2 * until.0)));
        let work = if random.bool() {
            Work::Saturating
        } else {
            Work::Requests { kernels: random.u32(1..60), pause: Nanos(random.u64(1_000..40_000_000)) }
        };
        let seed = seed << 8 | u64::from(index);
        plans.push(Plan {
            attributes,
            opens,
            closes,
            work,
            kernel: length(&mut random),
            gates: Gates::None,
            misses: Misses::default(),
            seed,
        });
    }
    World { policy, settings: Settings::default(), delays: Delays::default(), plans, until, planted: None }
}

/// Some processes have a quota, deadlines or an SLO, some several of these.
fn with_hints(attributes: Attributes, seed: u64) -> Attributes {
    let mut random = fastrand::Rng::with_seed(!seed << 8 | u64::from(attributes.process.0));
    let mut time = |least, most| random.bool().then(|| Nanos(random.u64(ms(least).0..ms(most).0)));
    let quota = time(1, 50).map(|time| Quota { time, window: ms(100) });
    let (deadline, work, latency) = (time(2, 60), time(1, 10), time(2, 60));
    let slo = latency.map(|latency| Slo { per_mille: 990, latency });
    Attributes { nice: random.i8(-20..20), quota, deadline, work, slo, ..attributes }
}

/// Clients that always have work, on one device.
fn always_busy(policy: PolicyKind, seed: u64, until: Nanos, clients: &[Attributes]) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = |(index, attributes): (usize, &Attributes)| Plan {
        attributes: *attributes,
        opens: Nanos(random.u64(0..ms(50).0)),
        closes: None,
        work: Work::Saturating,
        // Six or so of them in a slice of usual length.
        kernel: length(&mut random).min(Nanos::from_micros(700)),
        gates: Gates::None,
        misses: Misses::default(),
        seed: seed << 8 | index as u64,
    };
    let plans = clients.iter().enumerate().map(plan).collect();
    World { policy, settings: Settings::default(), delays: Delays::default(), plans, until, planted: None }
}

/// Weights from one to ten.
pub(super) fn saturated(policy: PolicyKind, seed: u64) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let clients: Vec<_> = (0..random.u32(2..=5))
        .map(|index| Attributes { weight: random.u32(50..=500), ..process(index) })
        .collect();
    always_busy(policy, seed, ms(2_000), &clients)
}

/// Weights from one to ten, and kernels nearly as long as the settings' slices.
pub(super) fn saturated_by_long_kernels(policy: PolicyKind, seed: u64) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = saturated(policy, seed);
    for plan in &mut world.plans {
        plan.kernel = Nanos(random.u64(ms(1).0..ms(3).0));
    }
    world
}

/// Weights from one to ten, beside an urgent client that pauses often, but only for a moment.
pub(super) fn saturated_in_moments(policy: PolicyKind, seed: u64) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut clients: Vec<_> = (0..random.u32(3..=5))
        .map(|index| Attributes { weight: random.u32(50..=500), ..process(index) })
        .collect();
    clients[0].priority = 100;
    let mut world = always_busy(policy, seed, ms(3_000), &clients);
    let pause = Nanos::from_micros(random.u64(100..2_000));
    world.plans[0].work = Work::Requests { kernels: random.u32(10..100), pause };
    world
}

/// The last one comes after half a second.
pub(super) fn with_a_newcomer(policy: PolicyKind, seed: u64) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let clients: Vec<_> = (0..random.u32(2..=4)).map(process).collect();
    let mut world = always_busy(policy, seed, ms(700), &clients);
    if let Some(last) = world.plans.last_mut() {
        last.opens = ms(500);
    }
    world
}

/// Two, of which the first is promised three quarters.
pub(super) fn partitioned(policy: PolicyKind, seed: u64) -> World {
    let clients =
        [Attributes { share: Some(75), ..process(0) }, Attributes { share: Some(25), ..process(1) }];
    let mut world = always_busy(policy, seed, ms(3_000), &clients);
    for plan in &mut world.plans {
        plan.kernel = plan.kernel.min(Nanos::from_micros(500));
    }
    world
}

/// One is the most urgent and always has work. The others have work, too, get nothing but starvation slices, and sleep through some.
pub(super) fn with_sleepers(policy: PolicyKind, seed: u64, settings: Settings) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let priority = |index| if index == 0 { 100 } else { -(index as i16 % 3) };
    let clients: Vec<_> = (0..random.u32(2..=5))
        .map(|index| Attributes { priority: priority(index), ..process(index) })
        .collect();
    let mut world =
        World { settings, ..always_busy(policy, seed, settings.starvation_bound.times(8), &clients) };
    for plan in &mut world.plans {
        plan.kernel = plan.kernel.max(Nanos::from_micros(100));
    }
    for plan in world.plans.iter_mut().skip(1) {
        plan.opens = Nanos(random.u64(0..settings.starvation_bound.times(2).0));
        let in_a_row = random.u32(0..4);
        plan.misses = Misses { in_a_row, asleep: settings.quantum.times(random.u64(2..=3)) };
    }
    world
}

/// One is the most urgent and pauses often, but only for a moment. The others always have work and are too slow for moments; a
/// starvation slice is long enough for them.
pub(super) fn with_moments(policy: PolicyKind, seed: u64, settings: Settings) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = with_sleepers(policy, seed, settings);
    let pause = Nanos::from_micros(random.u64(100..600));
    world.plans[0].work = Work::Requests { kernels: random.u32(10..100), pause };
    for plan in world.plans.iter_mut().skip(1) {
        plan.misses = Misses { in_a_row: u32::MAX, asleep: settings.quantum / 2 };
    }
    world
}

fn process(index: u32) -> Attributes {
    Attributes::new(DeviceId(0), ProcessId(index))
}

/// From 30 us to 3 ms, as many in each octave.
fn length(random: &mut fastrand::Rng) -> Nanos {
    Nanos((30_000.0 * 100_f64.powf(random.f64())) as u64)
}

/// Two with a quota, in windows of unequal length, and one without. All always have work.
pub(super) fn with_quotas(seed: u64) -> World {
    let quota = |time, window| Some(Quota { time: ms(time), window: ms(window) });
    let clients = [
        Attributes { quota: quota(20, 100), ..process(0) },
        Attributes { quota: quota(300, 1_000), ..process(1) },
        process(2),
    ];
    let mut world = always_busy(PolicyKind::Quota, seed, ms(4_000), &clients);
    for plan in &mut world.plans {
        plan.kernel = plan.kernel.min(Nanos::from_micros(500));
    }
    world
}

/// Three, of which two have shares that leave something.
pub(super) fn partly_promised(policy: PolicyKind, seed: u64) -> World {
    let clients = [
        Attributes { share: Some(50), ..process(0) },
        Attributes { share: Some(25), ..process(1) },
        process(2),
    ];
    let mut world = always_busy(policy, seed, ms(2_500), &clients);
    for plan in &mut world.plans {
        plan.kernel = plan.kernel.min(Nanos::from_micros(500));
    }
    world
}

/// A few with one request each, which all can be done by their deadlines, or not; and two that always have work, without a deadline.
/// One would have more on the device when the others come.
pub(super) fn with_deadlines(policy: PolicyKind, seed: u64) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let clients: Vec<_> = (0..random.u32(4..=6)).map(process).collect();
    let mut world = always_busy(policy, seed, ms(120), &clients);
    for plan in world.plans.iter_mut().skip(2) {
        let kernels = random.u32(15..60);
        plan.kernel = Nanos::from_micros(100);
        plan.opens = ms(5) + Nanos(random.u64(0..ms(20).0));
        plan.work = Work::Requests { kernels, pause: Nanos::from_secs(3_600) };
        let most = plan.kernel.times(u64::from(kernels) * 11) / 10;
        // Beside kernels it needs the time for which those of others still run.
        plan.attributes.work = Some(most + Nanos::from_micros(500));
        plan.attributes.deadline = Some(Nanos((most.0 as f64 * (1.2 + 3.0 * random.f64())) as u64));
    }
    for plan in world.plans.iter_mut().take(2) {
        (plan.kernel, plan.opens) = (Nanos::from_micros(100), Nanos::ZERO);
    }
    world
}

/// A process that always has work and is to have 5 of each 50 ms, and after a second one without a deadline.
pub(super) fn with_work_by_deadline(policy: PolicyKind, seed: u64) -> World {
    let own = Attributes { deadline: Some(ms(50)), work: Some(ms(5)), ..process(0) };
    let mut world = always_busy(policy, seed, ms(2_200), &[own, process(1)]);
    for plan in &mut world.plans {
        plan.kernel = Nanos::from_micros(100);
    }
    (world.plans[0].opens, world.plans[1].opens) = (Nanos::ZERO, ms(1_000));
    world
}

/// Deadlines of unequal length: the first is due soonest and seldom has work, the others have some most of the time.
pub(super) fn with_a_seldom_deadline(policy: PolicyKind, seed: u64, side_by_side: u32) -> World {
    let clients: Vec<_> = (0..4)
        .map(|index| Attributes { deadline: Some(ms(10 + 10 * u64::from(index))), ..process(index) })
        .collect();
    let mut world = always_busy(policy, seed, ms(500), &clients);
    world.settings.side_by_side = side_by_side;
    for plan in &mut world.plans {
        plan.kernel = Nanos::from_micros(100);
    }
    world.plans[0].work = Work::Requests { kernels: 1, pause: ms(100) };
    world
}

/// What changes for a process with an SLO.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoadStep {
    /// Its requests take longer, or less long.
    Own([u32; 2]),
    /// Another process comes.
    Others,
    /// A second process with an SLO comes.
    Another,
}

/// When that happens.
pub(super) const STEP_AT: Nanos = ms(4_000);

/// A process with an SLO of 12 ms, whose requests take some milliseconds, beside others that always have work.
pub(super) fn with_an_slo(policy: PolicyKind, seed: u64, step: LoadStep) -> World {
    let slo = Some(Slo { per_mille: 990, latency: ms(12) });
    let another =
        if matches!(step, LoadStep::Another) { Some(Slo { per_mille: 990, latency: ms(20) }) } else { None };
    let clients = [Attributes { slo, ..process(0) }, process(1), Attributes { slo: another, ..process(2) }];
    let mut world = always_busy(policy, seed, STEP_AT + ms(5_000), &clients);
    world.settings.linger = world.delays.linger;
    let kernels = if let LoadStep::Own(kernels) = step { kernels } else { [30, 30] };
    let pause = Nanos::from_micros(500);
    world.plans[0].work = Work::Step { kernels, at: STEP_AT, pause };
    world.plans[0].kernel = Nanos::from_micros(100);
    if !matches!(step, LoadStep::Own(_)) {
        world.plans[2].opens = STEP_AT;
    }
    if another.is_some() {
        world.plans[2].work = Work::Step { kernels: [40, 40], at: STEP_AT, pause };
        world.plans[2].kernel = Nanos::from_micros(100);
    }
    world
}
