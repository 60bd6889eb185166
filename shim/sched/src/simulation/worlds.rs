//! Random worlds.

use super::client::{Misses, Plan, Work};
use super::{Delays, World};
use crate::{Attributes, DeviceId, Nanos, PolicyKind, ProcessId, Settings};

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
    let processes: Vec<_> = (0..6).map(&mut process).collect();
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
            misses: Misses::default(),
            seed,
        });
    }
    World { policy, settings: Settings::default(), delays: Delays::default(), plans, until, planted: None }
}

/// Clients that always have work, on one device.
fn always_busy(policy: PolicyKind, seed: u64, until: Nanos, clients: &[Attributes]) -> World {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = |(index, attributes): (usize, &Attributes)| Plan {
        attributes: *attributes,
        opens: Nanos(random.u64(0..ms(50).0)),
        closes: None,
        work: Work::Saturating,
        // Four or more of them in a slice.
        kernel: length(&mut random).min(ms(1)),
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
